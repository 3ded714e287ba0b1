// Package ciformat writes what a command found in the formats that systems for
// continuous integration read: JUnit XML and SARIF 2.1.0.
package ciformat

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Run is what a command did.
type Run struct {
	Command    string // "fuzz"
	Name       string // what it ran on: the folder of a campaign, a program
	Version    string // of kjit
	Seconds    float64
	Properties []Property
	Results    []Result // see Add

	failures int // that were added, shown or not
	moreAt   int // the result that counts those beyond MaxFailures
}

// Property is a number or a text about a run.
type Property struct{ Name, Value string }

// Result is one test.
type Result struct {
	Rule    string // of a failure, what all failures of its sort have in common: a signature
	About   About  // that rule
	Name    string
	Class   string // of tests, behind "kjit.COMMAND"; "" for none
	Outcome Outcome
	Kind    string // of a failure: "value", "fault"
	Message string // in a line or a few
	Detail  string // all there is to say
	File    string // a failure is about, "" if about none
	Line    int    // from 1; 0 if about none
	Seconds float64
}

// About tells people of the rule of a failure. What is empty is made up from the
// rest.
type About struct {
	Brief string // what is wrong, in a line that says more than the rule's name
	Full  string // what that means, in a sentence or a few
	Again string // how to see it again: a command
}

// Outcome says how a test ended.
type Outcome uint8

const (
	Passed Outcome = iota
	Failed
	Skipped
)

// MaxFailures is how many failures a file has; what comes behind them is counted
// in one that says so. GitHub shows as many of a SARIF file.
const MaxFailures = 5000

// Bounds of texts in bytes.
const (
	maxMessage = 4 << 10
	maxDetail  = 64 << 10
	maxAbout   = 1000 // GitHub takes 1024 characters
	maxName    = 100  // of a run or a result as part of a path
)

// Add adds a result. Of failures beyond MaxFailures one result says how many they
// are.
func (r *Run) Add(res Result) {
	if res.Outcome == Failed {
		r.failures++
	}
	more := r.failures - MaxFailures
	switch {
	case res.Outcome != Failed || more <= 0:
		r.Results = append(r.Results, res)
		return
	case more == 1:
		r.moreAt = len(r.Results)
		r.Results = append(r.Results, Result{Rule: "more", Name: "more failures", Outcome: Failed, Kind: "more", About: About{
			Brief: fmt.Sprintf("failures beyond the %d that a file shows", MaxFailures),
			Full:  "What the command prints, and the report that kjit report makes of it, have all of them.",
		}})
	}
	r.Results[r.moreAt].Message = fmt.Sprint(more, " failures more than are shown")
}

// clean bounds a text and leaves out what XML 1.0 has no way to write.
func clean(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0xd7ff, r >= 0xe000 && r <= 0xfffd, r >= 0x10000:
			return r
		}
		return '\uFFFD'
	}, text)
}

// slug makes a text fit for a part of a path or of an identifier. Slashes,
// colons and blanks become hyphens; a text that lost more than that gets a number
// that tells it from others like it.
func slug(text string) string {
	lost := len(text) > maxName
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_.", r):
			return r
		case !strings.ContainsRune("/\\: ", r):
			lost = true
		}
		return '-'
	}, text)
	safe = strings.Trim(safe[:min(len(safe), maxName)], "-.")
	if !lost {
		return safe
	}
	h := fnv.New32a()
	h.Write([]byte(text))
	return strings.TrimLeft(fmt.Sprintf("%s-%08x", safe, h.Sum32()), "-")
}
