package screen

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/kernelabi"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

// subnet keeps TCP packets of 192.168.0.0/16; and #0xffff0000 is what the
// mutant gets wrong.
const subnet = `
	ldh [12]
	jne #0x800, drop
	ld [26]
	and #0xffff0000
	st M[1]
	ldxb 4*([14]&0xf)
	ldh [x + 16]
	tax
	ld M[1]
	jeq #0xc0a80000, keep
drop:	ret #0
keep:	ret #0xffff
`

// packet is IPv4 from an address of which the third byte is given.
func packet(third byte) []byte {
	p := make([]byte, 54)
	copy(p, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x07\x08\x00\x45\x00")
	copy(p[26:], []byte{192, 168, third, 7, 10, 0, 0, 1, 0, 80})
	return p
}

// open returns the screen of a session, 80 by 24.
func open(t *testing.T, jit string, packets ...[]byte) *Model {
	t.Helper()
	l, err := bpftext.Parse("subnet", []byte(subnet))
	if err != nil {
		t.Fatal(err)
	}
	var inputs []kernelabi.Input
	for _, p := range packets {
		inputs = append(inputs, kernelabi.NewSkb(p))
	}
	return show(t, jit, debug.Config{Name: "filters/subnet.txt", Program: l.Program, Inputs: inputs})
}

func show(t *testing.T, jit string, c debug.Config) *Model {
	t.Helper()
	p, err := harness.ProfileByName(jit)
	if err != nil {
		t.Fatal(err)
	}
	target, err := harness.NewJIT(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Target = target
	s, err := debug.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); target.Close() })
	m := New(s, true)
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return m
}

// press presses keys, with blanks between them, and does what comes of them.
func press(m *Model, names string) (quit bool) {
	for name := range strings.FieldsSeq(names) {
		key := tea.KeyPressMsg{Text: name}
		if code, ok := special[name]; ok {
			key = code
		} else {
			key.Code = []rune(name)[0]
		}
		_, cmd := m.Update(key)
		for cmd != nil {
			msg := cmd()
			if _, ok := msg.(tea.QuitMsg); ok {
				return true
			}
			_, cmd = m.Update(msg)
		}
	}
	return false
}

var special = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace},
	"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
	"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "space": {Code: tea.KeySpace, Text: " "},
	"ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
}

