package imagefile

import (
	"hash/maphash"
	"slices"
)

// assemble finds the image of every line. An image whose lines follow its header
// up to the next header, and nothing else, has its own, whatever happened to
// others. What is between such images is put together apart.
func (l *logReader) assemble() {
	var mixed []*logPart
	for i := range l.parts {
		part := &l.parts[i]
		switch whole := part.whole(); {
		case whole != nil && !couldBe(part, mixed):
			l.sort(mixed)
			mixed = nil
			l.images = append(l.images, whole)
		case part.openImage != nil || len(part.lines) > 0:
			mixed = append(mixed, part)
		}
	}
	l.sort(mixed)
	slices.SortStableFunc(l.images, func(a, b *openImage) int { return a.Line - b.Line })
}

// whole returns the image with its lines if they are all there and no others,
// else nil.
func (p *logPart) whole() *openImage {
	if p.openImage == nil {
		return nil
	}
	o := *p.openImage
	for i := range p.lines {
		line := &p.lines[i]
		switch {
		case o.complete() || !o.next(line.number):
			if !o.repeats(line.number, line.code) {
				return nil
			}
		case len(line.code) != o.want():
			return nil
		default:
			o.add(line.number, line.code)
		}
	}
	if !o.complete() {
		return nil
	}
	return &o
}

// couldBe reports whether the lines of a whole image may as well be those of an
// image before it that has none.
func couldBe(whole *logPart, before []*logPart) bool {
	return slices.ContainsFunc(before, func(p *logPart) bool {
		o := p.openImage
		return o != nil && len(p.lines) == 0 && o.size == whole.size && o.caller == whole.caller && o.next(whole.lines[0].number)
	})
}

// sort puts dumps together that are damaged, or mixed.
func (l *logReader) sort(parts []*logPart) {
	if len(parts) == 0 {
		return
	}
	if sortOut(parts) {
		for _, p := range parts {
			l.images = append(l.images, p.openImage)
		}
		return
	}
	m := &mixture{logReader: l}
	for _, p := range parts {
		if p.openImage != nil {
			m.images = append(m.images, p.openImage)
		}
		for i := range p.lines {
			m.line(&p.lines[i])
		}
	}
	l.images = append(l.images, m.images...)
}

// Bounds for sortOut. Kernels mix the dumps of as many processors as happen to
// compile at a time: of two, as a rule.
const (
	maxMixed  = 6       // images
	maxStates = 256     // ways that are looked at beside each other
	maxSteps  = 1 << 18 // and in all
)

// progress is how far an image has got.
type progress struct {
	size    int
	base    uint64 // number of its first line
	started bool
	sum     uint64 // of its bytes
}

// state is one way to put the lines so far together.
type state struct {
	images [maxMixed]progress
	before *state
	to     int // the image that the last line went to
}

// sortOut looks for the way in which every line of the parts has its place and
// every image is complete. It succeeds if there is exactly one.
func sortOut(parts []*logPart) bool {
	if parts[0].openImage == nil || len(parts) < 2 || len(parts) > maxMixed {
		return false
	}
	seed := maphash.MakeSeed()
	states := []*state{{}}
	var lines []*logLine
	steps := 0
	for n, p := range parts {
		for i := range p.lines {
			lines = append(lines, &p.lines[i])
			var next []*state
			seen := map[[maxMixed]progress]bool{}
			for _, s := range states {
				for to, open := range parts[:n+1] {
					if after := s.give(&p.lines[i], to, open.openImage, seed); after != nil && !seen[after.images] {
						seen[after.images] = true
						next = append(next, after)
					}
				}
			}
			states = next
			if steps += len(states); len(states) == 0 || len(states) > maxStates || steps > maxSteps {
				return false
			}
		}
	}
	states = slices.DeleteFunc(states, func(s *state) bool {
		for i, p := range parts {
			if s.images[i].size != p.size {
				return true
			}
		}
		return false
	})
	if len(states) != 1 {
		return false
	}
	s := states[0]
	to := make([]int, len(lines))
	for i := len(lines) - 1; i >= 0; i-- {
		to[i], s = s.to, s.before
	}
	for i, line := range lines {
		parts[to[i]].add(line.number, line.code)
	}
	return true
}

