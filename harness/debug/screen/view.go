package screen

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
)

// The least window that shows anything of use.
const minWidth, minHeight = 50, 16

// Styles. Nothing is said by them alone: there is a sign for each.
var (
	heading = ansi.Style{}.Bold()
	here    = ansi.Style{}.Reverse(true)
	faint   = ansi.Style{}.Faint()
	strong  = ansi.Style{}.Bold()
	red     = ansi.Style{}.Bold().ForegroundColor(ansi.Red)
	green   = ansi.Style{}.Bold().ForegroundColor(ansi.Green)
)

// wrong is how differences look, loaded how the last load does.
func (m *Model) wrong(text string) string  { return m.in(red).Styled(text) }
func (m *Model) loaded(text string) string { return m.in(green).Styled(text) }

func (m *Model) in(coloured ansi.Style) ansi.Style {
	if m.colours {
		return coloured
	}
	return strong
}

// View shows what Update has drawn.
func (m *Model) View() tea.View {
	v := tea.NewView(m.drawn)
	v.AltScreen = true
	v.WindowTitle = "kjit debug"
	return v
}

// lines are all those of the screen, each as wide as the window.
func (m *Model) lines() []string {
	switch {
	case m.width == 0:
		return nil // the size is not known yet
	case m.width < minWidth || m.height < minHeight:
		return fit([]string{fmt.Sprintf("kjit debug needs a window of %d by %d; q quits", minWidth, minHeight)}, m.width, m.height)
	case m.help:
		return fit(m.helpLines(), m.width, m.height)
	}
	st := m.s.State()
	status := m.status(st)
	rest := m.height - 2 - len(status) // without title and keys

	packet := min(max(rest/6, 3), 1+(len(m.s.Recording().Bytes)+debug.BytesPerLine-1)/debug.BytesPerLine)
	left := m.width/2 - 1
	right := m.width - left - 1
	const vars = 30 // wide enough for A, X and M[]
	variables := m.variables(st)
	processor := m.processor(st, m.width-vars-1)
	registers := min(max(len(variables), len(processor)), max(rest-packet-5, 4))
	listing := rest - packet - registers

	all := []string{here.Styled(pad(m.title(), m.width))}
	all = append(all, beside(m.program(st, left, listing), m.code(st, right, listing), left, right, listing)...)
	all = append(all, beside(shorten(variables, registers), shorten(processor, registers), vars, m.width-vars-1, registers)...)
	all = append(all, fit(m.packetLines(st, packet), m.width, packet)...)
	all = append(all, status...)
	return fit(append(all, faint.Styled(keyLine)), m.width, m.height)
}

const keyLine = "n p step  N P native  r run  d diverge  b B break  g goto  [ ] packet  ? q"

// title tells what is debugged, and how the packet ends.
func (m *Model) title() string {
	s, r := m.s, m.s.Recording()
	end := r.Verdict.String()
	switch {
	case s.Image == nil:
		end = "no code"
	case r.Verdict == harness.Diverge:
		end = "! DIVERGES"
	case r.OnTheWay():
		end = "! agree, but differ on the way"
	}
	return fmt.Sprintf(" %s  %s %d/%d  %s  %s", base(s.Name), s.Noun(), s.Index()+1, len(s.Inputs), s.Target.Name(), end)
}

// base is a name without its folder.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// status is what is to be said: about the last key, or else about the place.
func (m *Model) status(st *debug.State) []string {
	text := m.message
	switch {
	case m.asking:
		text = "go to (12, or @2b in the code): " + m.typed + "_"
	case m.search != nil:
		text = fmt.Sprintf("looking at %s %d of %d (esc stops)", m.s.Noun(), m.search.next+1, len(m.s.Inputs))
	case text == "":
		text = m.place(st)
	}
	lines := strings.Split(ansi.Wordwrap(text, m.width-1, ""), "\n")
	for i, line := range lines {
		if strings.HasPrefix(text, "!") {
			lines[i] = m.wrong(line)
		}
	}
	return lines[:min(len(lines), 3)]
}

// place says what is worth knowing of the cursor.
func (m *Model) place(st *debug.State) string {
	var notes []string
	for _, d := range st.Differences {
		if d.Used {
			return "! " + d.How
		}
	}
	if st.Ended && st.NativeEnded {
		return "both sides have ended"
	}
	if m.s.Image == nil {
		return "no code: " + m.s.NoCode
	}
	if !m.s.Mapped() {
		return "no map: program (n p) and code (N P) are stepped apart"
	}
	if st.Step != nil && !st.NativeEnded {
		if !st.Together {
			in := "the code is in no instruction's"
			if pc := m.s.Image.PCAt(st.Step.Offset); pc >= 0 {
				in = fmt.Sprintf("inside the code of instruction %d", pc)
			}
			notes = append(notes, in)
		}
		if st.Step.Call != "" {
			notes = append(notes, "calls "+st.Step.Call+", which is not stepped")
		}
		if st.Before != nil && st.Before.Call != "" {
			notes = append(notes, fmt.Sprintf("%s left %s %#x", st.Before.Call, st.Step.Names[0], st.Step.Registers[0]))
		}
	}
	return strings.Join(notes, "; ")
}

// helpLines are the screen of ?.
func (m *Model) helpLines() []string {
	lines := []string{heading.Styled("keys"), ""}
	for _, k := range keys() {
		lines = append(lines, fmt.Sprintf("  %-9s %s", k.shown, k.help))
	}
	return append(lines, "",
		"signs: > cursor  * breakpoint  + executed  ! differs, or to blame",
		"       ~ differs, and the program does not read it  [ ] the last load",
		"To find a bug: d, then p to see what is to blame, N N to see its code.",
		"Any key goes back.")
}

// fit makes h lines of width w.
func fit(lines []string, w, h int) []string {
	out := make([]string, h)
	for i := range out {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		out[i] = pad(line, w)
	}
	return out
}

// pad makes a line w wide.
func pad(line string, w int) string {
	line = ansi.Truncate(line, w, "…")
	return line + strings.Repeat(" ", max(w-ansi.StringWidth(line), 0))
}

// beside puts two panes side by side.
func beside(left, right []string, wl, wr, h int) []string {
	left, right = fit(left, wl, h), fit(right, wr, h)
	out := make([]string, h)
	for i := range out {
		out[i] = left[i] + faint.Styled("│") + right[i]
	}
	return out
}

// head is a pane's first line.
func head(text string) string { return heading.Styled(text) }

// window returns which of n lines show when h fit and one is to be seen.
func window(n, h, at int) (from, to int) {
	from = max(min(at-h/2, n-h), 0)
	return from, min(from+h, n)
}
