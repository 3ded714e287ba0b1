package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/harness/debug/console"
)

type debugCmd struct {
	Program string   `arg:"" optional:"" help:"Program file in any text form, corpus:NAME, image:NAME for a record of --image, FILE.txtar for a recorded divergence, or a filter expression (default: that of the --image record; none: load it with a command)."`
	Inputs  []string `arg:"" optional:"" help:"Packets or system calls: captures, lines of hex, JSON Lines, or corpus:packets (default: those of the record, else some for the program)."`

	Hex       []string `placeholder:"HEX" sep:"none" help:"A packet in hex (repeatable)."`
	JIT       string   `name:"jit" placeholder:"NAME" help:"JIT to run beside the interpreter, mutant:FAULT, or exec:COMMAND for one of your own (default linux-3.10-x86_64; kjit jit --list lists them)."`
	Packet    int      `default:"1" placeholder:"N" help:"Start with packet N (default ${default})."`
	REPL      bool     `name:"repl" help:"Commands on lines in place of the screen. So it is anyway where standard input or output is no terminal."`
	Execute   []string `short:"e" sep:"none" placeholder:"COMMAND" help:"Run this command of --repl and end (repeatable)."`
	Kind      string   `placeholder:"KIND" help:"What the program is attached to: socket or seccomp (default: as the inputs; else as the program says, or socket)."`
	DLT       string   `name:"dlt" placeholder:"TYPE" help:"Link type for filter expressions (default: that of the captures, else EN10MB)."`
	Accesses  bool     `name:"check-accesses" help:"Look at every memory access too, as kjit replay does."`
	KeepGoing bool     `help:"Take the packets before the damage in a damaged capture."`
	PCMap     string   `name:"pc-map" placeholder:"FILE|LIST" help:"Where in the --image the code of each instruction starts: offsets from 0 on, and at last the end of the code."`

	pluginFlags
	imageFlags `group:"Image of a real kernel:"`
	metadata   `group:"Packet metadata:"`
}

func (c *debugCmd) Help() string {
	return `Steps a program and its machine code together, packet by packet, forth and back. On
a terminal it is a screen: n and p step the program, N and P the code, d goes to
the first difference, ? lists the keys. Otherwise, and with --repl, it reads
commands in the style of bpf_dbg, one on a line; help lists them. A command that
fails ends a script with exit code 2; a divergence is no failure here.

  kjit debug filter.txt trace.pcap --jit mutant:x86-and-imm16
  kjit debug corpus:posting2011 corpus:packets --jit linux-4.5-armv7
  kjit debug finding.txtar
  kjit debug filter.txt --hex 'ffff ffff' -e 'until divergence' -e diff
  kjit debug filter.txt --image dmesg.txt --profile linux-6.18-x86_64

A session with --repl that finds a planted bug:

  ` + strings.ReplaceAll(console.Example, "\n", "\n  ")
}

// debugDefaultJIT is what runs beside the interpreter if nobody names another.
const debugDefaultJIT = "linux-3.10-x86_64"

func (c *debugCmd) Run(ctx context.Context, std streams, global *cli) (err error) {
	bench := &debugBench{cmd: c, std: std}
	defer bench.close()
	config, err := c.config(ctx, bench)
	if err != nil {
		return err
	}
	cons, err := console.New(config, bench, std.out)
	if err != nil {
		return debugFailure(config.Name, err)
	}
	defer cons.Close()
	if s := cons.Session(); s != nil && c.Packet != 1 {
		if err := s.Select(c.Packet - 1); err != nil {
			return badInput(fmt.Errorf("--packet: %w", err))
		}
	}
	cons.JSON = global.JSON
	in, out := terminal(std.in), terminal(std.out)
	switch {
	case len(c.Execute) > 0:
		cons.Echo = true
		return debugScript("-e", cons.Run(ctx, strings.NewReader(strings.Join(c.Execute, "\n"))))
	case in == nil || out == nil || global.JSON:
		cons.Echo = true
		if err := cons.Greet(); err != nil {
			return err
		}
		return debugScript("standard input", cons.Run(ctx, std.in))
	case c.REPL || cons.Session() == nil || os.Getenv("TERM") == "dumb":
		return converse(ctx, cons, in, out)
	}
	return debugScreen(ctx, cons.Session(), in, out)
}

// terminal is the terminal that a stream is, or nil.
func terminal(stream any) *os.File {
	switch s := stream.(type) {
	case *interruptible:
		return terminal(s.r)
	case *checkedWriter:
		return terminal(s.w)
	case *os.File:
		if term.IsTerminal(int(s.Fd())) {
			return s
		}
	}
	return nil
}

// debugScript is the error of a script, which is bad input unless it is known
// to be something else.
func debugScript(name string, err error) error {
	var (
		failed *console.Error
		coded  *codedError
	)
	if !errors.As(err, &failed) {
		return err
	}
	err = fmt.Errorf("%s: %w", name, err)
	if errors.As(err, &coded) || errors.Is(err, context.Canceled) {
		return err
	}
	return badInput(err)
}

// debugFailure says why there is no session of a program.
func debugFailure(name string, err error) error {
	var (
		check   *bpf.CheckError
		failure *harness.Failure
	)
	if errors.As(err, &check) || errors.As(err, &failure) {
		return badInput(fmt.Errorf("%s: %w", name, err))
	}
	return err
}

