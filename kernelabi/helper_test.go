package kernelabi

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// eachCase calls f with the columns of each line of a case file; columns are
// separated by |, and lines that begin with # are comments.
func eachCase(t *testing.T, path string, f func(t *testing.T, columns []string)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		columns := strings.Split(line, "|")
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		cases++
		t.Run("line "+strconv.Itoa(n+1), func(t *testing.T) { f(t, columns) })
	}
	if cases == 0 {
		t.Fatalf("%s has no cases", path)
	}
}

// number reads a column; the base is 10 or 16.
func number(t *testing.T, text string, base int) int {
	t.Helper()
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func TestFindNlattr(t *testing.T) {
	eachCase(t, "testdata/nlattr.txt", func(t *testing.T, columns []string) {
		s := NewSkb(unhex(t, columns[0]))
		a, x := uint32(number(t, columns[1], 10)), uint32(number(t, columns[2], 10))
		for i, find := range []func(a, x uint32) (uint32, bool){s.FindNlattr, s.FindNlattrNested} {
			got := "-"
			if offset, ok := find(a, x); ok {
				got = strconv.Itoa(int(offset))
			}
			if want := columns[3+i]; got != want {
				t.Errorf("%s from %d for type %d: got %s, want %s", []string{"nlattr", "nlattr_nest"}[i], a, x, got, want)
			}
		}
		paged := s.Split(len(s.Packet) - 1)
		if _, ok := paged.FindNlattr(a, x); ok {
			t.Error("a packet with page fragments was searched")
		}
		if _, ok := paged.FindNlattrNested(a, x); ok {
			t.Error("a packet with page fragments was searched inside an attribute")
		}
	})
}

func TestPayOffset(t *testing.T) {
	eachCase(t, "testdata/payoffset.txt", func(t *testing.T, columns []string) {
		s := NewSkb(repeatedHex(t, columns[3]))
		s.Protocol = uint16(number(t, columns[1], 16))
		s.NetworkHeader = number(t, columns[2], 10)
		want := uint32(number(t, columns[0], 10))
		if got := s.PayOffset(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
		for cut := range len(s.Packet) {
			if got := s.Split(cut, 7).PayOffset(); got != want {
				t.Errorf("with %d bytes linear: got %d, want %d", cut, got, want)
			}
			short := *s
			short.Packet, short.Headlen = s.Packet[:cut], cut
			short.PayOffset() // must not fail on any part of it
		}
	})
}

// repeatedHex reads hex in which N*hh stands for N times the byte hh.
func repeatedHex(t *testing.T, text string) (out []byte) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		count, digits, ok := strings.Cut(word, "*")
		if !ok {
			count, digits = "1", word
		}
		out = append(out, bytes.Repeat(unhex(t, digits), number(t, count, 10))...)
	}
	return out
}

// The search for attributes and the walk over headers end on any packet.
func TestHelpersEndOnAnyPacket(t *testing.T) {
	random := seeded(t)
	protocols := []uint16{EthPIP, EthPIPv6, EthP8021Q, EthPPPPSes}
	// Bytes that keep the walks going are more frequent than chance.
	bytes := []byte{0, 0x45, 4, 47, 8, 0x81, 0x00, 0x65, 0x58, 0x86, 0xdd, 0x21}
	for range 20000 {
		packet := make([]byte, random.IntN(200))
		for i := range packet {
			if packet[i] = byte(random.Uint32()); random.IntN(4) > 0 {
				packet[i] = bytes[random.IntN(len(bytes))]
			}
		}
		s := NewSkb(packet)
		s.Protocol = protocols[random.IntN(len(protocols))]
		s.Headroom = random.IntN(20)
		s.NetworkHeader = random.IntN(40) - s.Headroom
		s.PayOffset()
		for _, find := range []func(a, x uint32) (uint32, bool){s.FindNlattr, s.FindNlattrNested} {
			a := uint32(random.IntN(len(packet) + 1))
			if offset, ok := find(a, uint32(random.IntN(4))); ok && offset != 0 && (offset < a || int(offset)+nlaHeader > len(packet)) {
				t.Fatalf("attribute at %d found from %d in % x", offset, a, packet)
			}
		}
	}
}
