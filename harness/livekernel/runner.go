package livekernel

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

// Runner is a kernel that runs.
type Runner struct {
	name    string
	profile *kernelabi.Profile
	kernel  probe.Kernel
}

// Open returns the running kernel as a runner named "kernel". It needs no
// privileges. The error is an *UnavailableError.
func Open() (harness.Runner, error) {
	kernel, err := probe.Running()
	if err != nil {
		return nil, err
	}
	r, err := New("kernel", kernel)
	if err != nil {
		return nil, errors.Join(err, kernel.Close())
	}
	return r, nil
}

// New returns a kernel as a runner, which closes it. The error is an
// *UnavailableError.
func New(name string, kernel probe.Kernel) (*Runner, error) {
	host, err := newHost(kernel.System())
	if err != nil {
		return nil, err
	}
	return &Runner{name, host.profile(), kernel}, nil
}

func (r *Runner) Name() string                { return r.name }
func (r *Runner) Profile() *kernelabi.Profile { return r.profile }
func (r *Runner) Close() error                { return r.kernel.Close() }

// Run runs the program on the kernel. A kernel that fails in the middle
// (*harness.Failure) gives no outcome for these inputs.
func (r *Runner) Run(prog bpf.Program, kind bpf.Kind, inputs []kernelabi.Input, out []harness.Outcome) ([]harness.Outcome, error) {
	// What the reference refuses has to be refused by the kernel too.
	reference, _ := bpf.Compile(prog, kind, r.profile.Rules)
	got := make([]harness.Outcome, len(inputs))
	var err error
	if kind == bpf.Seccomp {
		err = r.runCalls(prog, reference, inputs, got)
	} else {
		err = r.runPackets(prog, reference, inputs, got)
	}
	var failure *harness.Failure
	switch {
	case errors.As(err, &failure):
		return harness.Declined(failure, inputs, out)
	case err != nil:
		return out, err
	}
	return append(out, got...), nil
}

func value(v uint32) harness.Outcome {
	return harness.Outcome{Kind: harness.Value, Value: v, PC: -1, ShiftPC: -1}
}

func untried(why string) harness.Outcome {
	return harness.Outcome{Kind: harness.Untried, Why: why, PC: -1, ShiftPC: -1}
}

// refusedWith is the outcome of a program that the kernel does not take.
func refusedWith(errno syscall.Errno) harness.Outcome {
	o := harness.Outcome{Kind: harness.Rejected, Why: "the kernel refuses it: " + errno.Error(), PC: -1, ShiftPC: -1}
	switch errno {
	case kernelabi.EINVAL:
	case kernelabi.ENOTSUPP:
		o.Kind, o.Why = harness.Refused, "the kernel's JIT does not compile it"
	case syscall.Errno(seccompdata.ENOMEM):
		o.Kind, o.Why = harness.Untried, "the kernel has no memory for it: sysctl -w net.core.optmem_max=4000000 allows more"
	default:
		o.Kind = harness.Untried
	}
	return o
}

// runPackets fills got for inputs that are packets.
func (r *Runner) runPackets(prog bpf.Program, reference *bpf.Machine, inputs []kernelabi.Input, got []harness.Outcome) error {
	var which []int
	var packets [][]byte
	for i, input := range inputs {
		skb, ok := input.(*kernelabi.Skb)
		why := "a system call is nothing for a socket filter"
		if ok {
			why = reasonAgainst(reference, skb.Under(r.profile.Semantics), unlikePacket(skb))
		}
		if why != "" {
			got[i] = untried(why)
			continue
		}
		which, packets = append(which, i), append(packets, skb.Packet)
	}
	values, err := r.kernel.Packets(prog, packets)
	if err != nil {
		return err
	}
	return take(values, which, got)
}

// take sets the outcomes of the inputs that were run.
func take(values *probe.Values, which []int, got []harness.Outcome) error {
	if values.Errno != 0 {
		fill(got, refusedWith(values.Errno))
		return nil
	}
	if len(values.Values) != len(which) {
		return fmt.Errorf("the kernel has %d values for %d inputs", len(values.Values), len(which))
	}
	for n, i := range which {
		switch v := values.Values[n]; {
		case v.Odd:
			got[i] = harness.Outcome{Kind: harness.Failed, Why: v.Why, PC: -1, ShiftPC: -1}
		case v.Why != "":
			got[i] = untried(v.Why)
		default:
			got[i] = value(v.Value)
		}
	}
	return nil
}

// runCalls fills got for inputs that are system calls.
func (r *Runner) runCalls(prog bpf.Program, reference *bpf.Machine, inputs []kernelabi.Input, got []harness.Outcome) error {
	goarch := r.kernel.System().GOARCH
	native, ok := nativeABIs[goarch]
	if !ok {
		fill(got, untried("seccomp filters are not run on "+goarch))
		return nil
	}
	word, ok := freeWord(prog, native)
	if !ok {
		fill(got, untried("the program reads all words of the arguments: none is left to mark calls with"))
		return nil
	}
	job := probe.Calls{Program: prog, Word: word, Calls: []seccompdata.Data{}}
	var which []int
	for i, input := range inputs {
		call, ok := input.(*kernelabi.Syscall)
		if !ok {
			got[i] = untried("a packet is nothing for a seccomp filter")
			continue
		}
		why := reasonAgainst(reference, call.Under(r.profile.Semantics), unlikeCall(&call.Data, native))
		if why == "" && slices.Contains(native.exempt, call.Nr) {
			why = fmt.Sprintf("call %d passes without a filter on new kernels", call.Nr)
		}
		if why != "" {
			got[i] = untried(why)
			continue
		}
		which = append(which, i)
		job.Calls = append(job.Calls, call.Data)
	}
	values, err := r.kernel.Calls(&job)
	if err != nil {
		return err
	}
	return take(values, which, got)
}

func fill(got []harness.Outcome, o harness.Outcome) {
	for i := range got {
		got[i] = o
	}
}
