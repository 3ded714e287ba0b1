package bpftext

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// Record is a recorded fact about a text form: what a tool printed for, or made
// of, an input. Check returns nil when this package agrees and an error that
// tells the difference when not.
type Record interface{ Check() error }

// RecordKinds are the kinds of records, one a line in JSON, and the keys that
// each of them has.
var RecordKinds = []struct {
	Name string
	Keys []string
	New  func() Record // returns a pointer to decode into
}{
	{"bpf-image", []string{"code", "jt", "jf", "k", "n", "text"}, func() Record { return new(ImageRecord) }},
	{"bpf-asm", []string{"src", "rc"}, func() Record { return new(AsmRecord) }},
	{"bpf-asm", []string{"src_line", "repeat", "rc"}, func() Record { return new(AsmRecord) }},
	{"tcpdump", []string{"expr", "dlt", "d", "dd", "ddd"}, func() Record { return new(TcpdumpRecord) }},
	{"tcpdump-expression", []string{"expression", "dlt", "d", "dd", "ddd"}, func() Record { return new(ExpressionRecord) }},
	{"xt-bpf", []string{"bytecode", "rc"}, func() Record { return new(XTRecord) }},
}

// ErrNoRecord means that a line is none of the kinds of this package.
var ErrNoRecord = errors.New("no record of a text form")

// CheckRecord finds the kind of one JSON line by its keys and checks it. A line
// of another kind gives ErrNoRecord.
func CheckRecord(line []byte) (kind string, err error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
next:
	for _, kind := range RecordKinds {
		for _, key := range kind.Keys {
			if _, ok := keys[key]; !ok {
				continue next
			}
		}
		record := kind.New()
		if err := json.Unmarshal(line, record); err != nil {
			return kind.Name, fmt.Errorf("record of kind %s: %w", kind.Name, err)
		}
		return kind.Name, record.Check()
	}
	return "", ErrNoRecord
}

// ImageRecord is one line of libpcap's bpf_image: instruction {code, jt, jf, k}
// at index n and its text.
type ImageRecord struct {
	Code uint16 `json:"code"`
	JT   uint8  `json:"jt"`
	JF   uint8  `json:"jf"`
	K    uint32 `json:"k"`
	N    int    `json:"n"`
	Text string `json:"text"`
}

// Check prints the instruction, and reads the text back to the fields that the
// text carries.
func (r *ImageRecord) Check() error {
	ins := bpf.Instruction{Code: r.Code, JT: r.JT, JF: r.JF, K: r.K}
	if err := differ("text", FormatInstruction(r.N, ins), r.Text); err != nil {
		return err
	}
	m := numbered.FindStringSubmatch(r.Text)
	if m == nil {
		return fmt.Errorf("reading %q: no number", r.Text)
	}
	got, reason := parsePcap(r.N, m[2])
	if reason != "" {
		return fmt.Errorf("reading %q: %s", r.Text, reason)
	}
	if want := printed(ins); got != want {
		return fmt.Errorf("reading %q: got %v, want %v", r.Text, got, want)
	}
	return nil
}

// printed zeroes the fields that -d does not print.
func printed(ins bpf.Instruction) bpf.Instruction {
	if _, ok := pcapByCode[ins.Code]; ok {
		return zeroUnused(ins)
	}
	if ins.K = 0; !hasBranches(ins.Code) {
		ins.JT, ins.JF = 0, 0
	}
	return ins
}

// AsmRecord is one run of bpf_asm: its source, or a line of it repeated; the
// exit status; what it prints without and with -c, or its message.
type AsmRecord struct {
	Src     string  `json:"src"`
	SrcLine string  `json:"src_line"`
	Repeat  int     `json:"repeat"`
	RC      int     `json:"rc"`
	Out     *string `json:"out"`
	OutLen  *int    `json:"out_len"`
	C       *string `json:"c"`
	Err     string  `json:"err"`
}

var asmErrLine = regexp.MustCompile(`at line (\d+)$`)

// Check assembles the source as AsmStrict, which must agree with bpf_asm to the
// byte and to the line of a syntax error, and as Asm, which may take more, but
// only by the Liberties.
func (r *AsmRecord) Check() error {
	src := []byte(r.Src)
	if r.Repeat != 0 {
		if r.Repeat < 0 || r.Repeat > 16*bpf.MaxInsns {
			return fmt.Errorf("repeat %d: want 1 to %d", r.Repeat, 16*bpf.MaxInsns)
		}
		src = []byte(strings.Repeat(r.SrcLine, r.Repeat))
	}
	strict, err := ParseAs(AsmStrict, "src", src)
	if r.RC != 0 {
		return r.checkRejected(src, err)
	}
	friendly, friendlyErr := ParseAs(Asm, "src", src)
	switch {
	case err != nil:
		return fmt.Errorf("bpf_asm takes this, but: %w", err)
	case friendlyErr != nil:
		return fmt.Errorf("form asm: bpf_asm takes this, but: %w", friendlyErr)
	case r.Out == nil && r.OutLen == nil:
		return errors.New("the record has neither out nor out_len")
	}
	if err := sameProgram("form asm", friendly.Program, strict.Program); err != nil {
		return err
	}
	out, err := Format(Comma, strict.Program)
	if err != nil {
		return err
	}
	if r.Out != nil {
		if err := differ("output", string(out), *r.Out); err != nil {
			return err
		}
	}
	if r.OutLen != nil && len(out) != *r.OutLen {
		return fmt.Errorf("output of %d bytes, want %d", len(out), *r.OutLen)
	}
	if r.C != nil {
		c, err := Format(AsmC, strict.Program)
		if err != nil {
			return err
		}
		if err := differ("output of -c", string(c), *r.C); err != nil {
			return err
		}
	}
	return rereads(strict.Program, Asm, AsmStrict)
}

