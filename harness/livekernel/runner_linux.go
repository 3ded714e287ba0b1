package livekernel

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// Runner is the running kernel.
type Runner struct {
	profile *kernelabi.Profile
	pair    *socketPair
}

// Open returns the running kernel as a runner named "kernel". It needs no
// privileges. The error is an *UnavailableError.
func Open() (harness.Runner, error) {
	host, err := thisHost()
	if err != nil {
		return nil, err
	}
	pair, err := newSocketPair()
	if err != nil {
		return nil, err
	}
	return &Runner{host.profile(), pair}, nil
}

func (r *Runner) Name() string                { return "kernel" }
func (r *Runner) Profile() *kernelabi.Profile { return r.profile }
func (r *Runner) Close() error                { return r.pair.close() }

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
	if err != nil {
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
	o := harness.Outcome{Kind: harness.Rejected, Why: "the running kernel refuses it: " + errno.Error(), PC: -1, ShiftPC: -1}
	switch errno {
	case unix.EINVAL:
	case kernelabi.ENOTSUPP:
		o.Kind, o.Why = harness.Refused, "the running kernel's JIT does not compile it"
	case unix.ENOMEM:
		o.Kind, o.Why = harness.Untried, "the running kernel has no memory for it: sysctl -w net.core.optmem_max=4000000 allows more"
	default:
		o.Kind = harness.Untried
	}
	return o
}

// runPackets fills got for inputs that are packets.
func (r *Runner) runPackets(prog bpf.Program, reference *bpf.Machine, inputs []kernelabi.Input, got []harness.Outcome) error {
	if errno, err := r.pair.attach(prog); err != nil {
		return err
	} else if errno != 0 {
		fill(got, refusedWith(errno))
		return nil
	}
	// Inputs whose value is above what they show, by the bits that they do show.
	more := map[int][]int{}
	for i, input := range inputs {
		skb, ok := input.(*kernelabi.Skb)
		if !ok {
			got[i] = untried("a system call is nothing for a socket filter")
			continue
		}
		if why := reasonAgainst(reference, skb.Under(r.profile.Semantics), unlikePacket(skb)); why != "" {
			got[i] = untried(why)
			continue
		}
		n, passed, errno := r.pair.pass(skb.Packet)
		switch {
		case errno != 0:
			got[i] = untried(fmt.Sprintf("a packet of %d bytes cannot be sent: %v", len(skb.Packet), errno))
		case !passed:
			got[i] = value(0)
		case n < len(skb.Packet):
			got[i] = value(uint32(n))
		default:
			width := visibleBits(n)
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
	for shift := 0; shift < 32; shift += width {
		slice, err := sliced(prog, shift, min(width, 32-shift))
		var errno syscall.Errno
		if err == nil {
			errno, err = r.pair.attach(slice)
		}
		if err != nil && err != errTooLong {
			return err
		}
		if err != nil || errno != 0 {
			why := fmt.Sprintf("the value is not below the length of the packet, and more of it cannot be read: %v", errTooLong)
			if errno != 0 {
				why = fmt.Sprintf("the value is not below the length of the packet; the program that shows more of it is refused: %v", errno)
			}
			for _, i := range which {
				got[i] = untried(why)
			}
			return nil
		}
		for _, i := range which {
			packet := inputs[i].(*kernelabi.Skb).Packet
			n, passed, errno := r.pair.pass(packet)
			switch {
			case errno != 0:
				return fmt.Errorf("a packet of %d bytes went through before and cannot be sent now: %w", len(packet), errno)
			case passed && len(packet) == 0:
				n = 1
			}
			if shift == 0 {
				got[i] = value(0)
			}
			got[i].Value |= uint32(n) << shift
		}
	}
	for _, i := range which {
		// The program itself has the last word. An empty packet arrives if the
		// value is 1 or more.
		if least := max(uint32(len(inputs[i].(*kernelabi.Skb).Packet)), 1); got[i].Value < least {
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
	job := callJob{Original: prog, Word: word}
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
		job.Calls = append(job.Calls, *call)
	}
	answer, err := job.run()
	if err != nil {
		return err
	}
	if answer.Errno != 0 {
		fill(got, refusedWith(syscall.Errno(answer.Errno)))
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

func fill(got []harness.Outcome, o harness.Outcome) {
	for i := range got {
		got[i] = o
	}
}
