package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
)

// command is one command of the console.
type command struct {
	name, args, help string
	session          bool // it needs a program
	run              func(ctx context.Context, p *printer, args string) error
}

// commands lists them as help does.
func commands() []command {
	return []command{
		{"load", "bpf PROGRAM | pcap FILE", "a program (in a file, or as 1,6 0 0 5), or packets", false, load},
		{"select", "N", "go to the start of packet N", true, selectInput},
		{"step", "[N]", "N BPF instructions on (default 1), -N back; the code follows", true, step},
		{"stepi", "[N]", "the same in the code; the program follows", true, stepNative},
		{"run", "[N]", "to a breakpoint, or through N packets (default all left)", true, run},
		{"until", "PC | @OFFSET | divergence | breakpoint | start | end", "go there, be it later or earlier; the first difference may\nbe one of the packets to come", true, until},
		{"breakpoint", "[PC | @OFFSET | reset]", "set one at a BPF or native instruction; list, remove all", true, breakpoint},
		{"disassemble", "[native]", "list the program, or the program with its code", true, disassemble},
		{"dump", "", "write the program as tcpdump -ddd does", true, dump},
		{"registers", "", "A, X, M[] of both sides, and the processor's registers", true, registers},
		{"packet", "", "the packet, the last load in brackets", true, packet},
		{"diff", "", "what differs here, and where the first difference is", true, diff},
		{"jit", "[NAME]", "put another JIT beside the program; tell which it is", false, jit},
		{"help", "[COMMAND]", "list the commands, with an example session", false, help},
		{"quit", "", "end", false, nil},
	}
}

// find returns the command that a word means: its name, or a beginning that no
// other has. Where one of several is the beginning of all others, as step is of
// stepi, it is that one.
func find(noun string, all []command, word string) (*command, error) {
	var fits []*command
	for i := range all {
		if all[i].name == word {
			return &all[i], nil
		}
		if strings.HasPrefix(all[i].name, word) {
			fits = append(fits, &all[i])
		}
	}
	var names []string
	for _, f := range fits {
		names = append(names, f.name)
	}
	switch {
	case len(fits) == 0:
		return nil, fmt.Errorf("no %s %q (help lists them)", noun, word)
	case slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, names[0]) }):
		return nil, fmt.Errorf("%q may be %s", word, strings.Join(names, ", "))
	}
	return fits[0], nil
}

func load(ctx context.Context, p *printer, args string) error {
	what, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case what == "" || rest == "":
		return errors.New("want load bpf PROGRAM, or load pcap FILE")
	case strings.HasPrefix("bpf", what):
		return loadProgram(ctx, p, rest)
	case strings.HasPrefix("pcap", what):
		return loadInputs(ctx, p, rest)
	}
	return fmt.Errorf("cannot load %q: want load bpf PROGRAM, or load pcap FILE", what)
}

func loadProgram(ctx context.Context, p *printer, text string) error {
	name, prog, kind, err := p.c.Open.Program(ctx, text)
	if err != nil {
		return err
	}
	config := p.c.config
	config.Name, config.Program = name, prog
	switch {
	case kind != nil:
		config.Kind = *kind
	case len(config.Inputs) == 0:
		config.Kind = bpf.Socket
	}
	if len(config.Inputs) > 0 && harness.KindOf(config.Inputs[0]) != config.Kind {
		config.Inputs = nil // packets are of no use to a filter of system calls
	}
	if err := p.c.renew(config); err != nil {
		return err
	}
	p.again()
	return nil
}

func loadInputs(ctx context.Context, p *printer, name string) error {
	inputs, err := p.c.Open.Inputs(ctx, name)
	if err != nil {
		return err
	}
	if len(inputs) == 0 {
		return fmt.Errorf("%s: no packets in it", name)
	}
	config := p.c.config
	config.Inputs = inputs
	if config.Program == nil {
		config.Kind = harness.KindOf(inputs[0])
		p.c.config = config
		p.printf("%s\n", plural(len(inputs), config.Noun()))
		return nil
	}
	if kind := harness.KindOf(inputs[0]); kind != config.Kind {
		return fmt.Errorf("%s: inputs for a %s filter, and %s is a %s filter", name, kind, config.Name, config.Kind)
	}
	if err := p.s.SetInputs(inputs); err != nil {
		return err
	}
	p.c.config, p.c.found = config, -1
	p.again()
	return nil
}

