package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/alecthomas/kong"
)

// manCmd writes manual pages from the help texts: one for kjit, and one for each
// command.
type manCmd struct {
	Command []string `arg:"" optional:"" help:"Command whose page is printed, such as: seccomp diff (default: that of kjit)."`
	Dir     string   `placeholder:"DIR" help:"Write the pages of all commands into this folder instead."`
}

// Help is the long help text.
func (*manCmd) Help() string {
	return `Prints the manual page of kjit or of one of its commands, or writes those of all.

  kjit man | man -l -
  kjit man seccomp diff | man -l -
  kjit man --dir man1`
}

func (c *manCmd) Run(app *kong.Kong, std streams) error {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o777); err != nil {
			return badInput(err)
		}
		return writeManPages(c.Dir, app.Model.Node)
	}
	node := app.Model.Node
	for _, name := range c.Command {
		next := child(node, name)
		if next == nil {
			return badInput(fmt.Errorf("no command %q (kjit --help lists them)", strings.Join(c.Command, " ")))
		}
		node = next
	}
	page, err := manPage(node)
	if err == nil {
		_, err = std.out.Write(page)
	}
	return err
}

// child is a command's subcommand of a name, or nil.
func child(node *kong.Node, name string) *kong.Node {
	for _, n := range node.Children {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// writeManPages writes the page of a command and those of all below it.
func writeManPages(dir string, node *kong.Node) error {
	page, err := manPage(node)
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(dir, manName(node)+".1"), page); err != nil {
		return environment(err)
	}
	for _, n := range shown(node.Children) {
		err = errors.Join(err, writeManPages(dir, n))
	}
	return err
}

// manName is what man is asked for: kjit-seccomp-diff.
func manName(node *kong.Node) string { return strings.ReplaceAll(node.FullPath(), " ", "-") }

func shown(nodes []*kong.Node) (all []*kong.Node) {
	for _, n := range nodes {
		if !n.Hidden {
			all = append(all, n)
		}
	}
	return all
}

// manPage is the page of a command in the macros of man(7). It has no date: the
// same source gives the same page.
func manPage(node *kong.Node) ([]byte, error) {
	var out bytes.Buffer
	err := manTemplate().Execute(&out, map[string]any{
		"Name": manName(node), "Version": "kjit " + release(), "Node": node, "Flags": slices.Concat(node.AllFlags(true)...), "Children": shown(node.Children),
	})
	return bytes.ReplaceAll(out.Bytes(), []byte("\n\n"), []byte("\n")), err
}

// manTemplate is parsed when a page is asked for: no other command needs it.
var manTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("man").Funcs(template.FuncMap{
		"roff": roff, "text": roffText, "upper": strings.ToUpper, "man": manName,
		// The usage without kong's words for required flags and arguments.
		"usage": func(n *kong.Node) string { return strings.TrimSpace(strings.TrimPrefix(n.Summary(), n.Path())) },
	}).Parse(manText))
})

const manText = `.TH {{upper .Name | roff}} 1 "" "{{roff .Version}}" "User Commands"
.SH NAME
{{roff .Name}} \- {{with .Node.Parent}}{{roff $.Node.Help}}{{else}}run classic BPF programs and the code of JITs, and compare{{end}}
.SH SYNOPSIS
.B {{roff .Node.FullPath}}
{{usage .Node | roff}}
.SH DESCRIPTION
{{if .Node.Detail}}{{text .Node.Detail}}{{else}}{{text .Node.Help}}{{end}}
{{with .Node.Positional}}.SH ARGUMENTS
{{range .}}.TP
.I {{roff .Name}}
{{roff .Help}}
{{end}}{{end}}
{{with .Flags}}.SH OPTIONS
{{range .}}.TP
.B {{.String | roff}}
{{roff .Help}}
{{end}}{{end}}
{{with .Children}}.SH COMMANDS
{{range .}}.TP
.BR {{man . | roff}} (1)
{{roff .Help}}
{{end}}{{end}}.SH EXIT STATUS
0: all agree. 1: a divergence, or a failed check. 2: bad input or usage. 3: the environment is wrong. 130: interrupted.
{{with .Node.Parent}}.SH SEE ALSO
.BR {{man . | roff}} (1)
{{end}}`

// roff protects what the formatter would take for its own.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// roffText sets paragraphs, and as they are the lines that are indented.
func roffText(s string) string {
	var out strings.Builder
	example := false
	for _, line := range strings.Split(s, "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !example:
			out.WriteString(".PP\n.RS 2\n.nf\n")
		case !indented && example:
			out.WriteString(".fi\n.RE\n")
			if line != "" {
				out.WriteString(".PP\n")
			}
		case line == "":
			out.WriteString(".PP\n")
		}
		example = indented
		if line = strings.TrimPrefix(line, "  "); line != "" {
			out.WriteString(roff(line) + "\n")
		}
	}
	if example {
		out.WriteString(".fi\n.RE\n")
	}
	return strings.ReplaceAll(out.String(), ".PP\n.PP\n", ".PP\n")
}
