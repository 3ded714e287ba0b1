package probe

import (
	"fmt"
	"syscall"

	"github.com/kjit-project/kjit/bpf"
)

// arrival is how many bytes of a packet arrived. An empty packet arrives with 0
// bytes; what is below 0 did not arrive.
type arrival int

// dropped is the arrival of a packet that the filter dropped. Below it are
// packets that could not be sent.
const dropped arrival = -1

// errno says why a packet could not be sent; 0 if it was.
func (a arrival) errno() syscall.Errno { return syscall.Errno(max(0, dropped-a)) }

// socket is one that packets come through to.
type socket interface {
	// Attach gives it a filter. A program that is not taken gives an errno.
	Attach(prog bpf.Program) (syscall.Errno, error)
	pass(packet []byte) arrival
}

// packetValues finds out what a program returns for packets. What arrives of a
// packet of L bytes has min(value, L) bytes. Where that is L, the value is at
// least L, and programs derived from this one show the rest of it, a few bits
// each.
func packetValues(s socket, prog bpf.Program, packets [][]byte) (*Values, error) {
	if errno, err := s.Attach(prog); err != nil || errno != 0 {
		return &Values{Errno: errno}, err
	}
	values := make([]Value, len(packets))
	// Packets with a value above what they show, by the bits that they do show.
	more := map[int][]int{}
	for i, packet := range packets {
		a := s.pass(packet)
		switch errno := a.errno(); {
		case errno != 0:
			values[i].Why = fmt.Sprintf("a packet of %d bytes cannot be sent: %v", len(packet), errno)
		case a == dropped:
		case int(a) < len(packet):
			values[i].Value = uint32(a)
		default:
			width := visibleBits(len(packet))
			more[width] = append(more[width], i)
		}
	}
	for width, which := range more {
		if err := readFully(s, prog, width, which, packets, values); err != nil {
			return nil, err
		}
	}
	return &Values{Values: values}, nil
}

// readFully finds values of which the packets show only that they are not below
// their length.
func readFully(s socket, prog bpf.Program, width int, which []int, packets [][]byte, values []Value) error {
	for shift := 0; shift < 32; shift += width {
		var why string
		slice, err := sliced(prog, shift, min(width, 32-shift))
		if err != nil {
			why = fmt.Sprintf("the value is not below the length of the packet, and more of it cannot be read: %v", err)
		} else if errno, err := s.Attach(slice); err != nil {
			return err
		} else if errno != 0 {
			why = fmt.Sprintf("the value is not below the length of the packet; the program that shows more of it is refused: %v", errno)
		}
		for _, i := range which {
			if why != "" {
				values[i] = Value{Why: why}
				continue
			}
			a := s.pass(packets[i])
			if errno := a.errno(); errno != 0 {
				return fmt.Errorf("a packet of %d bytes went through before and cannot be sent now: %w", len(packets[i]), errno)
			}
			if len(packets[i]) == 0 {
				a++ // it arrives if the value is 1 or more
			}
			values[i].Value |= uint32(max(0, a)) << shift
		}
		if why != "" {
			return nil
		}
	}
	for _, i := range which {
		// The program itself has the last word.
		if least := max(uint32(len(packets[i])), 1); values[i].Value < least {
			values[i] = Value{Odd: true, Why: fmt.Sprintf("the program returns %d or more, but %d where its value is read in slices", least, values[i].Value)}
		}
	}
	return nil
}