func jit(ctx context.Context, p *printer, name string) error {
	if name == "" {
		p.printf("%s\n", p.c.config.Target.Name())
		return nil
	}
	target, err := p.c.Open.Target(ctx, name)
	if err != nil {
		return err
	}
	config := p.c.config
	config.Target = target
	if config.Program == nil {
		p.c.config = config
		return nil
	}
	index, breaks := p.s.Index(), p.s.Breaks.PCs
	if err := p.c.renew(config); err != nil {
		return err
	}
	p.s = p.c.session
	p.s.Breaks.PCs = breaks // those in the code were in other code
	if err := p.s.Select(index); err != nil {
		return err
	}
	p.again()
	return nil
}

func selectInput(_ context.Context, p *printer, args string) error {
	n, err := strconv.Atoi(args)
	if err != nil {
		return fmt.Errorf("want select N, a %s from 1 to %d", p.s.Noun(), len(p.s.Inputs))
	}
	if err := p.s.Select(n - 1); err != nil {
		return err
	}
	p.c.found = -1
	p.where()
	return nil
}

// count reads an optional number with a sign.
func count(args string, otherwise int) (int, error) {
	if args == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(args)
	if err != nil {
		return 0, fmt.Errorf("%q is no number: want how many", args)
	}
	return n, nil
}

func step(_ context.Context, p *printer, args string) error {
	n, err := count(args, 1)
	if err != nil {
		return err
	}
	p.s.Step(n)
	p.where()
	return nil
}

func stepNative(_ context.Context, p *printer, args string) error {
	n, err := count(args, 1)
	if err != nil {
		return err
	}
	if err := p.s.NeedCode(); err != nil {
		return err
	}
	p.s.StepNative(n)
	p.where()
	return nil
}

// run goes through packets as bpf_dbg does, and counts what they come to.
func run(ctx context.Context, p *printer, args string) error {
	left := len(p.s.Inputs) - p.s.Index()
	n, err := count(args, left)
	if err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%q: want how many packets, 1 at least", args)
	}
	var passes, fails int
	var diverging, onTheWay []string
	stop := p.s.Continue()
	for {
		if !stop.End {
			p.stopped(stop)
			return nil
		}
		r := p.s.Recording()
		if r.Want.Value != 0 {
			passes++
		} else {
			fails++
		}
		switch name := strconv.Itoa(p.s.Index() + 1); {
		case r.Verdict == harness.Diverge:
			diverging = append(diverging, name)
		case r.OnTheWay():
			onTheWay = append(onTheWay, name)
		}
		if n--; n == 0 || p.s.Index()+1 == len(p.s.Inputs) {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.s.Select(p.s.Index() + 1); err != nil {
			return err
		}
		stop = p.s.Enter()
	}
	p.printf("bpf passes:%d fails:%d\n", passes, fails)
	if p.s.Image == nil {
		return nil
	}
	name := p.s.Target.Name()
	switch {
	case len(diverging) > 0:
		p.printf("%s diverges on %d of them: %s\n", name, len(diverging), few(diverging))
	case len(onTheWay) == 0:
		p.printf("%s agrees on all of them\n", name)
	}
	if len(onTheWay) > 0 {
		p.printf("%s returns the same on %d of them, but differs on the way: %s\n", name, len(onTheWay), few(onTheWay))
	}
	return nil
}

// few is a list of which the first are shown.
func few(names []string) string {
	const most = 12
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	return strings.Join(names, ", ")
}

// places are the words that until knows.
var places = []command{
	{name: "divergence", run: untilDivergence},
	{name: "breakpoint", run: func(_ context.Context, p *printer, _ string) error { p.stopped(p.s.Continue()); return nil }},
	{name: "start", run: func(_ context.Context, p *printer, _ string) error { p.s.Start(); p.where(); return nil }},
	{name: "end", run: func(_ context.Context, p *printer, _ string) error { p.s.End(); p.where(); return nil }},
}

