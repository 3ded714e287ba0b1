package campaign

import (
	"errors"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/generate"
	"github.com/kjit-project/kjit/harness/shrink"
)

// partial is for JITs that take so little that the generator makes no programs of
// it: what all of them take is left of programs that have more.
type partial struct {
	features [2]generate.Features // by bpf.Kind
	rules    []bpf.Rules
}

// takes reports whether all targets take the instruction.
func (p *partial) takes(in bpf.Instruction, kind bpf.Kind) bool {
	f := &p.features[kind]
	if ext, ok := in.Extension(); ok && kind == bpf.Socket && int(ext/4) < len(f.Exts) {
		return f.Exts[ext/4] == generate.Often
	}
	return in.Code < 256 && f.Codes[in.Code] == generate.Often
}

// cut returns what is left of a program, which is the program itself if nothing
// that the checkers accept would be left.
func (p *partial) cut(prog bpf.Program, kind bpf.Kind) bpf.Program {
	rest := prog
	for pc := len(prog) - 1; pc >= 0 && len(rest) > 1; pc-- {
		if !p.takes(prog[pc], kind) {
			rest = shrink.Without(rest, pc)
		}
	}
	for {
		if last := &rest[len(rest)-1]; !bpf.IsRet(last.Code) || !p.takes(*last, kind) {
			rest = append(rest[:len(rest)-1:len(rest)-1], p.end(kind))
		}
		// Some of what is left may have been for what is not, such as a load of M[].
		var refused *bpf.CheckError
		if !errors.As(p.check(rest, kind), &refused) {
			return rest
		}
		if refused.PC < 0 || refused.PC >= len(rest)-1 {
			return prog
		}
		rest = shrink.Without(rest, refused.PC)
	}
}

// end is a return that the targets take.
func (p *partial) end(kind bpf.Kind) bpf.Instruction {
	if in := (bpf.Instruction{Code: bpf.RetA}); p.takes(in, kind) {
		return in
	}
	return bpf.Instruction{Code: bpf.RetK, K: 1}
}

// check is by the checkers of all targets.
func (p *partial) check(prog bpf.Program, kind bpf.Kind) error {
	for _, r := range p.rules {
		if err := bpf.Check(prog, kind, r); err != nil {
			return err
		}
	}
	return nil
}