// plain is the screen without styles and blanks at line ends.
func plain(m *Model) string {
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestScreens(t *testing.T) {
	seccomp := debug.Config{
		Name: "calls", Kind: bpf.Seccomp, Inputs: []kernelabi.Input{&kernelabi.Syscall{}},
		Program: bpf.Program{{Code: bpf.LdWAbs, K: 4}, {Code: bpf.JeqK, K: 5, JF: 1}, {Code: bpf.RetK, K: 0x7fff0000}, {Code: bpf.RetK}},
	}
	wild := debug.Config{
		Name: "wild", Inputs: []kernelabi.Input{kernelabi.NewSkb(packet(0))},
		Program: bpf.Program{{Code: bpf.LdImm, K: 10}, {Code: bpf.LdxImm}, {Code: bpf.DivX}, {Code: bpf.JeqK, JF: 1, K: 10}, {Code: bpf.RetK, K: 5}, {Code: bpf.RetK}},
	}
	for _, tt := range []struct {
		name          string // of the golden file
		model         func(t *testing.T) *Model
		keys          string
		width, height int
	}{
		{"start", func(t *testing.T) *Model { return open(t, "linux-3.10-x86_64", packet(0), packet(2)) }, "", 80, 24},
		{"divergence", func(t *testing.T) *Model { return open(t, "mutant:x86-and-imm16", packet(0), packet(2)) }, "d", 80, 24},
		{"blame", func(t *testing.T) *Model { return open(t, "mutant:x86-and-imm16", packet(0), packet(2)) }, "d p b N B", 120, 40},
		{"end", func(t *testing.T) *Model { return open(t, "mutant:x86-and-imm16", packet(2)) }, "end", 80, 24},
		{"arm", func(t *testing.T) *Model { return open(t, "linux-4.5-armv7", packet(0)) }, "n n n N", 80, 24},
		{"least", func(t *testing.T) *Model { return open(t, "linux-3.10-x86_64", packet(0)) }, "n n", minWidth, minHeight},
		{"help", func(t *testing.T) *Model { return open(t, "linux-3.10-x86_64", packet(0)) }, "?", 80, 24},
		{"goto", func(t *testing.T) *Model { return open(t, "linux-3.10-x86_64", packet(0)) }, "g @ 2 b", 80, 24},
		{"nocode", func(t *testing.T) *Model { return show(t, "linux-3.10-x86_64", seccomp) }, "n", 80, 24},
		{"fault", func(t *testing.T) *Model { return show(t, "linux-3.0-x86_64", wild) }, "end", 80, 24},
	} {
		m := tt.model(t)
		m.Update(tea.WindowSizeMsg{Width: tt.width, Height: tt.height})
		press(m, tt.keys)
		got, file := plain(m), filepath.Join("testdata", tt.name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Whatever the window, the screen fills it and no more.
func TestSizes(t *testing.T) {
	m := open(t, "mutant:x86-and-imm16", packet(0), packet(2))
	for _, keys := range []string{"", "d", "N", "end", "?", "x g", "esc home"} {
		press(m, keys)
		for _, width := range []int{1, 20, 49, 50, 51, 79, 80, 103, 104, 200} {
			for _, height := range []int{1, 2, 15, 16, 17, 24, 25, 60} {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(m.View().Content, "\n")
				if len(lines) != height {
					t.Errorf("%q, %d by %d: %d lines", keys, width, height, len(lines))
				}
				for i, line := range lines {
					if n := ansi.StringWidth(line); n != width {
						t.Errorf("%q, %d by %d: line %d is %d wide: %q", keys, width, height, i, n, line)
					}
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	// What the keys do to the session, after d has gone to packet 2.
	type place struct {
		Packet, PC int
		Native     bool // the code is in the middle of an instruction
		Message    string
	}
	const story = "! packet 2: at instruction 3: after it A is 0xc0a80200, the interpreter has 0xc0a80000"
	for _, tt := range []struct {
		desc, keys string
		want       place
	}{
		{"n steps.", "n n", place{1, 2, false, ""}},
		{"So do s, down and space.", "s down space", place{1, 3, false, ""}},
		{"p and up go back.", "n n n p up", place{1, 1, false, ""}},
		{"N steps in the code.", "N", place{1, 0, true, ""}},
		{"Until the next instruction.", "right right", place{1, 1, false, ""}},
		{"P goes back there.", "N N P left", place{1, 0, false, ""}},
		{"d finds the packet and the place.", "d", place{2, 4, false, story}},
		{"p shows what is to blame.", "d p", place{2, 3, false, ""}},
		{"d comes back to it.", "d p p d", place{2, 4, false, story}},
		{"There is no other.", "d d", place{2, 4, false, "no divergence up to packet 3"}},
		{"Packets are chosen.", "] ] n [", place{2, 0, false, ""}},
		{"There is none before the first.", "n [", place{1, 1, false, "there are packets 1 to 3"}},
		{"r runs to a breakpoint.", "n n b home r", place{1, 2, false, "breakpoint at instruction 2"}},
		{"One that was removed is passed.", "n n b b home r", place{1, 11, false, "the end (] is the next packet)"}},
		{"Native breakpoints count too.", "N B home r", place{1, 0, true, "breakpoint at @22"}},
		{"At the end there is nothing to break at.", "end b", place{1, 11, false, "the program has returned: no instruction here"}},
		{"On either side.", "end B", place{1, 11, false, "no native instruction here"}},
		{"g goes to an instruction.", "g 9 enter", place{1, 9, false, ""}},
		{"Or to code.", "g @ 0 x 2 2 enter", place{1, 0, true, ""}},
		{"One that is not executed is told.", "g 1 0 enter", place{1, 0, false, "instruction 10 is not executed on this input"}},
		{"Typing can be corrected.", "g 9 9 backspace enter", place{1, 9, false, ""}},
		{"And given up.", "g 9 esc", place{1, 0, false, ""}},
		{"What is no place is told.", "g z enter", place{1, 0, false, "z is no instruction: want its number, or @ and an offset"}},
		{"So is what is no offset.", "g @ z enter", place{1, 0, false, "@z is no offset: want one in hex, such as @2b"}},
		{"Nothing is no place, and no fault.", "g enter", place{1, 0, false, ""}},
		{"Keys that mean nothing say so.", "z", place{1, 0, false, "no key z (? lists them)"}},
		{"Any key ends the help.", "? n n", place{1, 1, false, ""}},
	} {
		m := open(t, "mutant:x86-and-imm16", packet(0), packet(2), packet(0))
		if press(m, tt.keys) {
			t.Errorf("%s It quits.", tt.desc)
		}
		st := m.s.State()
		got := place{m.s.Index() + 1, st.BPF.PC, !st.Together, m.message}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
	}
	m := open(t, "linux-3.10-x86_64", packet(0))
	for _, key := range []string{"q", "ctrl+c", "g ctrl+c", "? ctrl+c"} {
		if !press(m, key) {
			t.Errorf("%s does not quit", key)
		}
		press(m, "esc")
	}
}

// A search that takes long can be stopped, and comes back to where it began.
func TestSearchStops(t *testing.T) {
	m := open(t, "linux-3.10-x86_64", packet(0), packet(1), packet(2))
	press(m, "n n")
	at := m.s.Cursor()
	m.search = &search{from: 0, at: at, next: 1}
	if err := m.s.Select(1); err != nil {
		t.Fatal(err)
	}
	m.Update(nil)
	if text := plain(m); !strings.Contains(text, "looking at packet 2 of 3 (esc stops)") {
		t.Errorf("the screen says\n%s", text)
	}
	press(m, "n esc")
	if m.search != nil || m.s.Index() != 0 || m.s.Cursor() != at || !strings.Contains(m.message, "stopped looking") {
		t.Errorf("after esc: packet %d, %+v, %q", m.s.Index()+1, m.s.Cursor(), m.message)
	}
	if _, cmd := m.Update(goOn{}); cmd != nil {
		t.Error("the search goes on")
	}
}

// colour is any that is set.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|38|9[0-7]|4[0-7]|48)[;m]`)

// The program runs on what is no terminal at all, in colours and without.
func TestRun(t *testing.T) {
	for _, colours := range []bool{true, false} {
		m := open(t, "mutant:x86-and-imm16", packet(2))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out bytes.Buffer
		keys, typed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		go func() {
			defer typed.Close()
			for _, key := range []string{"d", "q"} {
				time.Sleep(200 * time.Millisecond) // a frame at least
				fmt.Fprint(typed, key)
			}
		}()
		err = Run(ctx, m.s, keys, &out, colours, tea.WithEnvironment([]string{"TERM=xterm-256color", "TTY_FORCE=1"}), tea.WithWindowSize(80, 24))
		if err != nil {
			t.Fatalf("colours %v: %v", colours, err)
		}
		if !strings.Contains(out.String(), "DIVERGES") || !strings.Contains(ansi.Strip(out.String()), "after it A is 0xc0a80200") {
			t.Errorf("colours %v: the output is %q", colours, out.String())
		}
		if got := colour.MatchString(out.String()); got != colours {
			t.Errorf("colours are %v, want %v", got, colours)
		}
	}
}

func TestRunEnds(t *testing.T) {
	m := open(t, "linux-3.10-x86_64", packet(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keys, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer typed.Close()
	if err := Run(ctx, m.s, keys, &bytes.Buffer{}, true, tea.WithWindowSize(80, 24)); err != context.Canceled {
		t.Errorf("the error is %v", err)
	}
}

// No sequence of keys breaks the screen, whatever is debugged.
func TestRandomKeys(t *testing.T) {
	seed := uint64(rand.Uint32())
	if text := os.Getenv("KJIT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KJIT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	names := strings.Fields("n p N P r d b B g 0 4 @ 2 b enter esc backspace home end [ ] ? x up down left right")
	for _, m := range []*Model{
		open(t, "mutant:x86-and-imm16", packet(0), packet(2), packet(1)),
		open(t, "linux-4.5-armv5", packet(0), packet(2)),
		show(t, "linux-3.10-x86_64", debug.Config{Kind: bpf.Seccomp, Inputs: []kernelabi.Input{&kernelabi.Syscall{}}, Program: bpf.Program{{Code: bpf.LdWAbs}, {Code: bpf.RetA}}}),
	} {
		var pressed []string
		for range 300 {
			name := names[rng.IntN(len(names))]
			pressed = append(pressed, name)
			press(m, name)
			if m.err != nil {
				t.Fatalf("%s: %v", strings.Join(pressed, " "), m.err)
			}
			if n := strings.Count(m.View().Content, "\n"); n != 23 {
				t.Fatalf("%s: %d lines", strings.Join(pressed, " "), n+1)
			}
		}
	}
}

// A panic ends the program as an error.
func TestPanic(t *testing.T) {
	m := New(nil, true)
	if _, cmd := m.Update(tea.WindowSizeMsg{Width: 80, Height: 24}); m.err == nil || cmd == nil || !strings.Contains(m.err.Error(), "defect in kjit") {
		t.Errorf("the error is %v", m.err)
	}
}