func until(ctx context.Context, p *printer, args string) error {
	if args == "" {
		return errors.New("until what: a PC, an @OFFSET of the code, divergence, breakpoint, start, end")
	}
	pc, offset, ok, err := place(args)
	switch {
	case err != nil:
		return err
	case !ok:
		word, err := find("place", places, args)
		if err != nil {
			return err
		}
		return word.run(ctx, p, "")
	case offset >= 0:
		err = p.s.ToOffset(offset)
	default:
		err = p.s.ToPC(pc)
	}
	if err != nil {
		return err
	}
	p.where()
	return nil
}

// place reads PC or @OFFSET, the offset in hex as in listings. The other one is
// -1. Words are neither.
func place(text string) (pc, offset int, ok bool, err error) {
	if text == "" {
		return -1, -1, false, nil
	}
	if hex, is := strings.CutPrefix(text, "@"); is {
		n, err := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 31)
		if err != nil {
			return -1, -1, false, fmt.Errorf("%s: want an offset in the code in hex, such as @2b", text)
		}
		return -1, int(n), true, nil
	}
	if text[0] < '0' || text[0] > '9' {
		return -1, -1, false, nil
	}
	pc, err = strconv.Atoi(text)
	if err != nil {
		return -1, -1, false, fmt.Errorf("%s: want the number of an instruction", text)
	}
	return pc, -1, true, nil
}

// untilDivergence goes to the first difference of this packet, or when that was
// shown of those behind it.
func untilDivergence(ctx context.Context, p *printer, _ string) error {
	if err := p.s.NeedCode(); err != nil {
		return err
	}
	first, was := p.s.Index(), p.s.Cursor()
	seen := p.c.found == first && p.s.PastDivergence()
	for i := first; i < len(p.s.Inputs); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > first {
			if err := p.s.Select(i); err != nil {
				return err
			}
		}
		if i == first && seen || !p.s.ToDivergence() {
			continue
		}
		p.c.found = i
		p.printf("%s %d: %s\n", p.s.Noun(), i+1, p.s.Story(p.s.Recording().Divergence))
		p.where()
		return nil
	}
	last := len(p.s.Inputs)
	if err := p.s.Select(first); err != nil {
		return err
	}
	p.s.SetCursor(was)
	if seen {
		first++
	}
	if first == last {
		p.printf("no other divergence up to %s %d\n", p.s.Noun(), last)
	} else {
		p.printf("no divergence on %ss %d to %d\n", p.s.Noun(), first+1, last)
	}
	return nil
}

func breakpoint(_ context.Context, p *printer, args string) error {
	pc, offset, ok, err := place(args)
	switch {
	case err != nil:
		return err
	case ok && offset >= 0:
		if err := p.s.BreakOffset(offset, true); err != nil {
			return err
		}
		p.printf("breakpoint at %s\n", p.native(p.s.InstructionAt(offset)))
	case ok:
		if err := p.s.BreakPC(pc, true); err != nil {
			return err
		}
		p.printf("breakpoint at %s\n", instruction(pc, p.s.Program[pc]))
	case args == "":
		p.breakpoints()
	case strings.HasPrefix("reset", args):
		p.s.Breaks.Clear()
	default:
		return fmt.Errorf("breakpoint %s: want a PC, an @OFFSET of the code, or reset", args)
	}
	return nil
}

func disassemble(_ context.Context, p *printer, args string) error {
	switch {
	case args == "" || strings.HasPrefix("bpf", args):
		p.program(false)
	case strings.HasPrefix("native", args):
		if err := p.s.NeedCode(); err != nil {
			return err
		}
		p.program(true)
	default:
		return fmt.Errorf("disassemble %s: want native, or nothing", args)
	}
	return nil
}

func dump(_ context.Context, p *printer, _ string) error {
	text, err := bpftext.Format(bpftext.DDD, p.s.Program)
	if err != nil {
		return err
	}
	p.printf("%s", text)
	return nil
}

func registers(_ context.Context, p *printer, _ string) error {
	p.where()
	p.processor()
	return nil
}

func packet(_ context.Context, p *printer, _ string) error { p.bytes(); return nil }

func diff(_ context.Context, p *printer, _ string) error { p.differences(); return nil }

func help(_ context.Context, p *printer, args string) error {
	if args == "" {
		p.help()
		return nil
	}
	cmd, err := find("command", commands(), args)
	if err != nil {
		return err
	}
	p.printf("%s\n    %s\n", strings.TrimSpace(cmd.name+" "+cmd.args), cmd.help)
	return nil
}
