package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/graph"
	"github.com/kjit-project/kjit/kernelabi"
)

type graphCmd struct {
	Program string   `arg:"" help:"Program file in any form, -, corpus:NAME, or a filter expression."`
	Inputs  []string `arg:"" optional:"" help:"Packets or system calls whose ways through the program are counted: captures, lines of hex, JSON Lines, or corpus:packets."`

	Hex    []string `placeholder:"HEX" sep:"none" help:"A packet in hex (repeatable)."`
	JIT    string   `name:"jit" placeholder:"NAME" help:"Put the machine code of this JIT beside the blocks, or of exec:COMMAND for one of your own."`
	Kind   string   `placeholder:"KIND" help:"What the program is attached to: socket or seccomp (default: as the inputs; else socket)."`
	DLT    string   `name:"dlt" default:"EN10MB" placeholder:"TYPE" help:"Link type for filter expressions (default ${default})."`
	DOT    bool     `name:"dot" help:"Write the language of Graphviz instead of SVG."`
	Output string   `short:"o" placeholder:"FILE" help:"Write to this file (default: standard output)."`

	Profile string `placeholder:"NAME" help:"Kernel that a JIT exec:COMMAND emits for (default: what it says, or linux-3.10-x86_64)."`

	pluginFlags
	metadata `group:"Packet metadata:"`
}

func (c *graphCmd) Help() string {
	return `Draws the control flow of a program: blocks in the order of the program, jumps in
lanes to their left, with packets the counts of blocks and edges and the heat of
each block.

  kjit graph 'tcp port 80' trace.pcap -o port80.svg
  kjit graph corpus:posting2011 --jit linux-3.10-x86_64 -o posting.svg
  kjit graph filter.txt --jit exec:./myjit -o mine.svg
  kjit graph filter.txt --dot | dot -Tpdf -o filter.pdf`
}

func (c *graphCmd) Run(ctx context.Context, std streams) error {
	out, err := openOutput(c.Output, std.out)
	if err != nil {
		return err
	}
	prog, err := loadProgram(ctx, c.Program, c.DLT, std.in)
	if err != nil {
		return err
	}
	inputs, err := loadInputs(ctx, c.Inputs, c.Hex, &c.metadata, false, std)
	if err != nil {
		return err
	}
	kind, err := chooseKind(c.Kind, prog, inputs)
	if err != nil {
		return err
	}
	g, err := c.draw(ctx, prog, kind, inputs.Inputs)
	if err != nil {
		return err
	}
	var picture bytes.Buffer
	write := g.WriteSVG
	if c.DOT {
		write = g.WriteDOT
	}
	if err := write(&picture); err != nil {
		return err
	}
	return out.write(picture.Bytes())
}

// draw makes the graph with all that is asked for.
func (c *graphCmd) draw(ctx context.Context, prog *source, kind bpf.Kind, inputs []kernelabi.Input) (*graph.Graph, error) {
	profile := kernelabi.Current()
	var jit harness.Imager
	switch {
	case c.JIT != "":
		var err error
		own := jitCmd{JIT: c.JIT, Profile: c.Profile, pluginFlags: c.pluginFlags}
		if jit, err = own.open(ctx); err != nil {
			return nil, err
		}
		defer jit.Close()
		profile = jit.Profile()
	case c.Profile != "":
		return nil, badInput(fmt.Errorf("--profile is for a JIT %sCOMMAND, and --jit names none", execPrefix))
	}
	m, err := bpf.Compile(prog.Program, kind, profile.Rules)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", prog.Name, err))
	}
	g := graph.New(prog.Name, prog.Program)
	if len(inputs) > 0 {
		g.Count(m, inputs, profile.Semantics)
	}
	if jit == nil {
		return g, nil
	}
	img, err := jit.Image(prog.Program, kind)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %s: %w", prog.Name, jit.Name(), err))
	}
	if err := g.AddNative(jit.Name(), img); err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", prog.Name, err))
	}
	return g, nil
}
