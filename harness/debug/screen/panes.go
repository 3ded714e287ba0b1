package screen

import (
	"fmt"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/kernelabi"
)

// wideListing is from what width on instructions are printed as tcpdump does.
const wideListing = 52

// instruction is one of the program, in less room than tcpdump takes for it if
// there is not so much.
func instruction(pc int, ins bpf.Instruction, width int) string {
	text := bpftext.FormatInstruction(pc, ins)
	if width >= wideListing {
		return strings.ReplaceAll(text, "\t", " ")
	}
	fields := strings.Fields(text)
	return fmt.Sprintf("%s %-4s %s", fields[0], fields[1], strings.Join(fields[2:], " "))
}

// program is the pane of the BPF listing.
func (m *Model) program(st *debug.State, width, height int) []string {
	s := m.s
	done, blame := s.Executed(), -1
	if d := s.Recording().Divergence; d != nil {
		blame = d.PC
	}
	title := "BPF"
	if st.Ended {
		title += "  > returned " + s.Recording().Want.Long()
	}
	lines := []string{head(title)}
	from, to := window(len(s.Program), height-1, st.BPF.PC)
	for pc := from; pc < to; pc++ {
		cursor := !st.Ended && st.BPF.PC == pc
		line := debug.Signs(cursor, s.Breaks.PC(pc), done[pc], blame == pc) + instruction(pc, s.Program[pc], width)
		switch {
		case cursor:
			line = here.Styled(pad(line, width))
		case blame == pc:
			line = m.wrong(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// code is the pane of the native listing. In front of the first native
// instruction of each BPF instruction is its number.
func (m *Model) code(st *debug.State, width, height int) []string {
	s := m.s
	if s.Image == nil {
		return []string{head("native"), "no code"}
	}
	title := fmt.Sprintf("native  %s", s.Image.Profile.Arch)
	if st.NativeEnded {
		title += "  > " + s.Recording().Ending()
	}
	lines := []string{head(title)}
	done, at := s.ExecutedNative(), 0
	if st.Step != nil {
		at = max(s.InstructionAt(st.Step.Offset), 0)
	}
	from, to := window(len(s.Native), height-1, at)
	for i := from; i < to; i++ {
		n := s.Native[i]
		cursor := st.Step != nil && !st.NativeEnded && i == at
		pc := ""
		if p := s.Image.PCAt(n.Offset); p >= 0 && s.Image.PCMap[p] == n.Offset {
			pc = fmt.Sprintf("%03d", p)
		}
		text := n.Text
		if width >= wideListing+16 {
			text = fmt.Sprintf("%-21x %s", n.Bytes, n.Text)
		}
		line := fmt.Sprintf("%s%-3s %4x %s", debug.Signs(cursor, s.Breaks.Offset(n.Offset), done[i], false), pc, n.Offset, text)
		if cursor {
			line = here.Styled(pad(line, width))
		}
		lines = append(lines, line)
	}
	return lines
}

// variables is the pane of A, X and M[].
func (m *Model) variables(st *debug.State) []string {
	all, native := m.s.Variables(st)
	title := fmt.Sprintf("%-7s%-10s", "", "bpf")
	if native {
		title += " native"
	}
	lines := []string{head(title)}
	for _, v := range all {
		text := fmt.Sprintf("%-6s %08x  ", v.Name, v.Want)
		if v.Known {
			text += fmt.Sprintf(" %08x", v.Got)
			switch d := st.Differs(v.Name); {
			case d != nil && d.Used:
				text = m.wrong(text + " !")
			case d != nil:
				text += " ~"
			}
		}
		lines = append(lines, text)
	}
	return lines
}

// shorten tells how many lines of a pane there is no room for.
func shorten(lines []string, height int) []string {
	if len(lines) <= height {
		return lines
	}
	return append(lines[:height-1:height-1], fmt.Sprintf("(%d more)", len(lines)-height+1))
}

// flags are the bits of the flags register with their names.
var flags = map[kernelabi.Arch][]struct {
	name string
	bit  int
}{
	kernelabi.X86_64: {{"OF", 11}, {"SF", 7}, {"ZF", 6}, {"PF", 2}, {"CF", 0}},
	kernelabi.ARMv5:  {{"N", 31}, {"Z", 30}, {"C", 29}, {"V", 28}},
}

// processor is the pane of the machine's registers. The last is that of the
// flags and goes into the title.
func (m *Model) processor(st *debug.State, width int) []string {
	if st.Step == nil {
		return []string{head("registers")}
	}
	arch, digits := m.s.Image.Profile.Arch, 16
	if arch != kernelabi.X86_64 {
		arch, digits = kernelabi.ARMv5, 8
	}
	last := len(st.Step.Names) - 1
	title := fmt.Sprintf("registers  %s %x", st.Step.Names[last], st.Step.Registers[last])
	for _, f := range flags[arch] {
		if st.Step.Registers[last]>>f.bit&1 != 0 {
			title += " " + f.name
		}
	}
	lines := []string{head(title)}
	columns := max((width+1)/(digits+5), 1) // the last has no blank behind it
	rows := (last + columns - 1) / columns
	for row := range rows {
		var line strings.Builder
		for i := row; i < last; i += rows {
			sign := " "
			if st.Before != nil && st.Before.Registers[i] != st.Step.Registers[i] {
				sign = "*"
			}
			fmt.Fprintf(&line, "%-3s%s%0*x ", st.Step.Names[i], sign, digits, st.Step.Registers[i])
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// packetLines is the pane of the packet, around the last load.
func (m *Model) packetLines(st *debug.State, height int) []string {
	data := m.s.Recording().Bytes
	title := fmt.Sprintf("%s  %d bytes", m.s.Noun(), len(data))
	if st.Load.Size > 0 {
		title += fmt.Sprintf(", last load: %d at %d", st.Load.Size, st.Load.Offset)
	}
	rows := (len(data) + debug.BytesPerLine - 1) / debug.BytesPerLine
	from, to := window(rows, height-1, st.Load.Offset/debug.BytesPerLine)
	if from > 0 || to < rows {
		title += fmt.Sprintf(" (%d to %d)", from*debug.BytesPerLine, min(to*debug.BytesPerLine, len(data))-1)
	}
	lines := []string{head(title)}
	for row := from; row < to; row++ {
		line := debug.HexLine(data, row*debug.BytesPerLine, st.Load)
		if i := strings.IndexByte(line, '['); i >= 0 && i < 3*debug.BytesPerLine {
			if j := strings.IndexByte(line[i:], ']'); j > 0 {
				line = line[:i] + m.loaded(line[i:i+j+1]) + line[i+j+1:]
			}
		}
		lines = append(lines, fmt.Sprintf("%5d:%s", row*debug.BytesPerLine, line))
	}
	return lines
}
