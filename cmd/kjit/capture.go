package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel"
	"github.com/kjit-project/kjit/harness/verify"
)

type captureCmd struct {
	Program string   `arg:"" optional:"" help:"Program file in any text form, -, corpus:NAME, or a filter expression that tcpdump compiles."`
	Inputs  []string `arg:"" optional:"" help:"Packets or system calls to record with the image, as for replay (default: packets of the corpus, or calls with the numbers that the program compares with)."`

	Hex      []string `placeholder:"HEX" sep:"none" help:"A packet in hex (repeatable)."`
	PID      int      `name:"pid" placeholder:"N" help:"In place of a program: the seccomp filters of a process, or of a thread by its own number."`
	Sockets  bool     `help:"In place of a program: the filters of this host's sockets."`
	Programs bool     `help:"With --pid or --sockets: print the programs, do not compile them."`
	Kind     string   `placeholder:"KIND" help:"What the program is attached to: socket or seccomp (default: as the inputs say, else socket)."`
	Via      string   `enum:"attach,bpf" default:"attach" help:"Way to the kernel's JIT: attach (SO_ATTACH_FILTER, seccomp) or bpf (converted to eBPF, bpf(2)) (${default})."`
	Name     string   `placeholder:"NAME" help:"Name of the record (default: the program's)."`
	Output   string   `short:"o" placeholder:"FILE" help:"File for the records (default: standard output)."`
	DLT      string   `name:"dlt" default:"EN10MB" placeholder:"TYPE" help:"Link type for filter expressions (default ${default})."`
	metadata `group:"Packet metadata:"`
}

// Help is the long help text.
func (c *captureCmd) Help() string {
	return "Compiles a program in the running Linux kernel and writes the machine code with all that another host needs to run it, as a record for kjit verify and kjit replay --image. Filters are attached to sockets and threads of kjit's own only."
}

func (c *captureCmd) Run(ctx context.Context, std streams, global *cli) error {
	out, err := openOutput(c.Output, std.out)
	if err != nil {
		return err
	}
	requests, err := c.requests(ctx, std)
	if err != nil {
		return err
	}
	if c.Programs {
		var text bytes.Buffer
		if err := printFilters(&text, requests, global.JSON); err != nil {
			return err
		}
		if err := out.write(text.Bytes()); err != nil {
			return environment(err)
		}
		return nil
	}
	if len(requests) == 0 {
		return nil
	}
	capturer, err := livekernel.NewCapturer(livekernel.Path(c.Via))
	if err != nil {
		return environment(err)
	}
	defer capturer.Close()
	checker, err := verify.NewChecker()
	if err != nil {
		return err
	}
	defer checker.Close()

	var records bytes.Buffer
	var failed []error
	for _, req := range requests {
		rec, err := capturer.Capture(ctx, &req.Request)
		var convert *livekernel.ConvertError
		if errors.As(err, &convert) {
			err = badInput(fmt.Errorf("%s: %w: --via attach takes it as it is", req.Name, err))
		}
		if err != nil {
			return err
		}
		line, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		records.Write(append(line, '\n'))
		what := fmt.Sprintf("refused with errno %d", rec.Errno)
		if rec.Image != nil {
			what = fmt.Sprintf("%d bytes at %#x", len(*rec.Image), uint64(*rec.Base))
		}
		err = checker.File(req.Name, bytes.NewReader(line), func(res verify.Result) error {
			switch {
			case res.Err != nil:
				failed = append(failed, fmt.Errorf("%s: %w", req.Name, res.Err))
				what += ", and it does not hold"
			case res.Skip != "":
				what += ", not checked: " + res.Skip
			default:
				what += fmt.Sprintf(", checked on %s", plural(len(rec.Inputs), "input"))
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(std.err, "kjit: %s: %s: %s, %s\n", rec.Kernel, req.Name, plural(len(req.Program), "instruction"), what)
	}
	if err := out.write(records.Bytes()); err != nil {
		return environment(err)
	}
	if len(failed) > 0 {
		return told(errors.Join(failed...), exitDiverged)
	}
	return nil
}

// captureRequest is a program to compile, and who has it attached.
type captureRequest struct {
	livekernel.Request
	holder string
}

// requests finds the programs.
func (c *captureCmd) requests(ctx context.Context, std streams) ([]captureRequest, error) {
	var filters []livekernel.Filter
	var err error
	switch {
	case c.PID != 0 && c.Sockets, (c.PID != 0 || c.Sockets) && c.Program != "":
		return nil, badInput(errors.New("a program, --pid and --sockets: only one of them"))
	case c.PID != 0:
		filters, err = livekernel.ProcessFilters(c.PID)
	case c.Sockets:
		filters, err = livekernel.SocketFilters()
	case c.Program == "":
		return nil, badInput(errors.New("no program: name a file, - for standard input, corpus:NAME, or a filter expression; or --pid or --sockets"))
	case c.Programs:
		return nil, badInput(errors.New("--programs goes with --pid or --sockets: a program that you have, kjit disasm prints"))
	default:
		return c.request(ctx, std)
	}
	if err != nil && len(filters) == 0 {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(std.err, "kjit: %v\n", err)
	}
	if len(filters) == 0 {
		fmt.Fprintln(std.err, "kjit: there is no filter")
	}
	var requests []captureRequest
	for _, f := range filters {
		inputs, err := harness.DefaultInputs(f.Program, f.Kind)
		if err != nil {
			return nil, err
		}
		requests = append(requests, captureRequest{livekernel.Request{Name: f.Name, Kind: f.Kind, Program: f.Program, Inputs: inputs}, f.Holder})
	}
	return requests, nil
}

// request is that of the program on the command line.
func (c *captureCmd) request(ctx context.Context, std streams) ([]captureRequest, error) {
	inputs, err := loadInputs(ctx, c.Inputs, c.Hex, &c.metadata, false, std)
	if err != nil {
		return nil, err
	}
	prog, err := loadProgram(ctx, c.Program, c.DLT, std.in)
	if err != nil {
		return nil, err
	}
	kind, err := chooseKind(c.Kind, prog, inputs)
	if err != nil {
		return nil, err
	}
	if len(inputs.Inputs) == 0 {
		if inputs.Inputs, err = harness.DefaultInputs(prog.Program, kind); err != nil {
			return nil, err
		}
	}
	name := c.Name
	if name == "" {
		name = strings.TrimPrefix(c.Program, corpusPrefix)
		if _, err := os.Stat(c.Program); err == nil {
			name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		}
	}
	return []captureRequest{{livekernel.Request{Name: name, Kind: kind, Program: prog.Program, Inputs: inputs.Inputs}, ""}}, nil
}

// printFilters prints programs as listings, or one object a line.
func printFilters(w io.Writer, requests []captureRequest, asJSON bool) error {
	enc := json.NewEncoder(w)
	for i, req := range requests {
		if asJSON {
			err := enc.Encode(struct {
				Name    string      `json:"name"`
				Holder  string      `json:"holder"`
				Kind    bpf.Kind    `json:"kind"`
				Program bpf.Program `json:"program"`
			}{req.Name, req.holder, req.Kind, req.Program})
			if err != nil {
				return err
			}
			continue
		}
		text, err := bpftext.Format(bpftext.D, req.Program)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintf(w, "# %s: %s: %s\n%s", req.Name, req.holder, plural(len(req.Program), "instruction"), text); err != nil {
			return err
		}
	}
	return nil
}
