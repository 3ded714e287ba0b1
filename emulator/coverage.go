package emulator

import (
	"errors"
	"unsafe"

	"github.com/kjit-project/kjit/emulator/internal/uc"
)

// Edges is the length of [Machine.EdgeMap].
const Edges = uc.Edges

// coverageFrames hold the map, and which edges were new last, as 32-bit words.
const coverageFrames = (1 + 4) * Edges / pageSize

// maxProgram is the number of instructions that Linux takes (BPF_MAXINSNS).
const maxProgram = 4096

// WithCoverage makes a machine that notes which blocks of native code run after
// which, of images as well as of the kernel's routines, at some 1 ns a block.
//
// Blocks of an image are known by the rule and form of the BPF instruction that
// they are in ([kernelabi.Image.Rules]) and their offset in its code, or if
// that is not known by their offset in the image. So equal code gives equal
// edges wherever it is loaded, and programs that differ only in what was
// covered before add nothing.
func WithCoverage() Option { return func(o *options) { o.coverage = true } }

// EdgeMap returns the map of edges: 1 at the hash of each that was seen. It is
// the machine's memory, valid until Close; what is set in it before does not
// count as new.
func (m *Machine) EdgeMap() []byte { return m.edges }

// NewEdges returns how many edges the machine has seen that its map did not
// have.
func (m *Machine) NewEdges() uint64 {
	if m.engine == nil {
		return m.edgesBefore
	}
	return m.engine.NewEdges()
}

// EdgesSince appends to out where in the map those edges are that were new after
// the first n, in no order. The last [Edges] are known.
func (m *Machine) EdgesSince(n uint64, out []uint32) []uint32 {
	end := m.NewEdges()
	for n = max(n, end-min(end, Edges)); n < end; n++ {
		out = append(out, m.found[n%Edges])
	}
	return out
}

// buildCoverage makes the map, of frames that are mapped nowhere.
func (m *Machine) buildCoverage() error {
	if !m.opts.coverage {
		return nil
	}
	pa, err := m.mem.take(coverageFrames)
	if err != nil {
		return err
	}
	m.edges = m.mem.bytes(pa, Edges)
	m.found = unsafe.Slice((*uint32)(unsafe.Pointer(&m.mem.ram[pa+Edges])), Edges)
	return nil
}

// cover makes a new engine use it.
func (m *Machine) cover() error {
	if !m.opts.coverage {
		return nil
	}
	return m.engine.Cover(m.edges, m.found, m.edgesBefore, maxProgram)
}

// setRules tells the engine what the blocks of the loaded image are known by.
func (m *Machine) setRules() error {
	if !m.opts.coverage {
		return nil
	}
	img := m.image
	n := len(img.Rules)
	if n > maxProgram || n > 0 && len(img.PCMap) != n+1 {
		return errors.New("the image has other rules than its program has instructions")
	}
	m.engine.SetRules(img.Base, img.PCMap, img.Rules)
	return nil
}
