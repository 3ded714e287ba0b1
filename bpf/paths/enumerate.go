package paths

import (
	"iter"
	"slices"

	"github.com/kjit-project/kjit/bpf"
)

// Path is one way through a program.
type Path struct {
	PCs []int // the instructions executed, the deciding one last
	End       // Cond has the inputs that take the path
}

// Paths enumerates the paths through the program that some input may take, from
// the first branch taken to the last not taken. Their conditions have no input
// in common. A path whose condition has atoms may turn out to be impossible.
//
// They may be exponentially many: stop when it is enough. An error, as from
// [Space.Explore], is the last that is yielded; its path is empty.
func (s *Space) Paths(prog bpf.Program, opt Options) iter.Seq2[Path, error] {
	return func(yield func(Path, error) bool) {
		e, err := s.explorer(prog, opt)
		if err != nil {
			yield(Path{}, err)
			return
		}
		w := walker{e: e, yield: yield}
		if opt.Within != Never {
			w.todo = []turn{{pc: 0, at: arrival{e.start, opt.Within}}}
		}
		for len(w.todo) > 0 {
			if more, err := w.next(); err != nil {
				yield(Path{}, err)
				return
			} else if !more {
				return
			}
		}
	}
}

// turn is a place to go on from: the path to it has depth instructions.
type turn struct {
	pc, depth int
	at        arrival
}

type walker struct {
	e     *explorer
	path  []int
	todo  []turn
	found []Path
	yield func(Path, error) bool
}

// next executes one instruction, and yields the paths that end there. What the
// caller does in yield is not its own to catch.
func (w *walker) next() (more bool, err error) {
	if err := w.step(); err != nil {
		return false, err
	}
	for _, p := range w.found {
		if !w.yield(p, nil) {
			return false, nil
		}
	}
	w.found = w.found[:0]
	return true, nil
}

func (w *walker) step() (err error) {
	defer Catch(&err)
	t := w.todo[len(w.todo)-1]
	w.todo = w.todo[:len(w.todo)-1]
	w.path = append(w.path[:t.depth], t.pc)
	mark := len(w.todo)
	w.e.step(t.pc, t.at, step{
		next: func(pc int, st state, c Cond) {
			w.todo = append(w.todo, turn{pc, len(w.path), arrival{st, c}})
		},
		end:  func(e End) { w.found = append(w.found, Path{slices.Clone(w.path), e}) },
		test: func(Test) {},
	})
	slices.Reverse(w.todo[mark:])
	return nil
}
