package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/kernelabi"
)

// printer writes the output of one command.
type printer struct {
	c *Console
	w io.Writer
	s *debug.Session
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// again tells of a session that is new.
func (p *printer) again() {
	p.s = p.c.session
	p.about()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// instruction is one of the program as in listings.
func instruction(pc int, ins bpf.Instruction) string {
	return strings.TrimRight(bpftext.FormatInstruction(pc, ins), " ")
}

// native is the i-th instruction of the code.
func (p *printer) native(i int) string {
	if i < 0 {
		return "(no instruction)"
	}
	n := p.s.Native[i]
	return fmt.Sprintf("@%x  %s", n.Offset, n.Text)
}

// about tells what there is to be debugged.
func (p *printer) about() {
	s := p.s
	p.printf("%s: %s, on %s", s.Name, plural(len(s.Program), "instruction"), plural(len(s.Inputs), s.Noun()))
	if len(p.c.config.Inputs) == 0 {
		p.printf(" of kjit's own: none were named")
	}
	p.printf("\n")
	switch {
	case s.Image == nil:
		p.printf("%s has no code of it: %s\n", s.Target.Name(), s.NoCode)
	case !s.Mapped():
		p.printf("%s: %s of code; where each instruction begins in it is not known: the sides are stepped apart\n", s.Target.Name(), plural(len(s.Image.Code), "byte"))
	default:
		p.printf("%s: %s of code\n", s.Target.Name(), plural(len(s.Image.Code), "byte"))
	}
	p.outcome()
	p.where()
}

// outcome tells how both sides ended on the selected packet.
func (p *printer) outcome() {
	r := p.s.Recording()
	p.printf("%s %d, %s: the interpreter returns %s", p.s.Noun(), p.s.Index()+1, plural(len(r.Bytes), "byte"), r.Want.Long())
	if p.s.Image != nil {
		p.printf(", the code %s: %s", r.Ending(), r.Verdict)
		if r.OnTheWay() {
			p.printf(", but differ on the way (until divergence shows where)")
		}
	}
	p.printf("\n")
}

// Signs of differences, for those whom colours tell nothing.
const (
	differs = "!" // and the program reads it
	unused  = "~" // nobody reads it
)

// where shows the cursor: both instructions, and A, X and M[] of both sides.
func (p *printer) where() {
	st := p.s.State()
	if st.Ended {
		p.printf("pc:    returned %s\n", p.s.Recording().Want.Long())
	} else {
		p.printf("pc:    %s\n", instruction(st.BPF.PC, p.s.Program[st.BPF.PC]))
	}
	p.code(st)
	// A column of code only where A and X can be seen in it.
	variables, native := p.s.Variables(st)
	if native {
		p.printf("       %-20s  native\n", "bpf")
	}
	for _, v := range variables {
		text := fmt.Sprintf("%-6s %08x %-11d", v.Name+":", v.Want, v.Want)
		if v.Known {
			mark := ""
			if d := st.Differs(v.Name); d != nil && d.Used {
				mark = differs
			} else if d != nil {
				mark = unused
			}
			text = fmt.Sprintf("%s  %08x %-11d %s", text, v.Got, v.Got, mark)
		}
		p.printf("%s\n", strings.TrimRight(text, " "))
	}
	for _, d := range st.Differences {
		if d.What == harness.Next || d.What == harness.End {
			p.printf("%s      %s\n", differs, d.How)
		}
	}
}

// code is the line of the native instruction at the cursor.
func (p *printer) code(st *debug.State) {
	switch {
	case p.s.Image == nil:
		return
	case st.NativeEnded:
		p.printf("code:  %s\n", p.s.Recording().Ending())
		return
	}
	text := p.native(p.s.InstructionAt(st.Step.Offset))
	var notes []string
	if name := st.Step.Call; name != "" {
		notes = append(notes, "calls "+name)
	}
	if st.Before != nil && st.Before.Call != "" {
		notes = append(notes, fmt.Sprintf("%s left %s %#x", st.Before.Call, st.Step.Names[0], st.Step.Registers[0]))
	}
	if p.s.Mapped() && !st.Together {
		in := "in no instruction's code"
		if pc := p.s.Image.PCAt(st.Step.Offset); pc >= 0 {
			in = fmt.Sprintf("in the code of instruction %d", pc)
		}
		notes = append(notes, in)
	}
	if len(notes) > 0 {
		text += "  ; " + strings.Join(notes, "; ")
	}
	p.printf("code:  %s\n", text)
}

// stopped tells why a run stopped, and where.
func (p *printer) stopped(stop debug.Stop) {
	switch {
	case stop.End:
		p.printf("end of %s %d\n", p.s.Noun(), p.s.Index()+1)
	default:
		p.printf("breakpoint in %s %d\n", p.s.Noun(), p.s.Index()+1)
	}
	p.where()
}

// breakpoints lists them.
func (p *printer) breakpoints() {
	if !p.s.Breaks.Any() {
		p.printf("no breakpoints\n")
	}
	for _, pc := range p.s.Breaks.PCs {
		p.printf("%s\n", instruction(pc, p.s.Program[pc]))
	}
	for _, off := range p.s.Breaks.Offsets {
		p.printf("%s\n", p.native(p.s.InstructionAt(off)))
	}
}

// program lists the program, with native the code of each instruction below it.
func (p *printer) program(native bool) {
	s, st := p.s, p.s.State()
	done, blame := s.Executed(), -1
	if d := s.Recording().Divergence; d != nil {
		blame = d.PC
	}
	line := func(pc int) {
		p.printf("%s %s\n", debug.Signs(!st.Ended && st.BPF.PC == pc, s.Breaks.PC(pc), done[pc], blame == pc), instruction(pc, s.Program[pc]))
	}
	if !native || !s.Mapped() {
		for pc := range s.Program {
			line(pc)
		}
	}
	if !native {
		return
	}
	doneNative := s.ExecutedNative()
	next := 0 // instruction whose line is due
	for i, n := range s.Native {
		for s.Mapped() && next < len(s.Program) && s.Image.PCMap[next] <= n.Offset {
			line(next)
			next++
		}
		here := st.Step != nil && !st.NativeEnded && st.Step.Offset == n.Offset
		p.printf("%s   %-5s %-20x  %s\n", debug.Signs(here, s.Breaks.Offset(n.Offset), doneNative[i], false), fmt.Sprintf("@%x", n.Offset), n.Bytes, n.Text)
	}
}

// processor shows the registers of the machine, those that the last native
// instruction changed with a sign.
func (p *printer) processor() {
	st := p.s.State()
	if st.Step == nil {
		return
	}
	const perLine = 4
	digits := 16
	if p.s.Image.Profile.Arch != kernelabi.X86_64 {
		digits = 8
	}
	var line strings.Builder
	for i, name := range st.Step.Names {
		sign := " "
		if st.Before != nil && st.Before.Registers[i] != st.Step.Registers[i] {
			sign = "*"
		}
		fmt.Fprintf(&line, "%-6s %0*x%s  ", name, digits, st.Step.Registers[i], sign)
		if i%perLine == perLine-1 || i == len(st.Step.Names)-1 {
			p.printf("%s\n", strings.TrimRight(line.String(), " "))
			line.Reset()
		}
	}
}

// bytes shows the packet, the last load in brackets.
func (p *printer) bytes() {
	r, load := p.s.Recording(), p.s.State().Load
	p.printf("len: %d", len(r.Bytes))
	if load.Size > 0 {
		p.printf(", last load: %s at %d", plural(load.Size, "byte"), load.Offset)
	}
	p.printf("\n")
	for at := 0; at < len(r.Bytes); at += debug.BytesPerLine {
		p.printf("%5d:%s\n", at, debug.HexLine(r.Bytes, at, load))
	}
}

// differences tells what is not the same here, and on this packet.
func (p *printer) differences() {
	st := p.s.State()
	if err := p.s.NeedCode(); err != nil {
		p.printf("%v\n", err)
		return
	}
	switch {
	case !st.Together && !p.s.Mapped():
		p.printf("nothing to compare before both sides have ended: there is no map\n")
	case !st.Together:
		p.printf("nothing to compare: the code is in the middle of an instruction's\n")
	case !slices.ContainsFunc(st.Differences, func(d debug.Difference) bool { return d.Used }):
		p.printf("no difference here that the program reads\n")
	}
	for _, d := range st.Differences {
		sign := differs
		if !d.Used {
			sign = unused
		}
		p.printf("%s %s\n", sign, d.How)
	}
	if d := p.s.Recording().Divergence; d != nil {
		p.printf("%s %d: %s\n", p.s.Noun(), p.s.Index()+1, p.s.Story(d))
	} else {
		p.printf("%s %d: no divergence\n", p.s.Noun(), p.s.Index()+1)
	}
	p.outcome()
}
