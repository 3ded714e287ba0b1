package corpus

import (
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/kernelabi"
)

//go:embed directed/*.txt
var directed embed.FS

const directedDir = "directed"

// DirectedTest is a socket filter, a packet and the value that belongs to them: a
// test as people write them for a JIT, one for each instruction and boundary
// (Linux, lib/test_bpf.c, is of that kind).
//
// A file of them has a test in a line, "NAME: PROGRAM | PACKET | VALUE". The
// program is in bpf_asm, instructions end with ";", and "300 * add #1" stands for
// 300 of them. The packet is words of "key=value", see [packetKeys]. The value is
// a number or "rejected".
type DirectedTest struct {
	Name    string
	Program bpf.Program
	Packet  *kernelabi.Skb

	Value    uint32
	Rejected bool // in place of a value: no checker accepts the program
}

// DirectedTests returns all, in the order of their files and lines.
func DirectedTests() ([]DirectedTest, error) {
	entries, err := fs.ReadDir(directed, directedDir)
	if err != nil {
		return nil, err
	}
	var all []DirectedTest
	for _, e := range entries {
		name := path.Join(directedDir, e.Name())
		data, err := directed.ReadFile(name)
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			t, err := parseDirected(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

func parseDirected(line string) (t DirectedTest, err error) {
	name, rest, named := strings.Cut(line, ": ")
	parts := strings.Split(rest, "|")
	if !named || len(parts) != 3 {
		return t, fmt.Errorf("%q: want NAME: PROGRAM | PACKET | VALUE", line)
	}
	t.Name = name
	if t.Program, err = parseDirectedProgram(parts[0]); err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	if t.Packet, err = parseDirectedPacket(parts[1]); err != nil {
		return t, fmt.Errorf("%s: packet: %w", name, err)
	}
	value := strings.TrimSpace(parts[2])
	if value == "rejected" {
		t.Rejected = true
		return t, nil
	}
	v, err := strconv.ParseUint(value, 0, 32)
	t.Value = uint32(v)
	return t, err
}

var repeated = regexp.MustCompile(`^(\w+: )?(\d+) \* (.*)$`)

func parseDirectedProgram(text string) (bpf.Program, error) {
	var asm strings.Builder
	for ins := range strings.SplitSeq(text, ";") {
		ins = strings.TrimSpace(ins)
		times := 1
		if m := repeated.FindStringSubmatch(ins); m != nil {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, err
			}
			asm.WriteString(m[1])
			times, ins = n, m[3]
		}
		asm.WriteString(strings.Repeat(ins+"\n", times))
	}
	listing, err := bpftext.Parse("program", []byte(asm.String()))
	if err != nil {
		return nil, err
	}
	return listing.Program, nil
}

// packetKeys are the words of a packet: "hex" and "seq", bytes 00, 01, 02, ..., are
// its bytes, and "head" is how many of them are in the linear part; the others
// are one fragment. "dev" is "none".
var packetKeys = map[string]func(s *kernelabi.Skb, n uint64){
	"seq": func(s *kernelabi.Skb, n uint64) {
		s.Packet = make([]byte, min(n, kernelabi.MaxPacket))
		for i := range s.Packet {
			s.Packet[i] = byte(i)
		}
		s.Headlen = len(s.Packet)
	},
	"head":    func(s *kernelabi.Skb, n uint64) { *s = *s.Split(int(min(n, kernelabi.MaxPacket))) },
	"net":     func(s *kernelabi.Skb, n uint64) { s.NetworkHeader = int(uint16(n)) },
	"proto":   func(s *kernelabi.Skb, n uint64) { s.Protocol = uint16(n) },
	"type":    func(s *kernelabi.Skb, n uint64) { s.PktType = uint8(n) },
	"mark":    func(s *kernelabi.Skb, n uint64) { s.Mark = uint32(n) },
	"hash":    func(s *kernelabi.Skb, n uint64) { s.Rxhash = uint32(n) },
	"queue":   func(s *kernelabi.Skb, n uint64) { s.Queue = uint16(n) },
	"vlan":    func(s *kernelabi.Skb, n uint64) { s.VlanTCI, s.VlanPresent = uint16(n), true },
	"ifindex": func(s *kernelabi.Skb, n uint64) { s.Ifindex = uint32(n) },
	"hatype":  func(s *kernelabi.Skb, n uint64) { s.DevType = uint16(n) },
	"cpu":     func(s *kernelabi.Skb, n uint64) { s.CPU = uint32(n) },
}

func parseDirectedPacket(text string) (*kernelabi.Skb, error) {
	s := kernelabi.NewSkb([]byte{})
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		set, ok := packetKeys[key]
		switch {
		case key == "hex":
			packet, err := hex.DecodeString(value)
			if err != nil {
				return nil, err
			}
			*s = *kernelabi.NewSkb(packet)
		case word == "dev=none":
			s.NoDevice = true
		case !ok:
			return nil, fmt.Errorf("%q is no property of a packet", word)
		default:
			n, err := strconv.ParseUint(value, 0, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			set(s, n)
		}
	}
	return s, s.Check()
}
