// Package screen is the debugger as a full screen on a terminal: program and
// code, the registers of both sides, the packet, and keys that step.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kjit-project/kjit/harness/debug"
)

// Run shows the session until its user quits. Without colours bold and reversed
// text remains.
func Run(ctx context.Context, s *debug.Session, in io.Reader, out io.Writer, colours bool, options ...tea.ProgramOption) error {
	options = append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()}, options...)
	end, err := tea.NewProgram(New(s, colours), options...).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return end.(*Model).err
}

// Model is the screen as bubbletea runs it.
type Model struct {
	s             *debug.Session
	colours       bool
	width, height int
	drawn         string // what is shown
	message       string // about the last key
	help          bool

	asking bool // for a place to go to
	typed  string

	search *search
	found  int   // the packet whose divergence was gone to, or -1
	err    error // of the machine: the end
}

// New returns the screen of a session.
func New(s *debug.Session, colours bool) *Model { return &Model{s: s, colours: colours, found: -1} }

// Init asks for nothing: the size of the window comes by itself.
func (m *Model) Init() tea.Cmd { return nil }

// search is one for a divergence on packets to come.
type search struct {
	from int // packet and place to come back to if there is none
	at   debug.Cursor
	next int // packet to look at
}

// goOn makes a search look at more packets.
type goOn struct{}

// Update does what a key asks for, and draws the screen anew. A panic is a defect
// of kjit: it ends the program as an error, with the terminal as it was.
func (m *Model) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer func() {
		if p := recover(); p != nil {
			m.err, cmd = fmt.Errorf("internal error: %v: this is a defect in kjit; please report it", p), tea.Quit
		}
	}()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case goOn:
		cmd = m.look()
	case tea.KeyPressMsg:
		cmd = m.key(msg.String())
	}
	m.drawn = strings.Join(m.lines(), "\n")
	return m, cmd
}

// key handles one key press.
func (m *Model) key(key string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case m.search != nil:
		if key == "esc" || key == "q" {
			m.giveUp("stopped looking")
		}
		return nil
	case m.asking:
		m.answer(key)
		return nil
	case m.help:
		m.help = false
		return nil
	}
	m.message = ""
	for _, k := range keys() {
		if strings.Contains(" "+k.names+" ", " "+key+" ") {
			return k.do(m)
		}
	}
	m.message = fmt.Sprintf("no key %s (? lists them)", key)
	return nil
}

// binding is a key and what it does.
type binding struct {
	names string // as bubbletea has them, with blanks between
	shown string
	help  string
	do    func(m *Model) tea.Cmd
}

// keys lists them as the help does.
func keys() []binding {
	does := func(do func(m *Model)) func(m *Model) tea.Cmd {
		return func(m *Model) tea.Cmd { do(m); return nil }
	}
	return []binding{
		{"n s down space", "n s down", "step: execute a BPF instruction, the code follows", does(func(m *Model) { m.s.Step(1) })},
		{"p up", "p up", "back by a BPF instruction", does(func(m *Model) { m.s.Step(-1) })},
		{"N S right", "N right", "execute a native instruction, the program follows", does(func(m *Model) { m.native(1) })},
		{"P left", "P left", "back by a native instruction", does(func(m *Model) { m.native(-1) })},
		{"r", "r", "run to the next breakpoint, or to the end of the packet", does((*Model).run)},
		{"d", "d", "go to the first difference; again: to that of another packet", (*Model).diverge},
		{"b", "b", "set or remove a breakpoint at the BPF instruction", does((*Model).breakPC)},
		{"B", "B", "set or remove a breakpoint at the native instruction", does((*Model).breakNative)},
		{"g", "g", "go to an instruction: 12, or @2b for an offset in the code", does(func(m *Model) { m.asking, m.typed = true, "" })},
		{"home", "home", "go to the first instruction", does(func(m *Model) { m.s.Start() })},
		{"end", "end", "go to the end of both sides", does(func(m *Model) { m.s.End() })},
		{"]", "]", "next packet", does(func(m *Model) { m.packet(1) })},
		{"[", "[", "packet before", does(func(m *Model) { m.packet(-1) })},
		{"?", "?", "this help", does(func(m *Model) { m.help = true })},
		{"q", "q", "quit", func(*Model) tea.Cmd { return tea.Quit }},
	}
}

