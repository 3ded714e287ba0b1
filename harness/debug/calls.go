package debug

import (
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

// nameCalls finds out which routines of the kernel the code refers to.
func (s *Session) nameCalls() {
	s.symbols, s.calls = listing.Symbols(s.Image.Profile), map[int]string{}
	refs, err := s.Image.References()
	if err != nil {
		return // bytes that are no code: what they call shows when they do
	}
	for _, ref := range refs {
		if name := s.symbols[ref.Target]; name != "" {
			s.calls[ref.Offset] = name
		}
	}
}

// callOf names the routine that a step goes to: as the code says it, or else as
// the register says that the code goes through.
func (s *Session) callOf(st *Step) string {
	if name, ok := s.calls[st.Offset]; ok {
		return name
	}
	i := s.InstructionAt(st.Offset)
	if i < 0 {
		return ""
	}
	op, arg, _ := strings.Cut(s.Native[i].Text, " ")
	through := []string{"call", "callq", "jmp", "jmpq"}
	if s.Image.Profile.Arch != kernelabi.X86_64 {
		through = []string{"blx", "bx"}
		if target, ok := strings.CutPrefix(arg, "pc, "); ok && op == "mov" {
			op, arg = "bx", target
		}
	}
	if !slices.Contains(through, op) {
		return ""
	}
	reg := slices.Index(st.Names, strings.TrimLeft(arg, "*%"))
	if reg < 0 {
		return ""
	}
	return s.symbols[st.Registers[reg]]
}
