package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/listing"
	"github.com/kjit-project/kjit/kernelabi"
)

type jitCmd struct {
	Program string            `arg:"" optional:"" help:"Program file in any form, -, corpus:NAME, or a filter expression."`
	JIT     string            `name:"jit" default:"linux-3.10-x86_64" placeholder:"NAME" help:"JIT that compiles it (default ${default})."`
	Form    string            `enum:"log,hex,list" default:"log" help:"log: as the kernel logs images; hex: bytes alone; list: BPF and native side by side (${default})."`
	Base    string            `placeholder:"ADDRESS" help:"Address of the image (hex)."`
	Symbol  map[string]string `placeholder:"NAME=ADDRESS" help:"Address of a kernel symbol (hex; repeatable)."`
	Layout  map[string]string `placeholder:"FIELD=OFFSET" help:"Offset of a struct field, such as len=0x60 (repeatable)."`
	List    bool              `help:"List the JITs and exit."`
	DLT     string            `name:"dlt" default:"EN10MB" placeholder:"TYPE" help:"Link type for filter expressions (default ${default})."`
}

func (c *jitCmd) Run(ctx context.Context, std streams, global *cli) error {
	if c.List {
		return listJITs(std, global)
	}
	if c.Program == "" {
		return badInput(errors.New("no program: name a file, - for standard input, corpus:NAME, or a filter expression"))
	}
	profile, err := c.profile()
	if err != nil {
		return badInput(err)
	}
	runner, err := harness.NewJIT(profile)
	if err != nil {
		return badInput(err)
	}
	defer runner.Close()
	prog, err := loadProgram(ctx, c.Program, c.DLT, std.in)
	if err != nil {
		return err
	}
	img, err := runner.Image(prog.Program, bpf.Socket)
	var refusal *kernelabi.Refusal
	switch {
	case errors.As(err, &refusal):
		// What the kernel would do: interpret, without a word. Here it is the
		// answer to the question that was asked.
		return &codedError{fmt.Errorf("%s: %s does not compile it: %w", prog.Name, profile.Name, err), exitDiverged}
	case err != nil:
		return badInput(fmt.Errorf("%s: %w", prog.Name, err))
	}
	for _, note := range img.Notes {
		fmt.Fprintf(std.err, "kjit: %s\n", note)
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(imageJSON(prog.Program, img))
	}
	switch c.Form {
	case "hex":
		_, err = fmt.Fprintf(std.out, "%x\n", img.Code)
	case "list":
		listing.SideBySide(std.out, prog.Program, img, nil, nil)
	default:
		err = listing.KernelLog(std.out, img)
	}
	return err
}

// listJITs prints the profiles that something emits code for.
func listJITs(std streams, global *cli) error {
	for _, p := range kernelabi.Profiles() {
		if p.Emitter == "" {
			continue
		}
		if global.JSON {
			err := json.NewEncoder(std.out).Encode(struct {
				Name    string         `json:"name"`
				Arch    kernelabi.Arch `json:"arch"`
				Summary string         `json:"summary"`
			}{p.Name, p.Arch, p.Summary})
			if err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(std.out, "%-20s  %s\n", p.Name, p.Summary)
	}
	return nil
}

// profile is the named profile with the addresses and offsets of the flags.
func (c *jitCmd) profile() (*kernelabi.Profile, error) {
	p, err := kernelabi.ProfileByName(c.JIT)
	if err != nil {
		return nil, fmt.Errorf("--jit: %w", err)
	}
	if c.Base != "" {
		base, err := parseAddress(c.Base)
		if err != nil {
			return nil, fmt.Errorf("--base: %w", err)
		}
		p = p.WithBase(base)
	}
	symbols := map[string]uint64{}
	for name, text := range c.Symbol {
		if symbols[name], err = parseAddress(text); err != nil {
			return nil, fmt.Errorf("--symbol %s: %w", name, err)
		}
	}
	layout := map[string]int{}
	for field, text := range c.Layout {
		off, err := strconv.ParseUint(text, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("--layout %s: %q is not an offset: want a number up to 65535, such as 0x60", field, text)
		}
		layout[field] = int(off)
	}
	return p.WithSymbols(symbols).WithLayout(layout), nil
}

// parseAddress reads hex with or without 0x, as kernels print addresses.
func parseAddress(text string) (uint64, error) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a hex address of up to 64 bits", text)
	}
	return addr, nil
}

// imageJSON is an image in the form of the golden records.
func imageJSON(prog bpf.Program, img *kernelabi.Image) any {
	return struct {
		Kernel  string            `json:"kernel"`
		Arch    kernelabi.Arch    `json:"arch"`
		Kind    bpf.Kind          `json:"kind"`
		Program bpf.Program       `json:"program"`
		Base    string            `json:"base"`
		Symbols map[string]string `json:"symbols"`
		Layout  kernelabi.Layout  `json:"layout"`
		Image   string            `json:"image"`
		Pass    int               `json:"pass"`
		PCMap   []int             `json:"pc_map"`
	}{
		img.Profile.Name, img.Profile.Arch, bpf.Socket, prog, hexAddr(img.Base),
		hexAll(img.Profile.Symbols), img.Profile.Layout, hex.EncodeToString(img.Code), img.Pass, img.PCMap,
	}
}

func hexAddr(a uint64) string { return "0x" + strconv.FormatUint(a, 16) }

func hexAll(addrs map[string]uint64) map[string]string {
	out := make(map[string]string, len(addrs))
	for name, a := range addrs {
		out[name] = hexAddr(a)
	}
	return out
}
