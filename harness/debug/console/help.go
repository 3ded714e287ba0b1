package console

import "strings"

// Example is a session that finds a planted bug, for help texts.
const Example = `> load bpf 3,0 0 0 4294967295,84 0 0 4294901760,22 0 0 0
> jit mutant:x86-and-imm16
> until divergence
packet 1: at instruction 1: after it A is 0xffff0200, the interpreter has 0xffff0000
> step -1                      back to what is to blame: and #0xffff0000
> stepi                        and on through its code, one native instruction at a time
> disassemble native           and $0x200,%ax is not and $0x0,%ax`

// helpColumn is where the texts of commands begin.
const helpColumn = 20

// help lists the commands.
func (p *printer) help() {
	for _, cmd := range commands() {
		text := strings.ReplaceAll(cmd.help, "\n", "\n"+strings.Repeat(" ", helpColumn))
		line := "  " + strings.TrimSpace(cmd.name+" "+cmd.args)
		if len(line) > helpColumn-2 {
			p.printf("%s\n", line)
			line = ""
		}
		p.printf("%-*s%s\n", helpColumn, line, text)
	}
	p.printf(`
Commands may be shortened as far as they stay unique (st is step). Lines that
begin with # are comments. Signs: > the cursor, * a breakpoint, + executed,
! differs, or is to blame; ~ differs and the program does not read it.

An example:

%s
`, Example)
}

// Complete returns a line with its command written out, if that is unique, and
// the line as it is otherwise.
func Complete(line string) string {
	if line == "" || strings.Contains(line, " ") {
		return line
	}
	if cmd, err := find("command", commands(), line); err == nil {
		return cmd.name + " "
	}
	return line
}