func (m *Model) native(n int) {
	if err := m.s.NeedCode(); err != nil {
		m.note(err)
		return
	}
	m.s.StepNative(n)
}

func (m *Model) run() {
	switch stop := m.s.Continue(); {
	case stop.End:
		m.message = "the end (] is the next " + m.s.Noun() + ")"
	case stop.PC >= 0:
		m.message = fmt.Sprintf("breakpoint at instruction %d", stop.PC)
	default:
		m.message = fmt.Sprintf("breakpoint at @%x", stop.Offset)
	}
}

func (m *Model) breakPC() {
	st := m.s.State()
	if st.Ended {
		m.message = "the program has returned: no instruction here"
		return
	}
	m.note(m.s.BreakPC(st.BPF.PC, !m.s.Breaks.PC(st.BPF.PC)))
}

func (m *Model) breakNative() {
	st := m.s.State()
	if st.Step == nil || st.NativeEnded {
		m.message = "no native instruction here"
		return
	}
	m.note(m.s.BreakOffset(st.Step.Offset, !m.s.Breaks.Offset(st.Step.Offset)))
}

func (m *Model) note(err error) {
	if err != nil {
		m.message = err.Error()
	}
}

func (m *Model) packet(n int) {
	i := m.s.Index() + n
	if i < 0 || i >= len(m.s.Inputs) {
		m.message = fmt.Sprintf("there are %ss 1 to %d", m.s.Noun(), len(m.s.Inputs))
		return
	}
	m.note(m.s.Select(i))
	m.found = -1
}

// answer takes a key for the place to go to.
func (m *Model) answer(key string) {
	switch {
	case key == "esc":
		m.asking = false
	case key == "backspace":
		m.typed = m.typed[:max(len(m.typed)-1, 0)]
	case key == "enter":
		m.asking = false
		m.note(m.goTo(m.typed))
	case len(key) == 1 && len(m.typed) < 12:
		m.typed += key
	}
}

func (m *Model) goTo(text string) error {
	if text == "" {
		return nil
	}
	if hex, ok := strings.CutPrefix(text, "@"); ok {
		offset, err := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 31)
		if err != nil {
			return fmt.Errorf("%s is no offset: want one in hex, such as @2b", text)
		}
		return m.s.ToOffset(int(offset))
	}
	pc, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%s is no instruction: want its number, or @ and an offset", text)
	}
	return m.s.ToPC(int(pc))
}

// diverge goes to the divergence of this packet, or when that was shown begins
// to look for another.
func (m *Model) diverge() tea.Cmd {
	if err := m.s.NeedCode(); err != nil {
		m.note(err)
		return nil
	}
	i := m.s.Index()
	m.search = &search{from: i, at: m.s.Cursor(), next: i}
	if m.found == i && m.s.PastDivergence() {
		m.search.next++
	}
	return m.look()
}

// patience is how long a search may keep the screen waiting.
const patience = 50 * time.Millisecond

// look goes on with a search.
func (m *Model) look() tea.Cmd {
	if m.search == nil {
		return nil
	}
	for start := time.Now(); time.Since(start) < patience; m.search.next++ {
		i := m.search.next
		if i >= len(m.s.Inputs) {
			m.giveUp("no divergence")
			return nil
		}
		if i != m.s.Index() {
			if err := m.s.Select(i); err != nil {
				m.err = err
				return tea.Quit
			}
		}
		if m.s.ToDivergence() {
			m.message = fmt.Sprintf("! %s %d: %s", m.s.Noun(), i+1, m.s.Story(m.s.Recording().Divergence))
			m.found, m.search = i, nil
			return nil
		}
	}
	return func() tea.Msg { return goOn{} }
}

// giveUp goes back to where a search began.
func (m *Model) giveUp(why string) {
	s := m.search
	m.search = nil
	m.message = fmt.Sprintf("%s up to %s %d", why, m.s.Noun(), min(s.next, len(m.s.Inputs)))
	if s.from != m.s.Index() {
		if err := m.s.Select(s.from); err != nil {
			m.message = err.Error()
			return
		}
	}
	m.s.SetCursor(s.at)
}
