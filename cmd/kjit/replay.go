package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/capture"
	"github.com/kjit-project/kjit/harness/plugin"
	"github.com/kjit-project/kjit/kernelabi"
)

type replayCmd struct {
	Program string   `arg:"" optional:"" help:"Program file in any text form, - for standard input, corpus:NAME, image:NAME for a record of --image, FILE.txtar for a recorded divergence to run again, or a filter expression that tcpdump compiles (default: that of the --image record)."`
	Inputs  []string `arg:"" optional:"" help:"Packets: pcap or pcapng captures, lines of hex, JSON Lines of packets or system calls, or corpus:packets (default: those of the --image record)."`

	Hex       []string `placeholder:"HEX" sep:"none" help:"A packet in hex (repeatable)."`
	JIT       []string `name:"jit" default:"linux-3.0-x86_64,linux-3.10-x86_64,inline-x86_64" help:"JITs to run, or all, or mutant:FAULT, or exec:COMMAND for one of your own; kjit jit --list lists them (default ${default})."`
	DLT       string   `name:"dlt" placeholder:"TYPE" help:"Link type for which tcpdump compiles a filter expression (default: that of the captures, else EN10MB)."`
	Rows      string   `enum:"auto,all,diverging,none" default:"auto" help:"Which packets get a row: all, diverging, none; auto is all up to 40 packets."`
	Undefined string   `enum:"report,skip,fail" default:"report" help:"Shifts by X >= 32 that give another value: report them, only count them (skip), or fail (${default})."`
	Limit     int      `default:"5" placeholder:"N" help:"Show at most N divergences in full (default ${default})."`
	Accesses  bool     `name:"check-accesses" help:"Look at every memory access too: alignment on ARMv5, writes below the stack pointer, stack alignment at calls. Many times slower."`
	Attribute bool     `help:"Also tell how often each instruction of the program ran in every JIT, and how many native instructions it took."`
	KeepGoing bool     `help:"Run the packets before the damage in a damaged capture."`

	pluginFlags
	runnerFlags
	imageFlags `group:"Image of a real kernel:"`
	metadata   `group:"Packet metadata:"`

	ciFlags
}

// autoRows is up to how many packets a table has a row for each of them.
const autoRows = 40

// replayJob is what a replay works on.
type replayJob struct {
	prog    *source
	kind    bpf.Kind
	inputs  *inputSet
	runners []harness.Runner
	closers []func()
}

func (j *replayJob) close() {
	for _, c := range slices.Backward(j.closers) {
		c()
	}
}

func (c *replayCmd) Run(ctx context.Context, std streams, global *cli) error {
	if err := c.ciFlags.check(); err != nil {
		return err
	}
	if isRepro(c.Program) {
		return c.runRepro(ctx, std, global)
	}
	job, err := c.prepare(ctx, std)
	if err != nil {
		return err
	}
	defer job.close()
	tallies, err := c.compare(ctx, std, global, job)
	if err != nil {
		return err
	}
	return c.judge(tallies)
}

// compare runs the job and reports what comes of it.
func (c *replayCmd) compare(ctx context.Context, std streams, global *cli, job *replayJob) ([]harness.Tally, error) {
	var report replayReport
	if global.JSON {
		report = &jsonReport{enc: json.NewEncoder(std.out), inputs: job.inputs, prog: job.prog, runners: job.runners, limit: c.Limit, rows: c.Rows}
	} else {
		report = newTextReport(std.out, c, job.prog, job.inputs, job.runners)
	}
	if c.ciFlags.wanted() {
		ci := newCIReport(report, &c.ciFlags, job)
		ci.undefined = c.Undefined == "fail"
		report = ci
	}
	bar := newProgress(std.err, len(job.inputs.Inputs), "packets")
	done := 0
	replay := &harness.Replay{
		Program: job.prog.Program, Kind: job.kind, Runners: job.runners,
		Each: func(row *harness.Row) error {
			bar.add(1)
			done++
			return report.row(row)
		},
	}
	tallies, err := replay.Run(ctx, job.inputs.Inputs)
	bar.close()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err := report.summary(tallies, done); err != nil {
		return nil, err
	}
	if c.Attribute {
		if err := writeAttributions(std.out, global.JSON, job.prog.Program, job.runners, tallies); err != nil {
			return nil, err
		}
	}
	return tallies, ctx.Err()
}

// judge turns the tallies into the command's success or failure.
func (c *replayCmd) judge(tallies []harness.Tally) error {
	if nothingRan(tallies) {
		return badInput(errors.New("nothing was compared: no runner takes this program"))
	}
	for _, t := range tallies {
		if t.Diverge > 0 || c.Undefined == "fail" && t.Undefined > 0 {
			return errDiverged
		}
	}
	return nil
}

