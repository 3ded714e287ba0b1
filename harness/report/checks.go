package report

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Checks are what kjit --json verify printed.
type Checks struct {
	Name                    string
	Passed, Failed, Skipped string
	Kinds                   []CheckKind
	Failures                []Failure
	More                    int // failures that are left out
	Skips                   []Skip

	failed int
	all    int
	ended  bool
}

// CheckKind counts the checks of a kind in a file.
type CheckKind struct {
	File, Kind              string
	Passed, Failed, Skipped int
}

// Failure is a fact that does not hold.
type Failure struct{ Place, Kind, Name, Reason string }

// Skip is why so many checks were not made.
type Skip struct {
	Reason string
	Count  int
}

func (r *reader) check(data []byte) error {
	var c struct {
		File                        string
		Line                        int
		Kind, Name, Outcome, Reason string
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	if r.checks == nil {
		r.checks = &Checks{Name: r.name}
	}
	all := r.checks
	all.all++
	kind := all.kind(line(c.File), line(c.Kind))
	switch c.Outcome {
	case "passed":
		kind.Passed++
	case "skipped":
		kind.Skipped++
		all.skip(line(c.Reason))
	case "failed":
		kind.Failed++
		all.failed++
		if len(all.Failures) >= maxRows {
			all.More++
			break
		}
		all.Failures = append(all.Failures, Failure{line(fmt.Sprintf("%s:%d", c.File, c.Line)), line(c.Kind), line(c.Name), cut(c.Reason, 4*maxLine)})
	default:
		return fmt.Errorf("a check that %.40q", c.Outcome)
	}
	return nil
}

// kind finds the count of a kind in a file. Those of more than can be shown are
// counted nowhere.
func (c *Checks) kind(file, name string) *CheckKind {
	at := slices.IndexFunc(c.Kinds, func(k CheckKind) bool { return k.File == file && k.Kind == name })
	switch {
	case at >= 0:
		return &c.Kinds[at]
	case len(c.Kinds) >= maxRows:
		return new(CheckKind)
	}
	c.Kinds = append(c.Kinds, CheckKind{File: file, Kind: name})
	return &c.Kinds[len(c.Kinds)-1]
}

func (c *Checks) skip(reason string) {
	for i := range c.Skips {
		if c.Skips[i].Reason == reason {
			c.Skips[i].Count++
			return
		}
	}
	if len(c.Skips) < maxRows {
		c.Skips = append(c.Skips, Skip{reason, 1})
	}
}

// checked is the summary of kjit verify.
func (r *reader) checked(data []byte) error {
	var s struct{ Passed, Failed, Skipped int }
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if r.checks == nil {
		r.checks = &Checks{Name: r.name}
	}
	c := r.checks
	c.Passed, c.Failed, c.Skipped, c.failed, c.ended = thousands(s.Passed), thousands(s.Failed), thousands(s.Skipped), s.Failed, true
	c.all = s.Passed + s.Failed + s.Skipped
	r.endChecks()
	return nil
}

func (r *reader) endChecks() {
	c := r.checks
	if c == nil {
		return
	}
	r.checks = nil
	r.Report.checks = append(r.Report.checks, c)
	s := Source{Name: c.Name, What: "recorded facts", Counts: count(c.all, "check"), Verdict: "all hold", Bad: c.failed > 0 || !c.ended}
	switch {
	case c.failed > 0:
		s.Verdict = count(c.failed, "wrong fact")
		r.wrong.Facts += c.failed
	case !c.ended:
		s.Verdict = "not ended"
		r.wrong.checks++
	}
	r.sources = append(r.sources, s)
}