// checkRejected judges the error that AsmStrict gave for source that bpf_asm
// rejects.
func (r *AsmRecord) checkRejected(src []byte, err error) error {
	if err == nil {
		return fmt.Errorf("accepted, but bpf_asm says %q", r.Err)
	}
	if _, taken, err := parseAsm("src", src, false); err == nil && len(taken.named()) == 0 {
		return fmt.Errorf("form asm accepts it and takes no liberty, but bpf_asm says %q", r.Err)
	}
	var at *Error
	if m := asmErrLine.FindStringSubmatch(r.Err); m != nil && errors.As(err, &at) && m[1] != strconv.Itoa(at.Line) {
		return fmt.Errorf("error %q: bpf_asm says %q", err, r.Err)
	}
	return nil
}

// TcpdumpRecord is one filter expression as tcpdump prints it with -d, -dd and
// -ddd, in lines.
type TcpdumpRecord struct {
	Expr      string   `json:"expr"`
	DLT       string   `json:"dlt"`       // link type, as for -y
	Optimized bool     `json:"optimized"` // false: with -O
	D         []string `json:"d"`
	DD        []string `json:"dd"`
	DDD       []string `json:"ddd"`
}

// Check does what ExpressionRecord.Check does.
func (r *TcpdumpRecord) Check() error {
	join := func(lines []string) string { return strings.Join(lines, "\n") + "\n" }
	return checkTcpdump(join(r.D), join(r.DD), join(r.DDD))
}

// ExpressionRecord is the same with whole texts and the number of instructions.
type ExpressionRecord struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
	DLT        string `json:"dlt"`
	Optimized  bool   `json:"optimized"`
	Insns      int    `json:"insns"`
	D          string `json:"d"`
	DD         string `json:"dd"`
	DDD        string `json:"ddd"`
}

// Check reads the three texts, which must be found to be what they are and be
// the same program up to fields that -d does not print, and writes them again,
// which must give the same bytes; the program must also survive every other
// form.
func (r *ExpressionRecord) Check() error {
	if err := checkTcpdump(r.D, r.DD, r.DDD); err != nil {
		return err
	}
	l, err := Parse("ddd", []byte(r.DDD))
	if err == nil && len(l.Program) != r.Insns {
		err = fmt.Errorf("%d instructions, want %d", len(l.Program), r.Insns)
	}
	return err
}

func checkTcpdump(d, dd, ddd string) error {
	var prog bpf.Program
	for _, of := range []struct {
		form Form
		text string
	}{{DDD, ddd}, {DD, dd}, {D, d}} {
		form, text := of.form, of.text
		l, err := Parse(form.String(), []byte(text))
		switch {
		case err != nil:
			return err
		case l.Form != form:
			return fmt.Errorf("taken for form %s, want %s", l.Form, form)
		case prog == nil:
			prog = l.Program
		}
		want := prog
		if form == D {
			want = ZeroUnused(prog)
		}
		if err := sameProgram("-"+form.String(), l.Program, want); err != nil {
			return err
		}
		again, err := Format(form, l.Program)
		if err != nil {
			return err
		}
		if err := differ("-"+form.String(), string(again), text); err != nil {
			return err
		}
	}
	if err := rereads(prog, Comma, AsmC, SS, JSON, Raw, RawBE); err != nil {
		return err
	}
	return rereads(ZeroUnused(prog), Asm, AsmStrict)
}

// XTRecord is one run of iptables -m bpf --bytecode: the argument, the exit
// status, and the rule as -S lists it, or the message.
type XTRecord struct {
	Bytecode string `json:"bytecode"`
	RC       int    `json:"rc"`
	Listed   string `json:"listed"`
	Err      string `json:"err"`
}

// Check reads the bytecode and writes what is listed.
func (r *XTRecord) Check() error {
	l, err := ParseAs(XT, "bytecode", []byte(r.Bytecode))
	switch {
	case r.RC != 0 && err == nil:
		return fmt.Errorf("accepted, but iptables says %q", r.Err)
	case r.RC != 0:
		return nil
	case err != nil:
		return fmt.Errorf("iptables takes this, but: %w", err)
	}
	listed, err := Format(XT, l.Program)
	if err != nil {
		return err
	}
	if err := differ("listed", string(listed), r.Listed); err != nil {
		return err
	}
	return rereads(l.Program, XT, Comma)
}

// rereads writes a program in each form and reads it back.
func rereads(prog bpf.Program, forms ...Form) error {
	for _, form := range forms {
		text, err := Format(form, prog)
		if err != nil {
			return err
		}
		l, err := ParseAs(form, "form "+form.String(), text)
		if err != nil {
			return fmt.Errorf("reading our own text: %w", err)
		}
		if err := sameProgram("form "+form.String(), l.Program, prog); err != nil {
			return err
		}
	}
	return nil
}

func sameProgram(what string, got, want bpf.Program) error {
	for pc := range min(len(got), len(want)) {
		if got[pc] != want[pc] {
			return fmt.Errorf("%s: pc %d: got %v, want %v", what, pc, got[pc], want[pc])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: got %d instructions, want %d", what, len(got), len(want))
	}
	return nil
}

// differ names the first line in which two texts differ.
func differ(what, got, want string) error {
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for n := range min(len(g), len(w)) {
		if g[n] != w[n] {
			return fmt.Errorf("%s, line %d: got %q, want %q", what, n+1, g[n], w[n])
		}
	}
	if len(g) != len(w) {
		return fmt.Errorf("%s: got %d lines, want %d", what, len(g), len(w))
	}
	return nil
}