// prepare opens and reads all that the command line names.
func (c *replayCmd) prepare(ctx context.Context, std streams) (_ *replayJob, err error) {
	job := &replayJob{}
	defer func() {
		if err != nil {
			job.close()
		}
	}()
	if n := count(append(c.Inputs, c.Program, c.Image), "-"); n > 1 {
		return nil, badInput(errors.New("only one of program, packets and image can come from standard input"))
	}
	if err := c.openAll(ctx, job); err != nil {
		return nil, err
	}
	images, err := c.imageFlags.open(std.in, usesPlugin(c.JIT...))
	if err != nil {
		return nil, err
	}
	if err := c.readProgram(ctx, std, job, images); err != nil {
		return nil, err
	}
	if images != nil {
		image, err := images.runner(job.prog.Program, job.kind, c.attribution()...)
		if err != nil {
			return nil, err
		}
		job.closers = append(job.closers, func() { image.Close() })
		if images.faults != nil {
			fmt.Fprintf(std.err, "kjit: %v\n", images.faults)
		}
		job.runners = append(job.runners, image)
	}
	// A program that today's kernel refuses may still be one that an old
	// kernel took; only one that none of the chosen kernels takes is an error.
	if err := acceptedBySome(job.prog.Program, job.kind, job.runners); err != nil {
		return nil, badInput(errors.New(place(job.prog, err)))
	}
	return job, nil
}

// openAll opens the JITs and what else is to run.
func (c *replayCmd) openAll(ctx context.Context, job *replayJob) error {
	jits, closeJITs, err := c.openRunners(ctx, c.options()...)
	if err != nil {
		return err
	}
	job.closers = append(job.closers, closeJITs)
	live, closeLive, err := c.runnerFlags.open(ctx)
	if err != nil {
		return err
	}
	job.closers = append(job.closers, closeLive)
	job.runners = slices.Concat(job.runners, jits, live)
	return nil
}

// options are those of the JITs' machines.
func (c *replayCmd) options() []emulator.Option {
	if c.Accesses {
		return append(c.attribution(), emulator.WithAccessChecks())
	}
	return c.attribution()
}

// attribution is the option of --attribute.
func (c *replayCmd) attribution() []emulator.Option {
	if c.Attribute {
		return []emulator.Option{emulator.WithAttribution()}
	}
	return nil
}

// readProgram reads the program and the inputs. What is not named is taken from
// the record that the image is part of.
func (c *replayCmd) readProgram(ctx context.Context, std streams, job *replayJob, images *openedImages) (err error) {
	if images != nil && len(c.Inputs) == 0 && isCapture(c.Program) {
		c.Program, c.Inputs = "", []string{c.Program}
	}
	var record *kernelabi.KernelImageRecord
	if name, ok := strings.CutPrefix(c.Program, imagePrefix); ok || name == "" {
		if record, err = images.record(name); err != nil {
			return err
		}
	}
	if job.inputs, err = loadInputs(ctx, c.Inputs, c.Hex, &c.metadata, c.KeepGoing, std); err != nil {
		return err
	}
	if len(job.inputs.LinkTypes) > 1 && c.DLT == "" && isExpression(c.Program) {
		return badInput(fmt.Errorf("the captures have several link types (%s), and an expression is compiled for one: replay them apart, or choose with --dlt", job.inputs.links()))
	}
	if record != nil {
		job.prog = fromRecord(record)
	} else if job.prog, err = loadProgram(ctx, c.Program, cmp.Or(c.DLT, job.inputs.linkType()), std.in); err != nil {
		return err
	}
	if len(c.Inputs)+len(c.Hex) == 0 {
		if record == nil && images != nil {
			e, err := images.pick(images.flags.Pick, job.prog.Program)
			if err != nil {
				return err
			}
			record = e.Record
		}
		if record != nil {
			if err := job.inputs.addRecord(record, &c.metadata); err != nil {
				return err
			}
		}
	}
	if len(job.inputs.Inputs) == 0 {
		return badInput(errors.New("no packets: name a capture, or corpus:packets, or give --hex"))
	}
	job.kind, err = chooseKind("", job.prog, job.inputs)
	return err
}

// isCapture reports whether a file is one of packets, so that it cannot be meant
// as a program.
func isCapture(name string) bool {
	if name == corpusPrefix+"packets" {
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	_, err = io.ReadFull(f, head)
	return err == nil && capture.Is(head)
}

// nothingRan reports whether no runner got as far as a comparison.
func nothingRan(tallies []harness.Tally) bool {
	for _, t := range tallies {
		if t.Agree+t.Diverge+t.Undefined > 0 {
			return false
		}
	}
	return true
}

// openRunners makes the runners for the named profiles, "all" for every JIT, and
// for commands.
func (c *replayCmd) openRunners(ctx context.Context, options ...emulator.Option) (runners []harness.Runner, closeAll func(), err error) {
	closeAll = func() {
		for _, r := range runners {
			r.Close()
		}
	}
	names := c.JIT
	if slices.Equal(names, []string{"all"}) {
		names = allJITs()
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, nil, badInput(fmt.Errorf("--jit names %s twice", name))
		}
	}
	for _, name := range names {
		r, err := c.openRunner(ctx, name, options...)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		if p, ok := r.(*plugin.Runner); ok {
			distinct(p, runners)
		}
		runners = append(runners, r)
	}
	if len(runners) == 0 {
		return nil, nil, badInput(fmt.Errorf("--jit names no JIT"))
	}
	return runners, closeAll, nil
}

