package main

import (
	"cmp"
	"fmt"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/ciformat"
	"github.com/kjit-project/kjit/harness/judge"
)

// ciSignatures is how many divergences of a runner are looked at closely for the
// files of continuous integration.
const ciSignatures = 20

// ciReport collects a replay's divergences, one of each signature, and passes all
// on to the report that people or programs get.
type ciReport struct {
	replayReport
	flags   *ciFlags
	job     *replayJob
	run     ciformat.Run
	locator harness.Locator
	seen    map[judge.Signature]bool
	looked  []int // by runner

	undefined bool // other values after shifts by X >= 32 fail
}

func newCIReport(r replayReport, flags *ciFlags, job *replayJob) *ciReport {
	return &ciReport{
		replayReport: r, flags: flags, job: job, run: ciformat.Run{Command: "replay", Name: job.prog.Name},
		seen: map[judge.Signature]bool{}, looked: make([]int, len(job.runners)),
	}
}

func (r *ciReport) row(row *harness.Row) error {
	for i, v := range row.Verdicts {
		if v == harness.Diverge && r.looked[i] < ciSignatures {
			r.looked[i]++
			r.divergence(row, i)
		}
	}
	return r.replayReport.row(row)
}

func (r *ciReport) divergence(row *harness.Row, i int) {
	d, _ := divergenceOf(&r.locator, r.job.runners[i], r.job.prog, row, i)
	if r.seen[d.Signature] {
		return
	}
	r.seen[d.Signature] = true
	found := reproOf(d, r.job.runners[i], r.job.prog)
	res := ciformat.Result{
		Rule: d.Signature.String(), Name: d.Signature.String(), Class: d.Runner, Outcome: ciformat.Failed, Kind: string(d.Kind),
		Message: fmt.Sprintf("%s gives %s, the interpreter %s, on input %d (%s)", d.Runner, d.Got.Long(), d.Want.Long(), row.Index+1, r.job.inputs.Files[row.Index]),
	}
	if found.How != "" {
		res.Message += ": " + found.How
	}
	if text, err := found.Format(); err == nil {
		res.Detail = string(text)
	}
	input := r.job.inputs.Files[row.Index]
	if res.File = realFile(r.job.prog.Name); res.File == "" {
		res.File = realFile(input)
	} else if d.Place != nil {
		res.Line = r.job.prog.line(d.Place.PC)
	}
	res.About = aboutDivergence(d.Signature, r.again(found.JIT, input))
	r.run.Add(res)
}

// again says how to run a divergence again. A packet that is in no file is in the
// text of the failure.
func (r *ciReport) again(jit, input string) string {
	switch prog := r.job.prog.Name; {
	case isRepro(prog):
		return replayAgain(jit, prog)
	case realFile(prog) != "" && realFile(input) != "":
		return commandLine("replay", "--jit", jit, prog, input) + ", with the other flags of the run"
	}
	return "The text of the failure in JUnit XML is a recorded divergence: write it to a file and run " + replayAgain(jit, "FILE.txtar")
}

func (r *ciReport) summary(tallies []harness.Tally, done int) error {
	r.locator.Close()
	r.run.Properties = []ciformat.Property{{Name: "inputs", Value: fmt.Sprint(done)}}
	for _, t := range tallies {
		if t.Diverge > 0 {
			continue // its divergences are there
		}
		res := ciformat.Result{Name: t.Runner, Message: fmt.Sprintf("%d agree, %d undefined, %d not run %s", t.Agree, t.Undefined, t.NotRun, t.Why)}
		switch {
		case t.Undefined > 0 && r.undefined:
			res.Outcome, res.Rule, res.Kind = ciformat.Failed, "replay.undefined", string(judge.Undefined)
			res.About = ciformat.About{
				Brief: "a JIT and the interpreter shift by X of 32 or more to other values",
				Full:  "Old kernels left such shifts to the processor, so JIT and interpreter of one kernel may differ. --undefined fail counts them as divergences.",
			}
		case t.Agree+t.Undefined == 0:
			res.Outcome, res.Message = ciformat.Skipped, "it ran nothing: "+t.Why
		}
		r.run.Add(res)
	}
	return cmp.Or(r.replayReport.summary(tallies, done), r.flags.write(&r.run))
}