// give returns the state in which an image has one line more, nil if the line
// does not fit there.
func (s *state) give(line *logLine, to int, o *openImage, seed maphash.Seed) *state {
	p := s.images[to]
	if line.caller != o.caller || p.size == o.size || len(line.code) != min(16, o.size-p.size) {
		return nil
	}
	if !p.started {
		p.started, p.base = o.next(line.number), line.number
	}
	if !p.started || line.number != p.base+uint64(p.size) {
		return nil
	}
	p.size += len(line.code)
	p.sum = p.sum*1000003 ^ maphash.Bytes(seed, line.code)
	after := &state{s.images, s, to}
	after.images[to] = p
	return after
}

// mixture is dumps of which not every line has its place, as far as they are
// read.
type mixture struct {
	*logReader
	images []*openImage
}

// recent are the images that lines may still belong to.
func (m *mixture) recent() []*openImage { return m.images[max(0, len(m.images)-64):] }

// line gives a line to the image that it fits, if there is one and only one.
func (m *mixture) line(line *logLine) {
	var fits []*openImage
	repeated := false
	for _, o := range m.recent() {
		switch {
		case o.size != 0 && o.complete():
			repeated = repeated || o.repeats(line.number, line.code)
		case o.next(line.number) && !o.stopped:
			fits = append(fits, o)
		case o.repeats(line.number, line.code):
			repeated = true
		}
	}
	fits = prefer(fits, func(o *openImage) bool { return line.caller != "" && o.caller == line.caller })
	fits = prefer(fits, func(o *openImage) bool { return o.size == 0 || o.want() == len(line.code) })
	switch {
	case len(fits) == 0 && repeated:
		return
	case len(fits) == 0 && (line.number == 0 || isAddress(line.number)) && !m.open():
		o := &openImage{Entry: Entry{File: m.file, Line: line.at, Form: Log}, caller: line.caller}
		m.images = append(m.images, o)
		fits = []*openImage{o}
	case len(fits) == 0:
		m.bad(line.at, "%s%08x: no image goes on there: lines before it are missing", dumpMark, line.number)
		m.stop(line)
		return
	case len(fits) > 1:
		m.bad(line.at, "%s%08x: the images of lines %d and %d both go on there: their dumps are mixed and cannot be told apart",
			dumpMark, line.number, fits[0].Line, fits[1].Line)
		for _, o := range fits {
			o.stopped = true
		}
		return
	}
	o := fits[0]
	code := line.code
	if o.size != 0 {
		if len(code) < o.want() {
			m.bad(line.at, "%d bytes, want %d (then %.20q)", len(code), o.want(), line.rest)
			o.stopped = true
			return
		}
		code = code[:o.want()]
	}
	if len(o.Code)+len(code) > MaxImage {
		m.bad(line.at, "the image has more than %d bytes", MaxImage)
		o.stopped = true
		return
	}
	o.add(line.number, code)
}

// prefer leaves those that fit better, if there are any.
func prefer(fits []*openImage, better func(*openImage) bool) []*openImage {
	if len(fits) < 2 {
		return fits
	}
	var best []*openImage
	for _, o := range fits {
		if better(o) {
			best = append(best, o)
		}
	}
	if len(best) == 0 {
		return fits
	}
	return best
}

// stop closes the image that a line without a place can only be of: it lacks
// what was in front of that line.
func (m *mixture) stop(line *logLine) {
	var lacking []*openImage
	for _, o := range m.recent() {
		off := line.number - o.base
		if !o.complete() && !o.stopped && off < uint64(o.size) && off > uint64(len(o.Code)) {
			lacking = append(lacking, o)
		}
	}
	if len(lacking) == 1 {
		lacking[0].stopped = true
	}
}

// open reports whether an image with a header waits for lines.
func (m *mixture) open() bool {
	return slices.ContainsFunc(m.recent(), func(o *openImage) bool { return !o.complete() && !o.stopped })
}
