package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/kjit-project/kjit/harness/paper"
)

type benchPaperCmd struct {
	SVG  string   `name:"svg" placeholder:"DIR" help:"Also write a picture of each table into this folder."`
	Only []string `name:"only" placeholder:"NAME" help:"Only these tables (dumazet-2011, schichan-2013, hromatka-2018, zhu-2020, cook-2020)."`
}

func (c *benchPaperCmd) Run(g *cli, std streams) error {
	tables, err := paper.Tables(c.Only...)
	if err != nil {
		return badInput(err)
	}
	if c.SVG != "" {
		if err := writePictures(c.SVG, tables); err != nil {
			return badInput(err)
		}
	}
	for i, t := range tables {
		if g.JSON {
			if err := json.NewEncoder(std.out).Encode(t); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(std.out)
		}
		printPaper(std.out, t)
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
		if err := os.WriteFile(filepath.Join(dir, t.Name+".svg"), svg.Bytes(), 0o666); err != nil {
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
		for i, text := range []string{c.Origin(), c.Name, c.Unit} {
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