// config reads and opens all that the command line names.
func (c *debugCmd) config(ctx context.Context, bench *debugBench) (config debug.Config, err error) {
	if count(append(c.Inputs, c.Program, c.Image), "-") > 0 {
		return config, badInput(errors.New("standard input is for the debugger's commands: give program, packets and image in files"))
	}
	if c.Image != "" && c.JIT != "" {
		return config, badInput(errors.New("--image and --jit: one thing runs beside the interpreter; choose"))
	}
	if c.PCMap != "" && c.Image == "" {
		return config, badInput(errors.New("--pc-map is about an image: give one with --image"))
	}
	if c.Accesses {
		config.Options = append(config.Options, emulator.WithAccessChecks())
	}
	if isRepro(c.Program) {
		return c.repro(ctx, bench, config)
	}
	images, err := c.imageFlags.open(bench.std.in, usesPlugin(c.JIT))
	if err != nil {
		return config, err
	}
	r := replayCmd{Program: c.Program, Inputs: c.Inputs, Hex: c.Hex, DLT: c.DLT, KeepGoing: c.KeepGoing, imageFlags: c.imageFlags, metadata: c.metadata}
	job := &replayJob{}
	if len(c.Inputs)+len(c.Hex) > 0 || images != nil {
		err = r.readProgram(ctx, bench.std, job, images)
	} else if c.Program != "" {
		job.prog, err = loadProgram(ctx, c.Program, cmp.Or(c.DLT, "EN10MB"), bench.std.in)
		if err == nil && job.prog.Kind != nil {
			job.kind = *job.prog.Kind
		}
	}
	if err != nil {
		return config, err
	}
	if job.prog != nil {
		config.Name, config.Program = job.prog.Name, job.prog.Program
	}
	config.Kind = job.kind
	if job.inputs != nil {
		config.Inputs = job.inputs.Inputs
	}
	if err := c.kind(&config); err != nil {
		return config, err
	}
	if images == nil {
		config.Target, err = bench.Target(ctx, cmp.Or(c.JIT, debugDefaultJIT))
		return config, err
	}
	image, err := images.runner(config.Program, config.Kind)
	if err != nil {
		return config, err
	}
	bench.closers = append(bench.closers, func() { image.Close() })
	config.Target = image
	if c.PCMap != "" {
		config.Target, err = c.mapped(image, &config)
	}
	return config, err
}

// kind takes what --kind says, which the inputs must be for.
func (c *debugCmd) kind(config *debug.Config) error {
	if c.Kind == "" {
		return nil
	}
	if err := config.Kind.UnmarshalText([]byte(c.Kind)); err != nil {
		return badInput(fmt.Errorf("--kind: %w", err))
	}
	if len(config.Inputs) > 0 && harness.KindOf(config.Inputs[0]) != config.Kind {
		return badInput(fmt.Errorf("--kind %s: the inputs are for filters of the other kind", config.Kind))
	}
	return nil
}

// repro takes all from a recorded divergence.
func (c *debugCmd) repro(ctx context.Context, bench *debugBench, config debug.Config) (debug.Config, error) {
	r, err := loadRepro(c.Program, len(c.Inputs)+len(c.Hex) > 0 || c.Image != "")
	if err != nil {
		return config, err
	}
	config.Name, config.Program, config.Kind = c.Program, r.Program, r.Kind
	config.Inputs = append(config.Inputs, r.Input)
	if r.Accesses && !c.Accesses {
		config.Options = append(config.Options, emulator.WithAccessChecks())
	}
	if c.JIT != "" {
		config.Target, err = bench.Target(ctx, c.JIT)
		return config, err
	}
	if usesPlugin(r.JIT) {
		return config, distrusted(c.Program, r)
	}
	runner, err := r.Open()
	if err != nil {
		return config, badInput(fmt.Errorf("%s: %w", c.Program, err))
	}
	bench.closers = append(bench.closers, func() { runner.Close() })
	config.Target = runner.(harness.Imager)
	return config, nil
}

// mapped is an image with the map of --pc-map.
func (c *debugCmd) mapped(image *harness.Image, config *debug.Config) (harness.Imager, error) {
	text := c.PCMap
	if _, err := os.Stat(text); err == nil {
		data, err := readWhole(text, maxText)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	offsets, err := parseOffsets(text)
	if err != nil {
		return nil, badInput(fmt.Errorf("--pc-map: %w", err))
	}
	img, err := image.Image(config.Program, config.Kind)
	if err != nil {
		return nil, err
	}
	if want := len(config.Program) + 1; len(offsets) != want {
		return nil, badInput(fmt.Errorf("--pc-map: %d offsets: want %d, one for each instruction and the end", len(offsets), want))
	}
	least := 0
	for i, off := range offsets {
		if off > len(img.Code) || off < least {
			return nil, badInput(fmt.Errorf("--pc-map: offset %d of instruction %d: want offsets in ascending order, up to %d", off, i, len(img.Code)))
		}
		least = off
	}
	mapped := *img
	mapped.PCMap = offsets
	// Code that nothing here emits keeps A and X where nothing here knows.
	mapped.OtherRegisters = img.Profile.Emitter == ""
	runner, err := harness.NewImage(image.Name(), &mapped)
	if err != nil {
		return nil, badInput(err)
	}
	return runner, nil
}

// parseOffsets reads numbers with commas or blanks between them, or an array of
// JSON.
func parseOffsets(text string) ([]int, error) {
	var offsets []int
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") {
		err := json.Unmarshal([]byte(text), &offsets)
		return offsets, err
	}
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		n, err := strconv.ParseUint(field, 0, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is no offset", field)
		}
		offsets = append(offsets, int(n))
	}
	return offsets, nil
}
