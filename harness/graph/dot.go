package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// edgeColours are those of both drawings, by EdgeKind.
var edgeColours = [...]string{"#57606a", "#1a7f37", "#cf222e", "#0550ae"}

// WriteDOT writes the graph in the language of Graphviz.
func (g *Graph) WriteDOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph %s {\n  label=%s; labelloc=t; node [shape=box, fontname=monospace]; edge [fontname=monospace];\n", quote(g.Title), quote(g.Title))
	for i := range g.Blocks {
		block := &g.Blocks[i]
		lines := block.Lines
		if g.Runs > 0 {
			lines = append([]string{times(block.Count)}, lines...)
		}
		if len(block.Native) > 0 {
			lines = append(append(lines[:len(lines):len(lines)], ""), block.Native...)
		}
		style := ""
		if !block.Reachable {
			style = ", style=dashed"
		} else if g.Runs > 0 {
			// Hue and value stay, so that text remains readable.
			style = fmt.Sprintf(", style=filled, fillcolor=\"0.08 %.3f 1.0\"", 0.6*g.Heat(block))
		}
		fmt.Fprintf(b, "  b%d [label=%s%s];\n", i, left(lines), style)
	}
	if len(g.Entry) > 0 && len(g.Blocks) > 0 {
		fmt.Fprintf(b, "  entry [label=%s];\n  entry -> b0 [color=\"%s\"];\n", left(append([]string{entryLine, ""}, g.Entry...)), edgeColours[Next])
	}
	if len(g.Rest) > 0 {
		fmt.Fprintf(b, "  rest [label=%s];\n", left(append([]string{restLine, ""}, g.Rest...)))
	}
	for _, e := range g.Edges {
		label := ""
		if e.Kind != Next {
			label = e.Kind.String()
		}
		if g.Runs > 0 {
			label = strings.TrimSpace(fmt.Sprintf("%s %d", label, e.Count))
		}
		fmt.Fprintf(b, "  b%d -> b%d [label=%s, color=\"%s\"];\n", e.From, e.To, quote(label), edgeColours[e.Kind])
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// What stands for the code that belongs to no instruction.
const (
	entryLine = "(entry)"
	restLine  = "(behind the program)"
)

func times(n uint64) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// quote writes a string of the language.
func quote(s string) string { return `"` + escape.Replace(s) + `"` }

// left writes lines that are aligned to the left.
func left(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(escape.Replace(l) + `\l`)
	}
	return `"` + b.String() + `"`
}
