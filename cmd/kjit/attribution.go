package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
)

// attributor is a runner that knows where the instructions went.
type attributor interface {
	harness.Runner
	Attribution() (emulator.Attribution, error)
}

// attributionJSON is what one runner executed, instruction by instruction of the
// program.
type attributionJSON struct {
	Type     string           `json:"type"` // "attribution"
	Runner   string           `json:"runner"`
	Insns    []attributedInsn `json:"insns,omitempty"` // none without a map of the image
	Prologue attributedCount  `json:"prologue"`        // without a map: the whole image
	Epilogue attributedCount  `json:"epilogue"`
}

type attributedInsn struct {
	PC   int    `json:"pc"`
	Text string `json:"text"`
	attributedCount
}

// attributedCount is an emulator.Count with the names that JSON has.
type attributedCount struct {
	Runs   uint64 `json:"runs"`
	Insns  uint64 `json:"executed"`
	Called uint64 `json:"in_routines"`
}

// writeAttributions tells for every runner that knows it what each instruction of
// the program took.
func writeAttributions(w io.Writer, asJSON bool, prog bpf.Program, runners []harness.Runner, tallies []harness.Tally) error {
	for i, r := range runners {
		a, ok := r.(attributor)
		if !ok || i < len(tallies) && tallies[i].Agree+tallies[i].Diverge+tallies[i].Undefined == 0 {
			continue // it has no machine of ours, or nothing ran in it
		}
		counts, err := a.Attribution()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name(), err)
		}
		out := attributionJSON{
			Type: "attribution", Runner: r.Name(),
			Prologue: attributedCount(counts.Prologue), Epilogue: attributedCount(counts.Epilogue),
		}
		for pc, c := range counts.Insns {
			text := strings.TrimRight(strings.ReplaceAll(bpftext.FormatInstruction(pc, prog[pc]), "\t", " "), " ")
			out.Insns = append(out.Insns, attributedInsn{pc, text, attributedCount(c)})
		}
		if asJSON {
			err = json.NewEncoder(w).Encode(out)
		} else {
			err = out.print(w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *attributionJSON) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: native instructions executed\n\n", a.Runner)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "runs\texecuted\tin routines\teach\t  instruction")
	row := func(c attributedCount, text string) {
		each := "-"
		if c.Runs > 0 {
			each = fmt.Sprintf("%.1f", float64(c.Insns+c.Called)/float64(c.Runs))
		}
		fmt.Fprintf(tab, "%d\t%d\t%d\t%s\t  %s\n", c.Runs, c.Insns, c.Called, each, text)
	}
	if a.Insns == nil {
		row(a.Prologue, "the whole image: there is no map of it")
		return tab.Flush()
	}
	row(a.Prologue, "prologue")
	for _, ins := range a.Insns {
		row(ins.attributedCount, ins.Text)
	}
	row(a.Epilogue, "epilogue")
	return tab.Flush()
}
