package seccomp

import (
	"context"
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/guestcode"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Target is what executes filters: the JIT of a profile, or the interpreter of a
// kernel on the same machine.
type Target struct {
	Profile     *kernelabi.Profile
	Interpreter bool
}

// Targets returns those of [JITs], with the interpreter or without a JIT.
func Targets(interpreter bool) []Target {
	var out []Target
	for _, name := range JITs() {
		p, err := kernelabi.ProfileByName(name)
		if err != nil {
			panic(err) // the names are constants of this package
		}
		out = append(out, Target{p, interpreter})
	}
	return out
}

// String is the profile's name, or "interpreter-" and the architecture.
func (t Target) String() string {
	if t.Interpreter {
		return "interpreter-" + string(t.Profile.Arch)
	}
	return t.Profile.Name
}

// Carries reports whether processes on the target's machine can make calls of an
// ABI. Code runs on other calls just as well: it only reads what they are.
func (t Target) Carries(abi *seccompdata.ABI) bool {
	native := seccompdata.ARM
	if t.Profile.Arch == kernelabi.X86_64 {
		native = seccompdata.X86_64
	}
	return seccompdata.NativeOf(abi) == native
}

// Costs are what the filters of a task execute.
type Costs struct {
	Targets []TargetCode
	Calls   []CallCost
}

// TargetCode is what became of the filters on a target.
type TargetCode struct {
	Target
	Bytes int // size of all images; an interpreted filter's has the interpreter in it

	// Declined are the filters that the JIT leaves to the interpreter, which
	// runs them here too; 0 is the oldest.
	Declined map[int]*kernelabi.Refusal
}

// CallCost is what is executed for one call where no cache helps: all filters
// run, whatever they say. What a kernel spends on the way to them is not in it.
type CallCost struct {
	Call     seccompdata.Data
	Decision seccompdata.Decision // Executed has the instructions of BPF
	Native   []uint64             // instructions of the machine, by target
	Cached   bool                 // the kernel knows the result, and runs no filter
}

// DisagreementError is code that does not do what the filter says.
type DisagreementError struct {
	Target Target
	Filter int // 0 is the oldest
	Call   seccompdata.Data
	Want   uint32
	Got    harness.Outcome
}

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("filter %d, call %d of architecture %#x: %s gives %s, the reference %#x",
		e.Filter, int32(e.Call.Nr), e.Call.Arch, e.Target, e.Got.Long(), e.Want)
}

// Count executes the filters for each call on all targets, in the emulator. The
// cache is that of the task; nil stands for a kernel without one. An error is
// that of ctx, a *DisagreementError, or one of the emulator.
func Count(ctx context.Context, chain seccompdata.Chain, cache *seccompdata.Cache, k seccompdata.Kernel, targets []Target, calls []seccompdata.Data) (*Costs, error) {
	c := &Costs{Calls: make([]CallCost, len(calls))}
	inputs := make([]kernelabi.Input, len(calls))
	for i, call := range calls {
		inputs[i] = &kernelabi.Syscall{Data: call}
		c.Calls[i] = CallCost{
			Call: call, Decision: chain.Run(&call, k), Native: make([]uint64, len(targets)),
			Cached: cache != nil && cache.Has(call.Arch, call.Nr),
		}
	}
	for i, t := range targets {
		code, err := c.count(ctx, i, t, chain, inputs)
		if err != nil {
			return nil, err
		}
		c.Targets = append(c.Targets, *code)
	}
	return c, nil
}

// count adds what one target executes: each filter is loaded once, and run on
// all calls.
func (c *Costs) count(ctx context.Context, target int, t Target, chain seccompdata.Chain, inputs []kernelabi.Input) (*TargetCode, error) {
	jit, err := harness.NewJIT(t.Profile)
	if err != nil {
		return nil, err
	}
	defer jit.Close()
	code := &TargetCode{Target: t}
	var outcomes []harness.Outcome
	for n, f := range chain.Filters() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		img, err := code.image(jit, n, f.Program())
		if err != nil {
			return nil, fmt.Errorf("%s: filter %d: %w", t, n, err)
		}
		code.Bytes += len(img.Code)
		if outcomes, err = jit.RunImage(img, inputs, outcomes[:0]); err != nil {
			return nil, fmt.Errorf("%s: filter %d: %w", t, n, err)
		}
		for i, got := range outcomes {
			call := &c.Calls[i]
			if call.Decision.Exempt {
				continue // nobody asks the filter
			}
			want := call.Decision.Verdicts[n].Ret
			if got.Kind != harness.Value || got.Value != want || got.Broken != 0 || got.Inexact {
				return nil, &DisagreementError{t, n, call.Call, want, got}
			}
			call.Native[target] += got.Executed
		}
	}
	return code, nil
}

// image makes the code of a filter.
func (t *TargetCode) image(jit *harness.JIT, filter int, prog bpf.Program) (*kernelabi.Image, error) {
	if !t.Interpreter {
		img, err := jit.Image(prog, bpf.Seccomp)
		var refusal *kernelabi.Refusal
		if !errors.As(err, &refusal) {
			return img, err
		}
		if t.Declined == nil {
			t.Declined = map[int]*kernelabi.Refusal{}
		}
		t.Declined[filter] = refusal
	}
	return guestcode.Interpreter{}.Compile(prog, bpf.Seccomp, t.Profile)
}

// Mean is what a call costs on average.
type Mean struct {
	Weight   float64 // of the calls that were counted
	Executed float64 // instructions of BPF
	Native   []float64
}

// Mean returns the mean of all calls, each with its weight, on a kernel with the
// cache or as without one. Where all weights are 0 so is the mean.
func (c *Costs) Mean(cached bool, weight func(*CallCost) float64) Mean {
	m := Mean{Native: make([]float64, len(c.Targets))}
	for i := range c.Calls {
		call := &c.Calls[i]
		w := weight(call)
		m.Weight += w
		if cached && call.Cached {
			continue
		}
		m.Executed += w * float64(call.Decision.Executed)
		for t, n := range call.Native {
			m.Native[t] += w * float64(n)
		}
	}
	if m.Weight == 0 {
		return m
	}
	m.Executed /= m.Weight
	for t := range m.Native {
		m.Native[t] /= m.Weight
	}
	return m
}
