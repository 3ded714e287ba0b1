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
	"text/tabwriter"

	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/harness/paper"
)

type benchPaperCmd struct {
	SVG  string   `name:"svg" placeholder:"DIR" help:"Also write a picture of each table into this folder."`
	Only []string `name:"only" placeholder:"NAME" help:"Only these tables (dumazet-2011, schichan-2013, hromatka-2018, zhu-2020, cook-2020)."`

	Host bool `help:"Also measure on this machine what hromatka-2018 and cook-2020 have: seccomp filters on a running Linux, put on processes that are thrown away. All other numbers are the same on every machine; these are not."`
	samplesFlag
}

func (c *benchPaperCmd) Run(ctx context.Context, g *cli, std streams) error {
	if err := c.checkSamples(); err != nil {
		return err
	}
	if c.Samples != 0 && !c.Host {
		return badInput(errors.New("--samples is about --host: nothing else is measured"))
	}
	tables, err := paper.Tables(c.Only...)
	if err != nil {
		return badInput(err)
	}
	if c.Host {
		if err := measureTables(ctx, tables, c.Samples); err != nil {
			return err
		}
	}
	if c.SVG != "" {
		if err := writePictures(c.SVG, tables); err != nil {
			return badInput(err)
		}
	}
	return printTables(std.out, g.JSON, tables)
}

// measureTables adds what the host gives. One that cannot is no failure: the
// table says why.
func measureTables(ctx context.Context, tables []*paper.Table, samples int) error {
	for _, t := range tables {
		_, err := t.Measure(ctx, samples)
		var not *probe.UnavailableError
		if errors.As(err, &not) {
			t.Notes = append(t.Notes, "nothing is measured: "+not.Error())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// printTables prints tables as text or as one object a line.
func printTables(w io.Writer, asJSON bool, tables []*paper.Table) error {
	for i, t := range tables {
		if asJSON {
			if err := json.NewEncoder(w).Encode(t); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		printPaper(w, t)
	}
	return nil
}

// writePictures writes DIR/NAME.svg for every table.
func writePictures(dir string, tables []*paper.Table) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, t := range tables {
		var svg bytes.Buffer
		if err := t.WriteSVG(&svg); err != nil {
			return err
		}
		if err := writeWhole(filepath.Join(dir, t.Name+".svg"), svg.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// printPaper prints a table with what belongs to it.
func printPaper(w io.Writer, t *paper.Table) {
	fmt.Fprintf(w, "%s: %s\n  %s\n\n", t.Name, t.Title, t.Source)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// Labels are as long as the longest, so that they stand to the left.
	wide := 0
	for _, row := range t.Rows {
		wide = max(wide, len(row.Label))
	}
	line := func(cells ...string) {
		cells[0] = fmt.Sprintf("%-*s", wide, cells[0])
		fmt.Fprintln(tab, strings.Join(cells, "\t")+"\t")
	}
	head := [3][]string{{""}, {""}, {""}}
	for _, c := range t.Columns {
		for i, text := range []string{string(c.Origin), c.Name, c.Unit} {
			head[i] = append(head[i], text)
		}
	}
	for _, cells := range head {
		line(cells...)
	}
	for _, row := range t.Rows {
		cells := []string{row.Label}
		for i, v := range row.Cells {
			cells = append(cells, v.Format(t.Columns[i].Decimals))
		}
		line(cells...)
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, c := range t.Checks {
		mark := "holds "
		if !c.OK {
			mark = "missed"
		}
		fmt.Fprintf(w, "  %s  %s: %s\n", mark, c.Text, c.Why)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "  note: %s\n", note)
	}
}