// openRunner makes the runner of one JIT.
func (c *replayCmd) openRunner(ctx context.Context, name string, options ...emulator.Option) (harness.Runner, error) {
	if usesPlugin(name) {
		r, err := c.pluginFlags.open(ctx, name, c.Profile, options...)
		if err != nil {
			return nil, err // not a runner that is nil
		}
		return r, nil
	}
	p, err := jitProfile(name)
	if err != nil {
		return nil, badInput(err)
	}
	r, err := harness.NewJIT(p, options...)
	if err != nil {
		return nil, badInput(err)
	}
	return r, nil
}

// acceptedBySome returns the last runner's refusal if every kernel's checker
// refuses prog.
func acceptedBySome(prog bpf.Program, kind bpf.Kind, runners []harness.Runner) error {
	var err error
	for _, r := range runners {
		if err = bpf.Check(prog, kind, r.Profile().Rules); err == nil {
			return nil
		}
	}
	return err
}

// replayReport shows a replay while it runs.
type replayReport interface {
	row(*harness.Row) error
	// summary ends the report after done packets, fewer than all if the replay
	// was interrupted.
	summary(tallies []harness.Tally, done int) error
}

// jsonReport prints an object per packet, one per divergence that is shown in
// full, and one per runner at the end.
type jsonReport struct {
	enc     *json.Encoder
	inputs  *inputSet
	prog    *source
	runners []harness.Runner
	limit   int
	rows    string // as --rows, but auto means all: programs count better than people
	locator harness.Locator
}

func (r *jsonReport) row(row *harness.Row) error {
	type cell struct {
		Want    harness.Outcome `json:"want"`
		Got     harness.Outcome `json:"got"`
		Verdict harness.Verdict `json:"verdict"`
	}
	var err error
	if r.rows == "auto" || r.rows == "all" || r.rows == "diverging" && slices.Contains(row.Verdicts, harness.Diverge) {
		cells := map[string]cell{}
		for i, name := range row.Runners {
			cells[name] = cell{row.Want[i], row.Got[i], row.Verdicts[i]}
		}
		err = r.enc.Encode(struct {
			Type    string          `json:"type"`
			Packet  int             `json:"packet"`
			File    string          `json:"file"`
			Len     uint32          `json:"len"`
			Runners map[string]cell `json:"runners"`
		}{"packet", row.Index + 1, r.inputs.Files[row.Index], inputLen(row.Input), cells})
	}
	for i, v := range row.Verdicts {
		if err == nil && v == harness.Diverge && r.limit > 0 {
			r.limit--
			err = r.divergence(row, i)
		}
	}
	return err
}

// divergence prints where runner i goes wrong.
func (r *jsonReport) divergence(row *harness.Row, i int) error {
	out := struct {
		Type   string `json:"type"`
		Packet int    `json:"packet"`
		Runner string `json:"runner"`
		PC     *int   `json:"pc,omitempty"`     // the BPF instruction
		Offset *int   `json:"offset,omitempty"` // in the image
		How    string `json:"how"`

		Signature string `json:"signature"`
		Repro     string `json:"repro,omitempty"` // a file (.txtar) that kjit replay runs again
	}{Type: "divergence", Packet: row.Index + 1, Runner: row.Runners[i]}
	d, err := divergenceOf(&r.locator, r.runners[i], r.prog, row, i)
	out.Signature = d.Signature.String()
	if err != nil {
		out.How = "no listing: " + err.Error()
	}
	if p := d.Place; p != nil {
		out.How = p.How
		if p.PC >= 0 {
			out.PC = &p.PC
		}
		if p.Offset >= 0 {
			out.Offset = &p.Offset
		}
	}
	if text, err := reproOf(d, r.runners[i], r.prog).Format(); err == nil {
		out.Repro = string(text)
	}
	return r.enc.Encode(out)
}

func (r *jsonReport) summary(tallies []harness.Tally, done int) error {
	r.locator.Close()
	if total := len(r.inputs.Inputs); done < total {
		err := r.enc.Encode(struct {
			Type  string `json:"type"`
			Done  int    `json:"done"`
			Total int    `json:"total"`
		}{"interrupted", done, total})
		if err != nil {
			return err
		}
	}
	for _, t := range tallies {
		err := r.enc.Encode(struct {
			Type string `json:"type"`
			harness.Tally
		}{"summary", t})
		if err != nil {
			return err
		}
	}
	return nil
}

func inputLen(in kernelabi.Input) uint32 {
	switch in := in.(type) {
	case *kernelabi.Skb:
		return uint32(len(in.Packet))
	case *kernelabi.Syscall:
		return in.Len()
	}
	return 0
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}
