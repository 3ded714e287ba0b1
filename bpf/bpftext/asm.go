package bpftext

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
)

// asmForm is one way to write the operands of a mnemonic: a token kind per
// byte, see tokenKind.
type asmForm struct {
	pattern  string
	code     uint16
	inverted bool    // the one label is where a false condition goes
	liberty  liberty // not in bpf_asm's grammar
}

func load(code, indexed uint16, more ...asmForm) []asmForm {
	return append([]asmForm{
		{pattern: "[n]", code: code}, {pattern: "e", code: code}, {pattern: "[x+n]", code: indexed},
		{pattern: "[xn]", code: indexed, liberty: tightIndex},
		{pattern: "i", code: code, liberty: pcapExtension},
	}, more...)
}

func alu(k, x uint16) []asmForm { return []asmForm{{pattern: "#n", code: k}, {pattern: "x", code: x}} }

func cond(k, x uint16) []asmForm {
	return []asmForm{
		{pattern: "#n,i", code: k}, {pattern: "#n,i,i", code: k},
		{pattern: "x,i", code: x}, {pattern: "x,i,i", code: x},
	}
}

func condNot(k, x uint16) []asmForm {
	return []asmForm{{pattern: "#n,i", code: k, inverted: true}, {pattern: "x,i", code: x, inverted: true}}
}

func one(pattern string, code uint16) []asmForm { return []asmForm{{pattern: pattern, code: code}} }

// asmOps is the grammar of the bpf_asm of Linux 6.1.
var asmOps = map[string][]asmForm{
	"ld": load(bpf.LdWAbs, bpf.LdWInd,
		asmForm{pattern: "#n", code: bpf.LdImm}, asmForm{pattern: "M[n]", code: bpf.LdMem}, asmForm{pattern: "L", code: bpf.LdLen}),
	"ldh":  load(bpf.LdHAbs, bpf.LdHInd),
	"ldb":  load(bpf.LdBAbs, bpf.LdBInd),
	"ldi":  {{pattern: "#n", code: bpf.LdImm}, {pattern: "n", code: bpf.LdImm}},
	"ldxi": {{pattern: "#n", code: bpf.LdxImm}, {pattern: "n", code: bpf.LdxImm}},
	"ldx": {{pattern: "#n", code: bpf.LdxImm}, {pattern: "M[n]", code: bpf.LdxMem},
		{pattern: "L", code: bpf.LdxLen}, {pattern: mshPattern, code: bpf.LdxMsh}},
	"ldxb": one(mshPattern, bpf.LdxMsh),
	"st":   one("M[n]", bpf.St),
	"stx":  one("M[n]", bpf.Stx),

	"add": alu(bpf.AddK, bpf.AddX), "sub": alu(bpf.SubK, bpf.SubX), "mul": alu(bpf.MulK, bpf.MulX),
	"div": alu(bpf.DivK, bpf.DivX), "mod": alu(bpf.ModK, bpf.ModX), "and": alu(bpf.AndK, bpf.AndX),
	"or": alu(bpf.OrK, bpf.OrX), "xor": alu(bpf.XorK, bpf.XorX), "lsh": alu(bpf.LshK, bpf.LshX),
	"rsh": alu(bpf.RshK, bpf.RshX), "neg": one("", bpf.Neg),

	"jmp": one("i", bpf.Ja), "ja": one("i", bpf.Ja),
	"jeq": cond(bpf.JeqK, bpf.JeqX), "jgt": cond(bpf.JgtK, bpf.JgtX),
	"jge": cond(bpf.JgeK, bpf.JgeX), "jset": cond(bpf.JsetK, bpf.JsetX),
	"jneq": condNot(bpf.JeqK, bpf.JeqX), "jne": condNot(bpf.JeqK, bpf.JeqX),
	"jlt": condNot(bpf.JgeK, bpf.JgeX), "jle": condNot(bpf.JgtK, bpf.JgtX),

	"ret": {{pattern: "#n", code: bpf.RetK}, {pattern: "a", code: bpf.RetA}, {pattern: "x", code: bpf.RetX}},
	"tax": one("", bpf.Tax), "txa": one("", bpf.Txa),
}

const mshPattern = "n*([n]&n)"

