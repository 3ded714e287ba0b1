// Command kjit proves that the machine code a kernel's BPF JIT emits does what
// the classic BPF program says.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/harness/verify"
)

// cli is the command line: one field per command, each in a file of its own.
type cli struct {
	Replay   replayCmd   `cmd:"" help:"Run a program on packets, in the interpreter and in every JIT, and compare."`
	Jit      jitCmd      `cmd:"" help:"Compile a program and print the machine code."`
	Asm      asmCmd      `cmd:"" help:"Assemble bpf_asm source."`
	Disasm   disasmCmd   `cmd:"" help:"Print a program in any form as a tcpdump -d listing."`
	Convert  convertCmd  `cmd:"" help:"Rewrite a program in another text form."`
	Check    checkCmd    `cmd:"" help:"Check programs as a kernel does before it accepts them."`
	Verify   verifyCmd   `cmd:"" help:"Check recorded facts (golden images, mutants, text forms)."`
	Capture  captureCmd  `cmd:"" help:"Compile a program in the running Linux kernel and bring back its image."`
	Seccomp  seccompCmd  `cmd:"" help:"Everything about seccomp filters."`
	Debug    debugCmd    `cmd:"" help:"Step a program and its machine code together, forth and back, to where they part."`
	Doctor   doctorCmd   `cmd:"" help:"Check the installation and the emulator engine."`
	Graph    graphCmd    `cmd:"" help:"Draw the control flow of a program, with the counts of a replay and machine code."`
	Fuzz     fuzzCmd     `cmd:"" help:"Look for programs on which a JIT diverges, for as long as you like."`
	Corpus   corpusCmd   `cmd:"" help:"The programs that a campaign of kjit fuzz keeps."`
	Campaign campaignCmd `cmd:"" help:"A campaign of kjit fuzz that many machines share."`
	Mutants  mutantsCmd  `cmd:"" help:"Hunt JITs with a fault put in on purpose: what campaigns and directed tests find."`
	Bench    benchCmd    `cmd:"" help:"Count and measure: published tables beside ours."`
	Report   reportCmd   `cmd:"" help:"Write what was found as one HTML file."`

	Completion completionCmd `cmd:"" help:"Print the script that completes kjit's command lines in a shell."`
	Version    versionCmd    `cmd:"" help:"Print of what this kjit was made."`
	Man        manCmd        `cmd:"" help:"Print the manual pages."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" help:"Answer the script of kjit completion."`

	JSON        bool             `name:"json" help:"Print one JSON object per line instead of text; an error that ends the command too, as {\"type\": \"error\", ...}."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

// streams is where a command reads and writes.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

// run executes one command line and returns its exit code.
func run(args []string, std streams) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go dieAfter(ctx, std, wantsJSON(args), done)
	out := &checkedWriter{w: std.out}
	std.out = out
	std.in = &interruptible{ctx, std.in}
	// A panic is a defect of kjit. The user gets a sentence, not a Go trace,
	// unless they ask for it to report it.
	defer func() {
		if p := recover(); p != nil {
			if exit, ok := p.(kongExit); ok {
				code = int(exit)
				return
			}
			code = fail(environment(fmt.Errorf("internal error: %v\nthis is a defect in kjit; please report it with the command and its input (KJIT_TRACE=1 shows where)", p)), std, wantsJSON(args))
			if os.Getenv("KJIT_TRACE") != "" {
				std.err.Write(debug.Stack())
			}
		}
	}()

	var c cli
	parser := newParser(ctx, &c, std)
	// No command at all: somebody wants to know what there is.
	if len(args) == 0 {
		args = []string{"--help"}
	}
	// kjit help seccomp who
	if args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	parsed, err := parser.Parse(args)
	if err == nil {
		err = parsed.Run(&c)
	} else {
		err = usageError(err)
		c.JSON = c.JSON || wantsJSON(args)
	}
	if out.err != nil {
		err = environment(fmt.Errorf("cannot write the output: %w", out.err))
	}
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && !patient.Load() {
		err = errInterrupted
	}
	return fail(err, std, c.JSON)
}

// newParser makes the parser of command lines, which fills c.
func newParser(ctx context.Context, c *cli, std streams) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("kjit"),
		kong.Description("Prove that the machine code of kernel BPF JITs does what classic BPF programs say.\n\nExit codes: 0 all agree, 1 a divergence or failed check, 2 bad input or usage, 3 the environment is wrong."),
		kong.Vars{
			"version": version(),
			"forms":   names(bpftext.Forms()),
			"rules":   names(bpf.AllRules()),
			"kinds":   strings.Join(verify.Kinds(), ", "),
		},
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { panic(kongExit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
	if err != nil {
		panic(err)
	}
	addExamples(parser.Model.Node)
	return parser
}

// kongExit carries the exit code of --help and --version out of the parser.
type kongExit int

// names lists things for a help text.
func names[T fmt.Stringer](things []T) string {
	var out []string
	for _, t := range things {
		out = append(out, t.String())
	}
	return strings.Join(out, ", ")
}
