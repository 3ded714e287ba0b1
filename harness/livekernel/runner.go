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
		fill(got, harness.Outcome{Kind: harness.Failed, Why: failure.Error(), PC: -1, ShiftPC: -1})
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

// enomem is ENOMEM on all Linux.
const enomem = syscall.Errno(12)

// refusedWith is the outcome of a program that the kernel does not take.
func refusedWith(errno syscall.Errno) harness.Outcome {
	o := harness.Outcome{Kind: harness.Rejected, Why: "the kernel refuses it: " + errno.Error(), PC: -1, ShiftPC: -1}
	switch errno {
	case kernelabi.EINVAL:
	case kernelabi.ENOTSUPP:
		o.Kind, o.Why = harness.Refused, "the kernel's JIT does not compile it"
	case enomem:
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
	passed, err := r.kernel.Packets(prog, packets)
	if err != nil {
		return err
	}
	if passed.Errno != 0 {
		fill(got, refusedWith(passed.Errno))
		return nil
	}
	// Inputs whose value is above what they show, by the bits that they do show.
	more := map[int][]int{}
	for n, i := range which {
		arrived, size := passed.Arrivals[n], len(packets[n])
		switch errno := arrived.Errno(); {
		case errno != 0:
			got[i] = untried(fmt.Sprintf("a packet of %d bytes cannot be sent: %v", size, errno))
		case arrived == probe.Dropped:
			got[i] = value(0)
		case int(arrived) < size:
			got[i] = value(uint32(arrived))
		default:
			width := visibleBits(size)
			more[width] = append(more[width], i)
		}
	}
	for width, which := range more {
		if err := r.readFully(prog, width, which, inputs, got); err != nil {
			return err
		}
	}
	return nil
}

// readFully finds values of which the packets show only that they are not below
// their length.
func (r *Runner) readFully(prog bpf.Program, width int, which []int, inputs []kernelabi.Input, got []harness.Outcome) error {
	packets := make([][]byte, len(which))
	for n, i := range which {
		packets[n] = inputs[i].(*kernelabi.Skb).Packet
	}
	for shift := 0; shift < 32; shift += width {
		slice, err := sliced(prog, shift, min(width, 32-shift))
		why := fmt.Sprintf("the value is not below the length of the packet, and more of it cannot be read: %v", err)
		passed := &probe.Passed{}
		if err == nil {
			if passed, err = r.kernel.Packets(slice, packets); err != nil {
				return err
			}
			why = fmt.Sprintf("the value is not below the length of the packet; the program that shows more of it is refused: %v", passed.Errno)
		}
		if err != nil || passed.Errno != 0 {
			for _, i := range which {
				got[i] = untried(why)
			}
			return nil
		}
		for n, i := range which {
			arrived := passed.Arrivals[n]
			if errno := arrived.Errno(); errno != 0 {
				return fmt.Errorf("a packet of %d bytes went through before and cannot be sent now: %w", len(packets[n]), errno)
			}
			bits := uint32(max(0, arrived))
			if len(packets[n]) == 0 && arrived != probe.Dropped {
				bits = 1
			}
			if shift == 0 {
				got[i] = value(0)
			}
			got[i].Value |= bits << shift
		}
	}
	for n, i := range which {
		// The program itself has the last word. An empty packet arrives if the
		// value is 1 or more.
		if least := max(uint32(len(packets[n])), 1); got[i].Value < least {
			got[i] = harness.Outcome{
				Kind: harness.Failed, PC: -1, ShiftPC: -1,
				Why: fmt.Sprintf("the program returns %d or more, but %d where its value is read in slices", least, got[i].Value),
			}
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
	job := probe.Calls{Original: prog, Word: word, Calls: []seccompdata.Data{}}
	var err error
	if job.Answering, err = answering(prog, word); err != nil {
		fill(got, untried(err.Error()))
		return nil
	}
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
	answer, err := r.kernel.Calls(&job)
	if err != nil {
		return err
	}
	if answer.Errno != 0 {
		fill(got, refusedWith(answer.Errno))
		return nil
	}
	for n, i := range which {
		got[i] = untried(tooManyKilled)
		if n < len(answer.Values) {
			got[i] = value(answer.Values[n])
		}
	}
	return nil
}

const tooManyKilled = "the filter kills the caller; enough callers have been killed"

func fill(got []harness.Outcome, o harness.Outcome) {
	for i := range got {
		got[i] = o
	}
}
