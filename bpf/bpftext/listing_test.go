package bpftext

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
)

// TestEveryCodeAndEdgeSurvivesListing prints all 65,536 codes with operands at
// the edges, in programs of the largest length.
func TestEveryCodeAndEdgeSurvivesListing(t *testing.T) {
	edges := []uint32{0, 1, 15, 16, math.MaxInt32, 1 << 31, bpf.LLOff, bpf.NetOff, bpf.ADOff - 1, bpf.ADOff, bpf.ExtXorX.K(), bpf.ADOff + 61, math.MaxUint32}
	var prog bpf.Program
	flush := func() {
		checkListing(t, prog)
		prog = prog[:0]
	}
	for code := range 1 << 16 {
		ks := edges
		if _, ok := asmByCode[uint16(code)]; !ok {
			ks = edges[code%len(edges):][:1]
		}
		for n, k := range ks {
			prog = append(prog, bpf.Instruction{Code: uint16(code), JT: uint8(n * 17), JF: 255, K: k})
			if len(prog) == bpf.MaxInsns {
				flush()
			}
		}
	}
	flush()
}

// TestReadInstruction is what the -d reader takes beyond what tcpdump prints.
func TestReadInstruction(t *testing.T) {
	for _, tc := range []struct {
		desc, text string
		want       bpf.Instruction
	}{
		{"an ancillary name in brackets", "ldh [type]", bpf.Instruction{Code: bpf.LdHAbs, K: bpf.ExtPktType.K()}},
		{"an ancillary name bare", "ld vlanp", bpf.Instruction{Code: bpf.LdWAbs, K: bpf.ExtVlanPr.K()}},
		{"an ancillary name of bpf_asm's", "ldb #vlan_avail", bpf.Instruction{Code: bpf.LdBAbs, K: bpf.ExtVlanPr.K()}},
		{"an ancillary load that is an operation", "ld [xor_x]", bpf.Instruction{Code: bpf.LdWAbs, K: bpf.ExtXorX.K()}},
		{"an offset as unsigned number", "ld [4294963200]", bpf.Instruction{Code: bpf.LdWAbs, K: bpf.ADOff}},
		{"an offset in hex", "ldb [0x17]", bpf.Instruction{Code: bpf.LdBAbs, K: 0x17}},
		{"an index without blanks", "ldh [x+14]", bpf.Instruction{Code: bpf.LdHInd, K: 14}},
		{"an index below zero", "ldh [x + -1]", bpf.Instruction{Code: bpf.LdHInd, K: math.MaxUint32}},
		{"a header length with blanks", "ldxb 4 * ( [14] & 0xf )", bpf.Instruction{Code: bpf.LdxMsh, K: 14}},
		{"a return of the accumulator", "ret", bpf.Instruction{Code: bpf.RetA}},
		{"a jump backwards", "ja 4", bpf.Instruction{Code: bpf.Ja, K: 0xfffffffc}},
		{"a jump far backwards", "ja -2147483640", bpf.Instruction{Code: bpf.Ja, K: 0x80000000}},
		{"a decimal where tcpdump prints hex", "jeq #2048 jt 8 jf 263", bpf.Instruction{Code: bpf.JeqK, JF: 255, K: 2048}},
		{"an unknown code", "unimp    0x81", bpf.Instruction{Code: bpf.LdxLen}},
		{"an unknown jump", "unimp    0x55             jt 10\tjf 17", bpf.Instruction{Code: 0x55, JT: 2, JF: 9}},
	} {
		got, reason := parsePcap(7, tc.text)
		if reason != "" {
			t.Errorf("%s: %s", tc.desc, reason)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.desc, diff)
		}
	}
}

func TestAncillaryNamesHaveEverySpelling(t *testing.T) {
	if len(ancillary) != bpf.NumExtensions+3 {
		t.Errorf("%d names, want 16 of bpf_asm's, vlanp, random and vlan_avail: %v", len(ancillary), ancillary)
	}
	for name, ext := range ancillary {
		for _, text := range []string{"ld [" + name + "]", "ldh " + name, "ldb #" + name} {
			if ins, reason := parsePcap(0, text); reason != "" || ins.K != ext.K() {
				t.Errorf("%s: got %v %s, want k %#x", text, ins, reason, ext.K())
			}
		}
	}
}
