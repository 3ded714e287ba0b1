package harness_test

import (
	"slices"
	"testing"

	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// TestForms: over the corpus, images of kjit's own ARM forms are not larger than
// those of the kernel's JIT that they are made from, and no input executes more
// instructions. Programs that the kernel's JIT gets wrong, for some input, are
// left out: what is right may take more.
//
// Loads in place on x86_64 make images larger by what they are, and each that goes to
// the helper after all executes some 6 instructions more. There a program executes
// fewer for all linear packets together, if it has any load that is in them.
func TestForms(t *testing.T) {
	progs, err := corpus.Programs()
	if err != nil {
		t.Fatal(err)
	}
	packets, err := corpus.Packets()
	if err != nil {
		t.Fatal(err)
	}
	var linear, all []kernelabi.Input
	for i := range packets {
		linear = append(linear, packets[i].Skb)
		all = append(all, packets[i].Skb, packets[i].Skb.Split(14), packets[i].Skb.Split(0))
	}
	beyond := []string{"abs-past-end", "fault-ind-negative", "fault-neg-size-allowed", "ind-largest", "ind-past-end", "neg-ind"}
	for _, test := range []struct {
		kernel, own string
		inPlace     bool
	}{
		{"linux-4.5-armv5", "kjit-armv5", false},
		{"linux-4.5-armv7", "kjit-armv7", false},
		{"linux-4.5-armv7-idiv", "kjit-armv7-idiv", false},
		{"linux-3.10-x86_64", "inline-x86_64", true},
	} {
		t.Run(test.own, func(t *testing.T) {
			kernel, own, compared := newFormed(t, test.kernel), newFormed(t, test.own), 0
			inputs := all
			if test.inPlace {
				inputs = linear
			}
			for i := range progs {
				p := &progs[i]
				was, old, ok := kernel.run(t, p, inputs)
				if !ok {
					continue
				}
				is, now, ok := own.run(t, p, inputs)
				if !ok {
					t.Errorf("%s: no image, or a wrong one", p.Name)
					continue
				}
				compared++
				if is > was && !test.inPlace {
					t.Errorf("%s: %d bytes, and %s has %d", p.Name, is, test.kernel, was)
				}
				if test.inPlace && !slices.Contains(beyond, p.Name) {
					if o, n := sum(old), sum(now); n > o {
						t.Errorf("%s: all packets execute %d instructions, and with %s %d", p.Name, n, test.kernel, o)
					}
				}
				for i := range now {
					if o, n := old[i].Executed, now[i].Executed; n > o && !test.inPlace {
						t.Errorf("%s: packet %d executes %d instructions, and with %s %d", p.Name, i, n, test.kernel, o)
					}
				}
			}
			if compared < len(progs)/2 {
				t.Errorf("only %d of %d programs were compared", compared, len(progs))
			}
		})
	}
}

func sum(outcomes []harness.Outcome) (n uint64) {
	for i := range outcomes {
		n += outcomes[i].Executed
	}
	return n
}

// formed is a JIT with the interpreter beside it.
type formed struct {
	jit       *harness.JIT
	reference *harness.Interpreter
}

func newFormed(t *testing.T, profile string) *formed {
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	jit, err := harness.NewJIT(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jit.Close() })
	return &formed{jit, harness.NewInterpreter(p)}
}

// run returns the size of the image of a program in bytes, and what comes of the
// inputs. ok is false if there is no image, or one that is wrong.
func (f *formed) run(t *testing.T, p *corpus.Program, inputs []kernelabi.Input) (size int, out []harness.Outcome, ok bool) {
	want, err := f.reference.Run(p.Program, p.Kind, inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := f.jit.Image(p.Program, p.Kind)
	if err != nil {
		return 0, nil, false
	}
	if out, err = f.jit.RunImage(img, inputs, nil); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if harness.Compare(want[i], out[i]) != harness.Agree {
			return 0, nil, false
		}
	}
	return len(img.Code), out, true
}
