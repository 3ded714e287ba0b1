package seccompdata

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// Every word that a filter loads on a big-endian machine is the word of the
// struct in its memory.
func TestBigEndianLoadsAreTheStruct(t *testing.T) {
	big := BigEndian(sample)
	memory := big.Append(nil)
	if len(memory) != Size {
		t.Fatalf("%d bytes", len(memory))
	}
	for off := uint32(0); off < Size; off += 4 {
		got, ok := big.Load(off, 4)
		if want := binary.BigEndian.Uint32(memory[off:]); !ok || got != want {
			t.Errorf("load at %d: %#x, %v, want %#x", off, got, ok, want)
		}
	}
	if _, ok := big.Load(66, 4); ok {
		t.Error("a load outside gives something")
	}
}

// A filter that asks for both halves of an argument finds them where ArgOffsets
// says.
func TestArgOffsets(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for n := range sample.Args {
			low, high := ArgOffsets(n, order)
			prog := bpf.Program{
				{Code: bpf.LdWAbs, K: high}, {Code: bpf.JeqK, JT: 1, K: uint32(sample.Args[n] >> 32)}, {Code: bpf.RetK, K: 1},
				{Code: bpf.LdWAbs, K: low}, {Code: bpf.JeqK, JT: 1, K: uint32(sample.Args[n])}, {Code: bpf.RetK, K: 2},
				{Code: bpf.RetK, K: uint32(Allow)},
			}
			f, err := NewFilter("", prog)
			if err != nil {
				t.Fatal(err)
			}
			var call bpf.Input = &sample
			if order == binary.BigEndian {
				call = (*BigEndian)(&sample)
			}
			if got := f.Run(call); got.Action() != Allow {
				t.Errorf("%v, argument %d: %#x", order, n, got.Ret)
			}
		}
	}
}

func TestParseData(t *testing.T) {
	little, err := ParseData(sample.Append(nil), binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	big, err := ParseData((*BigEndian)(&sample).Append(nil), binary.BigEndian)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*Data{&sample, &sample}, []*Data{little, big}); diff != "" {
		t.Error(diff)
	}
	for _, n := range []int{0, 63, 65} {
		if _, err := ParseData(make([]byte, n), binary.LittleEndian); err == nil {
			t.Errorf("%d bytes are taken", n)
		}
	}
}