func init() {
	// Registers may be written with a percent sign.
	for name, forms := range asmOps {
		for _, f := range slices.Clone(forms) {
			if i := strings.IndexAny(f.pattern, "xa"); i >= 0 {
				f.pattern = f.pattern[:i] + "%" + f.pattern[i:]
				asmOps[name] = append(asmOps[name], f)
			}
		}
	}
}

// asmParser turns tokens into instructions, and then labels into distances.
type asmParser struct {
	name    string
	lex     *asmLexer
	ahead   []token
	listing Listing
	labels  map[string]int
	jumps   []asmJump
}

// asmJump is a label used by an instruction, for "jt", "jf" or "k".
type asmJump struct {
	pc    int
	field string
	label token
}

// parseAsmFriendly takes liberties only with source that bpf_asm rejects, so
// what bpf_asm takes never changes its meaning.
func parseAsmFriendly(name string, data []byte) (*Listing, error) {
	if l, _, err := parseAsm(name, data, true); err == nil {
		return l, nil
	}
	l, _, err := parseAsm(name, data, false)
	return l, err
}

func parseAsmStrict(name string, data []byte) (*Listing, error) {
	l, _, err := parseAsm(name, data, true)
	return l, err
}

// parseAsm reads bpf_asm source. Line ends mean nothing but the end of a
// comment. It also returns the liberties that the source took.
func parseAsm(name string, data []byte, strict bool) (*Listing, liberties, error) {
	p := &asmParser{name: name, lex: newAsmLexer(data, strict), labels: map[string]int{}}
	for first := true; first || p.peek(0).kind != tokEnd; first = false {
		if err := p.line(); err != nil {
			return nil, 0, err
		}
	}
	if err := p.resolve(); err != nil {
		return nil, 0, err
	}
	p.listing.Comments = p.lex.comments
	return &p.listing, p.lex.taken, nil
}

// looksLikeAsm reports whether data starts with an instruction or a label.
func looksLikeAsm(data []byte) bool {
	p := &asmParser{lex: newAsmLexer(data, false)}
	t := p.peek(0)
	return t.kind == tokMnemonic || t.kind == tokLabel && p.peek(1).kind == ':'
}

func (p *asmParser) peek(n int) token {
	for len(p.ahead) <= n {
		p.ahead = append(p.ahead, p.lex.next())
	}
	return p.ahead[n]
}

func (p *asmParser) skip(n int) { p.ahead = p.ahead[:copy(p.ahead, p.ahead[n:])] }

func (p *asmParser) errorAt(line int, format string, args ...any) error {
	return &Error{p.name, line, fmt.Sprintf(format, args...)}
}

// line reads one instruction with or without a label before it.
func (p *asmParser) line() error {
	pc := len(p.listing.Program)
	if t := p.peek(0); t.kind == tokLabel {
		if colon := p.peek(1); colon.kind != ':' {
			return p.unexpected(colon, fmt.Sprintf("%.40q is no instruction; as a label it wants %q behind it", t.text, ":"))
		}
		if _, twice := p.labels[t.text]; !twice { // bpf_asm finds the first
			p.labels[t.text] = pc
		}
		p.skip(2)
	}
	op := p.peek(0)
	if op.kind != tokMnemonic {
		return p.unexpected(op, "want an instruction")
	}
	if pc == bpf.MaxInsns {
		return p.errorAt(op.line, "%s", tooLong(fmt.Sprintf("more than %d", bpf.MaxInsns)))
	}
	p.skip(1)
	form, err := p.choose(op)
	if err != nil {
		return err
	}
	return p.emit(op, form)
}

// choose finds the operand form that the coming tokens have: the longest.
func (p *asmParser) choose(op token) (asmForm, error) {
	var best *asmForm
	furthest := 0
	for n := range asmOps[op.text] {
		form := &asmOps[op.text][n]
		matched := p.matched(form)
		furthest = max(furthest, matched)
		if matched == len(form.pattern) && (best == nil || matched > len(best.pattern)) {
			best = form
		}
	}
	if best != nil && len(best.pattern) >= furthest {
		return *best, nil
	}
	var want []string
	for _, form := range asmOps[op.text] {
		if (form.liberty == 0 || furthest > 0) && len(form.pattern) > furthest && p.matched(&form) == furthest {
			want = append(want, tokenKind(form.pattern[furthest]).String())
		}
	}
	slices.Sort(want)
	return asmForm{}, p.unexpected(p.peek(furthest), fmt.Sprintf("%s wants %s here", op.text, strings.Join(slices.Compact(want), " or ")))
}

