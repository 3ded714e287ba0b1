package main

import (
	"errors"
	"fmt"

	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/verify"
)

// verifyRun collects what kjit verify found: a result for each failure, and one
// for all that passed, or was skipped for a reason, of a kind in a file.
type verifyRun struct {
	ciformat.Run
	counts []verifyCount
}

type verifyCount struct {
	file, kind, skip string
	n                int
}

func (r *verifyRun) add(res verify.Result) {
	if res.Err != nil {
		r.Add(ciformat.Result{
			Rule: "verify." + res.Kind, Name: res.Kind + " " + res.Name, Class: res.File, Outcome: ciformat.Failed, Kind: res.Kind,
			Message: res.Kind + " " + res.Name + ": " + res.Err.Error(), File: realFile(res.File), Line: res.Line,
			About: ciformat.About{
				Brief: "a recorded fact of the kind " + res.Kind + " does not hold",
				Full:  "kjit runs what the record has, and what comes of it is not what was recorded.",
				Again: commandLine("verify", "--kind", res.Kind, "FILE"),
			},
		})
		return
	}
	for i := range r.counts {
		if c := &r.counts[i]; c.file == res.File && c.kind == res.Kind && c.skip == res.Skip {
			c.n++
			return
		}
	}
	r.counts = append(r.counts, verifyCount{res.File, res.Kind, res.Skip, 1})
}

// bad adds the lines of a file that are no records.
func (r *verifyRun) bad(file string, err error) {
	for _, err := range flat(err) {
		res := ciformat.Result{Rule: "verify.no-record", Name: "no record", Class: file, Outcome: ciformat.Failed, Kind: "no-record", Message: err.Error(),
			About: ciformat.About{
				Brief: "a line is no record of a fact, or a file cannot be read",
				Full:  "kjit verify reads JSON Lines: each line is a record of one of the kinds that it knows. The message says what this one lacks.",
				Again: "kjit verify FILE",
			}}
		if file != "-" {
			res.File = file
		}
		var line *verify.Bad
		if errors.As(err, &line) {
			res.Line, res.Message = line.Line, line.Reason
		}
		r.Add(res)
	}
}

// end adds what is counted.
func (r *verifyRun) end() *ciformat.Run {
	for _, c := range r.counts {
		res := ciformat.Result{Name: c.kind, Class: c.file, Message: plural(c.n, "check")}
		if c.skip != "" {
			res.Outcome, res.Message = ciformat.Skipped, fmt.Sprintf("%s: %s", plural(c.n, "check"), c.skip)
		}
		r.Add(res)
	}
	return &r.Run
}
