package probe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// interpreted is a socket whose filter the reference runs. It takes packets of
// up to 1000 bytes, and programs that the checker takes.
type interpreted struct {
	machine  *bpf.Machine
	attached int
	fault    func(value uint32, attached int) uint32 // of the filter; may be nil
	refuse   int                                     // the attachment that is refused
	forbid   int                                     // the attachment that fails
	full     int                                     // the attachment after which no packet can be sent; 0: never
}

func (s *interpreted) Attach(prog bpf.Program) (syscall.Errno, error) {
	s.attached++
	switch s.attached {
	case s.refuse:
		return 12, nil
	case s.forbid:
		return 0, errors.New("forbidden")
	}
	m, err := bpf.Compile(prog, bpf.Socket, bpf.RulesCurrent)
	if err != nil {
		return 22, nil
	}
	s.machine = m
	return 0, nil
}

func (s *interpreted) pass(packet []byte) arrival {
	if len(packet) > 1000 || s.full != 0 && s.attached >= s.full {
		return dropped - 90
	}
	skb := kernelabi.NewSkb(packet)
	v := s.machine.Run(skb.Under(kernelabi.Current().Semantics)).Value
	if s.fault != nil {
		v = s.fault(v, s.attached)
	}
	if v == 0 {
		return dropped
	}
	return arrival(min(v, uint32(len(packet))))
}

func TestPacketValues(t *testing.T) {
	long := strings.Repeat("tax; ", bpf.MaxInsns-2) + "ld len; ret a"
	for _, test := range []struct {
		desc   string
		prog   string
		socket interpreted
		want   []any // values, or why there is none, for packets of 60, 1, 0 and 1001 bytes
	}{
		{"Values below a packet's length are seen at once, others in slices.", "ret #40", interpreted{},
			[]any{40, 40, 40, "a packet of 1001 bytes cannot be sent: "}},
		{"All bits count.", "ret #0x7edcba98", interpreted{}, []any{0x7edcba98, 0x7edcba98, 0x7edcba98, "a packet of 1001"}},
		{"0 is a packet that does not arrive.", "ret #0", interpreted{}, []any{0, 0, 0, "a packet of 1001"}},
		{"What the checker refuses has no values.", "div #0; ret a", interpreted{}, nil},
		{"A program may be too long for slices.", long, interpreted{},
			[]any{"the value is not below the length of the packet, and more of it cannot be read: the program has no room", "the value is", 0, "a packet of 1001"}},
		{"Slices may be refused.", "ret #0xffffffff", interpreted{refuse: 2},
			[]any{nil, nil, nil, "a packet of 1001"}},
		{"A kernel that contradicts itself is at fault.", "ret #0xffff",
			interpreted{fault: func(v uint32, attached int) uint32 {
				if attached > 1 {
					return 0
				}
				return v
			}},
			[]any{"the program returns 60 or more, but 0 where its value is read in slices", "the program returns 1 or more", "the program returns 1 or more", "a packet of 1001"}},
	} {
		var packets [][]byte
		for _, n := range []int{60, 1, 0, 1001} {
			packets = append(packets, make([]byte, n))
		}
		got, err := packetValues(&test.socket, assemble(t, test.prog), packets)
		if err != nil {
			t.Fatalf("%s %v", test.desc, err)
		}
		if test.want == nil {
			if diff := cmp.Diff(&Values{Errno: 22}, got); diff != "" {
				t.Errorf("%s %s", test.desc, diff)
			}
			continue
		}
		refused := 0
		for i, want := range test.want {
			v := got.Values[i]
			if strings.Contains(v.Why, "is refused: ") {
				refused++
			}
			if why, ok := want.(string); ok {
				if !strings.HasPrefix(v.Why, why) || v.Odd != (test.socket.fault != nil && i < 3) {
					t.Errorf("%s packet %d: %+v, want %s", test.desc, i, v, why)
				}
			} else if want != nil && fmt.Sprint(v) != fmt.Sprint(Value{Value: uint32(want.(int))}) {
				t.Errorf("%s packet %d: %+v, want %d", test.desc, i, v, want)
			}
		}
		// Which of the groups is the first is not fixed.
		if (refused == 1 || refused == 2) != (test.socket.refuse != 0) {
			t.Errorf("%s %d packets", test.desc, refused)
		}
	}
	for desc, socket := range map[string]*interpreted{
		"a socket that takes no filter":          {forbid: 1},
		"a socket that takes no second filter":   {forbid: 2},
		"a socket that takes packets only first": {full: 2},
	} {
		if got, err := packetValues(socket, assemble(t, "ret #0xffffffff"), [][]byte{make([]byte, 60)}); err == nil {
			t.Errorf("%s: %+v", desc, got)
		}
	}
}
