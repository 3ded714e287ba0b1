package bpftext

import (
	"errors"
	"testing"

	"github.com/kjit-project/kjit/bpf"
)

// texts seed every fuzz target: each form of a program with every kind of
// operand, and some text that is damaged or hostile.
func texts() [][]byte {
	prog := bpf.Program{
		{Code: bpf.LdHAbs, K: 12}, {Code: bpf.LdxMsh, K: 14}, {Code: bpf.LdBInd, K: 0xffffffff},
		{Code: bpf.LdWAbs, K: bpf.ExtVlanPr.K()}, {Code: bpf.LdWAbs, K: bpf.ExtXorX.K()}, {Code: bpf.LdLen},
		{Code: bpf.St, K: 3}, {Code: bpf.LdxMem, K: 3}, {Code: bpf.SubK, K: 0xffffffff}, {Code: bpf.AndX}, {Code: bpf.LdxLen},
		{Code: bpf.JeqK, JT: 1, K: 0x800}, {Code: bpf.JsetX, JF: 1}, {Code: bpf.Ja, K: 0xfffffffc}, {Code: bpf.Neg}, {Code: bpf.Tax},
		{Code: bpf.RetK, K: 0xffffffff}, {Code: bpf.RetA},
	}
	all := [][]byte{
		[]byte("4000000000\n6 0 0 0\n"), []byte("> (000) ret #0\r\n"), []byte("\xef\xbb\xbf; c\n// d\nL: ret #0 /* **/"),
		[]byte("struct sock_filter f[] = { BPF_JUMP(BPF_JMP|BPF_JEQ, (1+2), 0, 1), BPF_STMT(BPF_RET, -1) };"),
		[]byte("-A INPUT -m bpf --bytecode \"1,6 0 0 -1 7,\" -j DROP"), []byte("> load bpf 1,6 0 0 0"),
		[]byte("1,65558 256 0 4294967296"), []byte("(000) unimp    0x55             jt 1\tjf 2\n"),
		[]byte("jlt %x, L1\nld [%x+14]\nL1: ret #0b1"), []byte("bpf filter (1):  0x06 0 0 0,"), []byte("[[6,0,0,1e9],null]"),
	}
	for _, form := range Forms() {
		all = append(all, must(Format(form, prog)))
	}
	return all
}

// fuzz runs data through one reader. What it reads must come back from its own
// form, be it detected or told, and from all the others.
func fuzz(f *testing.F, parse func(name string, data []byte) (*Listing, error)) {
	for _, text := range texts() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parse("in", data)
		if err != nil {
			var typed *Error
			if !errors.As(err, &typed) || typed.Error() == "" {
				t.Fatalf("error %v of type %T, want an *Error", err, err)
			}
			return
		}
		if len(l.Program) == 0 || len(l.Program) > bpf.MaxInsns {
			t.Fatalf("%d instructions", len(l.Program))
		}
		checkLines(t, l, data)
		checkProgram(t, l)
	})
}

func checkLines(t *testing.T, l *Listing, data []byte) {
	t.Helper()
	if l.Lines == nil && (l.Form == Raw || l.Form == RawBE) {
		return
	}
	if len(l.Lines) != len(l.Program) {
		t.Fatalf("%d lines for %d instructions", len(l.Lines), len(l.Program))
	}
	last, end := 1, 1
	for _, b := range data {
		if b == '\n' {
			end++
		}
	}
	for pc, line := range l.Lines {
		if line < last || line > end {
			t.Fatalf("pc %d: line %d, want %d to %d", pc, line, last, end)
		}
		last = line
	}
}

func checkProgram(t *testing.T, l *Listing) {
	t.Helper()
	prog := l.Program
	if err := rereads(prog, DD, DDD, Comma, AsmC, SS, JSON, Raw, RawBE); err != nil {
		t.Fatal(err)
	}
	if len(prog) <= maxXT {
		if err := rereads(prog, XT); err != nil {
			t.Fatal(err)
		}
	}
	checkListing(t, prog)
	var gap *FormatError
	if err := rereads(ZeroUnused(prog), Asm, AsmStrict); err != nil && !errors.As(err, &gap) {
		t.Fatal(err)
	} else if err != nil && (l.Form == Asm || l.Form == AsmStrict) {
		t.Fatalf("this came from source: %v", err)
	}
	for _, form := range []Form{D, DD, DDD, Comma, SS, Asm, JSON} {
		text, err := Format(form, prog)
		if err != nil {
			continue
		}
		if again, err := Parse("again", text); err != nil || again.Form != form {
			t.Fatalf("our own form %s is not found: %+v, error %v", form, again, err)
		}
	}
}

func as(form Form) func(string, []byte) (*Listing, error) {
	return func(name string, data []byte) (*Listing, error) { return ParseAs(form, name, data) }
}

func FuzzParse(f *testing.F)        { fuzz(f, Parse) }
func FuzzParseListing(f *testing.F) { fuzz(f, as(D)) }
func FuzzParseC(f *testing.F)       { fuzz(f, as(DD)) }
func FuzzParseDecimal(f *testing.F) { fuzz(f, as(DDD)) }
func FuzzParseComma(f *testing.F)   { fuzz(f, as(Comma)) }
func FuzzParseXT(f *testing.F)      { fuzz(f, as(XT)) }
func FuzzParseSS(f *testing.F)      { fuzz(f, as(SS)) }
func FuzzParseJSON(f *testing.F)    { fuzz(f, as(JSON)) }
func FuzzParseRaw(f *testing.F)     { fuzz(f, as(RawBE)) }
func FuzzParseAsm(f *testing.F)     { fuzz(f, as(Asm)) }

// FuzzParseAsmStrict also holds the friendly reader to it: what bpf_asm takes
// means the same there.
func FuzzParseAsmStrict(f *testing.F) {
	fuzz(f, func(name string, data []byte) (*Listing, error) {
		l, err := ParseAs(AsmStrict, name, data)
		if err != nil {
			return nil, err
		}
		friendly, err := ParseAs(Asm, name, data)
		if err == nil {
			err = sameProgram("form asm", friendly.Program, l.Program)
		}
		if err != nil {
			panic(err)
		}
		return l, nil
	})
}