// matched counts the tokens that fit the pattern.
func (p *asmParser) matched(form *asmForm) int {
	if form.liberty != 0 && (p.lex.strict || !form.liberty.applies(p)) {
		return 0
	}
	for n := range len(form.pattern) {
		if p.peek(n).kind != tokenKind(form.pattern[n]) {
			return n
		}
	}
	return len(form.pattern)
}

// emit adds the instruction whose operands come next.
func (p *asmParser) emit(op token, form asmForm) error {
	pc := len(p.listing.Program)
	ins := bpf.Instruction{Code: form.code}
	var numbers []token
	fields := []string{"jt", "jf"}
	switch {
	case form.code == bpf.Ja:
		fields = []string{"k"}
	case form.inverted:
		fields = []string{"jf"}
	}
	for n := range len(form.pattern) {
		switch t := p.peek(n); {
		case t.kind == tokNumber:
			numbers = append(numbers, t)
		case t.kind == tokExtension:
			ins.K = t.number
		case t.kind == tokLabel && form.liberty == pcapExtension:
			ins.K = ancillary[strings.ToLower(t.text)].K()
		case t.kind == tokLabel:
			p.jumps = append(p.jumps, asmJump{pc, fields[0], t})
			fields = fields[1:]
		}
	}
	switch len(numbers) {
	case 1:
		ins.K = numbers[0].number
	case 3:
		if numbers[0].number != 4 || numbers[2].number != 0xf {
			return p.errorAt(op.line, "%.20s*([k]&%.20s): want 4*([k]&0xf)", numbers[0].text, numbers[2].text)
		}
		ins.K = numbers[1].number
	}
	if form.liberty != 0 {
		p.lex.taken.add(form.liberty)
	}
	p.skip(len(form.pattern))
	p.listing.Program = append(p.listing.Program, ins)
	p.listing.Lines = append(p.listing.Lines, op.line)
	return nil
}

// resolve turns labels into distances.
func (p *asmParser) resolve() error {
	for _, j := range p.jumps {
		at, ok := p.labels[j.label.text]
		if !ok {
			return p.errorAt(j.label.line, "no label %.40q in the program", j.label.text)
		}
		ins := &p.listing.Program[j.pc]
		distance := at - j.pc - 1
		if j.field == "k" {
			ins.K = uint32(distance)
			continue
		}
		if distance < 0 || distance > 255 {
			return p.errorAt(j.label.line, "instruction %d jumps to %.40q, instruction %d: a conditional jump reaches from %d to %d", j.pc, j.label.text, at, j.pc+1, j.pc+1+255)
		}
		if j.field == "jt" {
			ins.JT = uint8(distance)
		} else {
			ins.JF = uint8(distance)
		}
	}
	return nil
}

// unexpected is the error for a token that fits nowhere.
func (p *asmParser) unexpected(t token, want string) error {
	got := fmt.Sprintf("got %.40q", t.text)
	switch {
	case t.kind == tokEnd:
		got = "got the end of the program"
	case t.kind == '#' && !p.lex.strict:
		got += `; a "#" comment starts its line, others start with ";"`
	case t.kind == tokLabel && ancillary[strings.ToLower(t.text)] != 0 && p.lex.strict:
		got += ", a name of libpcap's"
	case t.reserved() && (strings.Contains(want, tokLabel.String()) || p.peek(0) == t && p.peek(1).kind == ':'):
		got += ": A, X and M are registers and memory, whatever their case, and no label has such a name"
	}
	return p.errorAt(t.line, "%s, %s", want, got)
}

// String names a kind in error messages.
func (k tokenKind) String() string {
	switch k {
	case tokNumber:
		return "a number"
	case tokLabel:
		return "a label"
	case tokExtension:
		return "an ancillary name"
	case tokLen:
		return "len"
	case tokMnemonic:
		return "an instruction"
	}
	return fmt.Sprintf("%q", byte(k))
}
