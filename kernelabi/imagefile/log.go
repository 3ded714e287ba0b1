package imagefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dumpMark is in every line of a dump.
const dumpMark = "JIT code: "

// The lines of a dump (Linux, bpf_jit_dump, with net.core.bpf_jit_enable = 2),
// behind whatever a log puts in front of them:
//
//	flen=18 proglen=147 pass=3 image=ffffffffa00b5000 from=tcpdump pid=20583
//	JIT code: 00000000: 55 48 89 e5 ...
//
// The number before the bytes is an offset, or an address before Linux 3.11 or
// so, when there was no from= and pid= either.
var (
	logHeader = pattern(`flen=(\d+) proglen=(\d+) pass=(\d+) image=\s*(?:0x)?(\S+)(?: from=(.*) pid=(\d+))?`)
	logDump   = pattern(dumpMark + `([0-9a-fA-F]{1,16}):((?: ?[0-9a-fA-F]{2}\b)*)\s*(.*)`)
	// logCaller is who printed a line, where the kernel tells: a thread or a
	// processor.
	logCaller = pattern(`\[\s*([TC]\d+)\]`)
)

// logLine is a line of a dump.
type logLine struct {
	at     int // in the log
	number uint64
	code   []byte
	rest   string // what follows the bytes
	caller string // who prints it
}

// logPart is a header with the lines up to the next one.
type logPart struct {
	*openImage // nil in front of the first header
	lines      []logLine
}

// openImage is one whose dump has not come to its end.
type openImage struct {
	Entry
	size    int    // bytes there will be; 0: nobody said
	caller  string // who prints it
	header  string
	started bool
	stopped bool   // lines of it are missing: it takes no more
	base    uint64 // what the first line's number is: 0, or an address
}

// next reports whether the line with that number follows.
func (o *openImage) next(number uint64) bool {
	if o.started {
		return number == o.base+uint64(len(o.Code))
	}
	return number == 0 || number == o.Printed || o.Printed == 0 && isAddress(number)
}

// isAddress tells the number of a first line that is an address from one that
// is an offset, of a line whose predecessors are missing.
func isAddress(number uint64) bool { return number >= MaxImage }

// repeats reports whether the line has been there before.
func (o *openImage) repeats(number uint64, code []byte) bool {
	off := number - o.base
	return o.started && off < uint64(len(o.Code)) && bytes.HasPrefix(o.Code[off:], code)
}

// want is how many bytes its next line has.
func (o *openImage) want() int {
	if o.size == 0 {
		return 0 // any number
	}
	return min(16, o.size-len(o.Code))
}

func (o *openImage) add(number uint64, code []byte) {
	if !o.started {
		o.started, o.base = true, number
		if number != 0 {
			o.Printed = number
		}
	}
	o.Code = append(o.Code, code...)
}

func (o *openImage) complete() bool { return o.started && (o.size == 0 || len(o.Code) == o.size) }

// ReadLog reads the images of a kernel log, in the order of their headers. The
// lines may have any prefix, and other lines, or those of other images, between
// them: lines of mixed dumps go where they fit, if there is one way only. A dump
// without a header counts as an image when it is the only one open. Images that
// are not complete are errors, as are lines that belong nowhere; the others are
// returned all the same.
func ReadLog(file string, data []byte) ([]Entry, error) {
	l := logReader{file: file, parts: []logPart{{}}}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := string(bytes.TrimRight(line, "\r\n"))
		switch { // most lines of a log are about other things
		case strings.Contains(text, dumpMark):
			if m := logDump().FindStringSubmatch(text); m != nil {
				l.dump(n, text, m)
			} else {
				l.bad(n, "after JIT code: there is no offset and bytes")
			}
		case strings.Contains(text, "flen="):
			if m := logHeader().FindStringSubmatch(text); m != nil {
				l.header(n, text, m)
			}
		}
	}
	l.assemble()
	var entries []Entry
	for i, o := range l.images {
		o.Number = i + 1
		switch {
		case o.complete():
			entries = append(entries, o.Entry)
		case !o.started:
			l.bad(o.Line, "the image has a header and no bytes")
		default:
			l.bad(o.Line, "the image has %d of %d bytes: the log is cut, or lines are missing", len(o.Code), o.size)
		}
	}
	if len(l.images) == 0 && len(l.errs) == 0 {
		l.bad(0, "there is no image in the log (flen=... proglen=..., JIT code: ...)")
	}
	slices.SortStableFunc(l.errs, func(a, b *Error) int { return a.Line - b.Line })
	var errs []error
	for _, e := range l.errs[:min(len(l.errs), maxErrors)] {
		errs = append(errs, e)
	}
	return entries, errors.Join(errs...)
}

// logReader is a log half read.
type logReader struct {
	file   string
	parts  []logPart
	images []*openImage // in the order of their headers, or first lines
	errs   []*Error
}

// maxErrors is how many faults of one log are told.
const maxErrors = 10

func (l *logReader) bad(line int, format string, args ...any) {
	if len(l.errs) < 1000 {
		l.errs = append(l.errs, &Error{l.file, line, fmt.Sprintf(format, args...)})
	}
}

func (l *logReader) header(n int, text string, m []string) {
	o := &openImage{Entry: Entry{File: l.file, Line: n, Form: Log, Comm: m[5]}, caller: caller(text, m[0]), header: m[0]}
	var err [3]error
	o.Insns, err[0] = strconv.Atoi(m[1])
	o.size, err[1] = strconv.Atoi(m[2])
	o.Pass, err[2] = strconv.Atoi(m[3])
	if e := cmp.Or(err[0], err[1], err[2]); e != nil || o.size == 0 || o.size > MaxImage {
		l.bad(n, "proglen=%s, flen=%s, pass=%s: an image has 1 to %d bytes", m[2], m[1], m[3], MaxImage)
		return
	}
	if m[4] == "(null)" || strings.Trim(m[4], "0") == "" {
		l.bad(n, "image=%s: the JIT gave up, there is no image", m[4])
		return
	}
	o.PID, _ = strconv.Atoi(m[6])
	// "(ptrval)" and the like are no address.
	o.Printed, _ = strconv.ParseUint(m[4], 16, 64)
	if last := l.parts[len(l.parts)-1]; last.openImage != nil && last.header == o.header && last.caller == o.caller && len(last.lines) == 0 {
		return // printed twice
	}
	l.parts = append(l.parts, logPart{openImage: o})
}

func (l *logReader) dump(n int, text string, m []string) {
	number, err := strconv.ParseUint(m[1], 16, 64)
	code := parseBytes(m[2])
	if err != nil || len(code) == 0 {
		l.bad(n, "after JIT code: there are no bytes")
		return
	}
	part := &l.parts[len(l.parts)-1]
	part.lines = append(part.lines, logLine{n, number, code, m[3], caller(text, m[0])})
}

// caller returns who printed a line, from what is in front of the match.
func caller(text, match string) string {
	prefix, _, _ := strings.Cut(text, match)
	if m := logCaller().FindStringSubmatch(prefix); m != nil {
		return m[1]
	}
	return ""
}

// parseBytes reads hex bytes separated by blanks.
func parseBytes(text string) []byte {
	var out []byte
	for _, field := range strings.Fields(text) {
		b, err := strconv.ParseUint(field, 16, 8)
		if err != nil {
			return nil
		}
		out = append(out, byte(b))
	}
	return out
}
