package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/kjit-project/kjit/harness/paper"
)

var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed finding.html.tmpl
	findingText string
	//go:embed campaign.html.tmpl
	campaignText string
	//go:embed page.css
	styleText string
)

var pageTemplate = sync.OnceValue(func() *template.Template {
	t := template.New("page").Funcs(template.FuncMap{
		"style":     func() template.CSS { return template.CSS(styleText) }, // part of the program
		"thousands": thousands[int],
		"count":     count[int],
	})
	for _, text := range []string{pageText, findingText, campaignText} {
		template.Must(t.Parse(text))
	}
	return t
})

// page is a report as the templates show it.
type page struct {
	Title     string
	Verdict   string
	Bad       bool
	Versions  []string
	Sources   []Source
	Problems  []string
	List      []*Listed
	All       int // divergences
	ListMore  int // that are not in the list
	Findings  []*Finding
	Left      int // findings that are not told
	Campaigns []*Campaign
	Replays   []*Replay
	Checks    []*Checks
	Mutants   []*Mutants
	Tables    []Published
}

// Published is a published table beside ours.
type Published struct {
	*paper.Table
	Picture template.HTML
	Cells   [][]string
}

// WriteHTML writes the report. The same report is the same file.
func (r *Report) WriteHTML(w io.Writer) error {
	p := &page{
		Title: line(r.options.Title), Bad: r.Bad(), Verdict: r.verdict(), Sources: r.sources, Problems: r.problems,
		Campaigns: r.campaigns, Replays: r.replays, Checks: r.checks, Mutants: r.mutants,
	}
	for _, v := range r.options.Versions {
		p.Versions = append(p.Versions, line(v))
	}
	programs := map[string]string{}
	for _, c := range r.campaigns {
		for _, l := range c.Reports {
			programs[l.key] = l.Programs
		}
	}
	for i, f := range r.findings {
		told := i < r.options.Limit
		if told {
			p.Findings = append(p.Findings, f)
		}
		if i < maxFindings {
			p.List = append(p.List, &Listed{f, programs[f.key], told})
		}
	}
	p.Left = len(r.findings) - len(p.Findings)
	untold := r.untold()
	p.List = append(p.List, untold[:min(len(untold), maxFindings-len(p.List))]...)
	p.All = r.Wrong().Divergences
	p.ListMore = p.All - len(p.List)
	for _, t := range r.tables {
		published, err := newPublished(t)
		if err != nil {
			return err
		}
		p.Tables = append(p.Tables, published)
	}
	var page bytes.Buffer
	if err := pageTemplate().ExecuteTemplate(&page, "page", p); err != nil {
		return err
	}
	_, err := w.Write(page.Bytes())
	return err
}

func newPublished(t *paper.Table) (Published, error) {
	out := Published{Table: t}
	if len(t.Plot.Columns) > 0 {
		var svg bytes.Buffer
		if err := t.WriteSVG(&svg); err != nil {
			return out, err
		}
		out.Picture = template.HTML(svg.String()) // package chart has escaped what is in it
	}
	for _, row := range t.Rows {
		cells := []string{row.Label}
		for i, v := range row.Cells {
			cells = append(cells, v.Format(t.Columns[i].Decimals))
		}
		out.Cells = append(out.Cells, cells)
	}
	return out, nil
}

// verdict is the report in a sentence or two.
func (r *Report) verdict() string {
	w := r.Wrong()
	others := strings.Join(w.others(), ", ")
	switch {
	case w.Divergences > 0 && others != "":
		return fmt.Sprintf("%s: machine code does not do what its program says. Besides: %s.", count(w.Divergences, "divergence"), others)
	case w.Divergences > 0:
		return fmt.Sprintf("%s: machine code does not do what its program says.", count(w.Divergences, "divergence"))
	case others != "":
		return fmt.Sprintf("Not all is as it should be: %s.", others)
	}
	return "Everything that was compared agrees."
}
