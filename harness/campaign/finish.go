package campaign

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/harness/shrink"
	"github.com/kjit-project/kjit/kernelabi"
)

// What is spent on making one finding smaller, and one for which a process has to
// be started again each time.
const (
	shrinkTries  = 5000
	restartTries = 150
)

// Report is a finding for people, and where its file is.
type Report struct {
	*Finding
	File   string // "" without a folder
	Story  string // where they part, in a line
	Insns  int    // of the program in the file
	Bytes  int    // of its packet; 0 for a system call
	Shows  bool   // the file was run again, and shows it
	Shrunk bool   // it is as small as it gets
}

// NewReport is that of a finding that has no file yet.
func NewReport(f *Finding) *Report {
	return &Report{Finding: f, Insns: len(f.Program), Bytes: inputBytes(f.Input)}
}

// CommentRaw is that of a file that is to be replaced by a smaller one.
const CommentRaw = "as it was found: it has not been made smaller yet"

// Other comments of files.
const (
	commentLarge     = "not as small as can be: the tries were used up"
	commentNoRepro   = "it does not show when it is run alone: as it was found"
	commentElsewhere = "it does not show when it is read from this file: as it was found"
)

// Finisher makes files of findings, one at a time. It serves one goroutine; Close
// frees its machines.
type Finisher struct {
	cfg    *Config
	dir    string // "": nothing is written
	judges map[string]*judge.Judge
	last   *repro.Repro // what was made last, with a folder or without
}

// NewFinisher returns one that writes no files, for who does a campaign otherwise
// than with [Run].
func (c *Config) NewFinisher() *Finisher { return c.newFinisher("") }

func (c *Config) newFinisher(dir string) *Finisher {
	return &Finisher{cfg: c, dir: dir, judges: map[string]*judge.Judge{}}
}

// Finish returns the file of a finding, as small as it gets. It depends on the
// finding alone.
func (f *Finisher) Finish(finding *Finding) (*Report, []byte, error) {
	report, err := f.finish(finding)
	if err != nil {
		return nil, nil, err
	}
	file, err := f.last.Format()
	return report, file, err
}

// Close frees what the finisher holds.
func (f *Finisher) Close() error {
	var errs []error
	for _, j := range f.judges {
		errs = append(errs, j.Close(), j.Runner().Close())
	}
	return errors.Join(errs...)
}

// judgeOf returns the judge of a target.
func (f *Finisher) judgeOf(name string) (*judge.Judge, error) {
	if j := f.judges[name]; j != nil {
		return j, nil
	}
	i := slices.IndexFunc(f.cfg.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no target %s", name)
	}
	r, err := f.cfg.Targets[i].runner()
	if err != nil {
		return nil, err
	}
	if p, ok := r.(interface{ NeverGiveUp() }); ok {
		p.NeverGiveUp()
	}
	f.judges[name] = judge.New(r, judge.Options{})
	return f.judges[name], nil
}

// found says where a finding comes from, in its file.
func (f *Finisher) found(finding *Finding) string {
	return fmt.Sprintf("kjit fuzz, seed %d, case %d", f.cfg.Seed, finding.Case)
}

// finish writes the file of a finding: first as it was found, then smaller. A
// file that is there already is left as it is.
func (f *Finisher) finish(finding *Finding) (*Report, error) {
	j, err := f.judgeOf(finding.Target)
	if err != nil {
		return nil, err
	}
	sig := finding.Signature()
	report := &Report{Finding: finding}
	if f.dir != "" {
		report.File = filepath.Join(f.dir, sig.String()+repro.Extension)
		if old, err := repro.Read(report.File); err == nil && old.Found == f.found(finding) && !slices.Contains(old.Comments, CommentRaw) {
			report.fill(old)
			return report, nil
		}
	}
	d, err := j.Judge(finding.Program, finding.Input)
	if err != nil {
		return nil, err
	}
	if d == nil || d.Signature != sig {
		raw := finding.Repro()
		raw.Found = f.found(finding)
		return report, f.write(report, raw, commentNoRepro)
	}
	if err := f.write(report, f.made(finding, d), CommentRaw); err != nil {
		return nil, err
	}
	tries := shrinkTries
	if sig.Kind == judge.Failed {
		tries = restartTries
	}
	small := shrink.Shrink(finding.Program, finding.Input, j.Shows(sig), shrink.Options{Profile: j.Runner().Profile(), Tries: tries})
	again, err := j.Judge(small.Program, small.Input)
	if err != nil {
		return nil, err
	}
	if again == nil || again.Signature != sig {
		return report, f.write(report, f.made(finding, d), commentNoRepro)
	}
	r := f.made(finding, again)
	if shows, err := f.shows(j, r); err != nil {
		return nil, err
	} else if !shows {
		return report, f.write(report, f.made(finding, d), commentElsewhere)
	}
	comment := ""
	if !small.Complete {
		comment = commentLarge
	}
	return report, f.write(report, r, comment)
}

// made is the file of a divergence.
func (f *Finisher) made(finding *Finding, d *judge.Divergence) *repro.Repro {
	r := repro.New(d)
	r.JIT, r.Found = finding.Target, f.found(finding)
	if strings.HasPrefix(r.JIT, "exec:") {
		r.Comments = []string{"kjit replay FILE --jit '" + r.JIT + "' runs this again: a command must be named, no file is trusted to."}
	}
	return r
}

// Repro is the file of a finding that nobody has looked at closely.
func (f *Finding) Repro() *repro.Repro {
	return &repro.Repro{
		JIT: f.Target, Kind: f.Kind, Expect: repro.Diverge, Divergence: f.How, Rule: f.Rule,
		Want: f.Want, Got: f.Got, Program: f.Program, Input: f.Input,
	}
}

// shows runs a file's content again as kjit replay does.
func (f *Finisher) shows(j *judge.Judge, r *repro.Repro) (bool, error) {
	data, err := r.Format()
	if err != nil {
		return false, err
	}
	read, err := repro.Parse(r.Name(), data)
	if err != nil {
		return false, err
	}
	res, err := read.Run(j.Runner())
	return err == nil && read.Met(res), err
}

// write writes a file, and into the report what it says.
func (f *Finisher) write(report *Report, r *repro.Repro, comment string) error {
	if comment != "" {
		r.Comments = append(r.Comments, comment)
	}
	report.fill(r)
	f.last = r
	if f.dir == "" {
		return nil
	}
	path, err := repro.Write(f.dir, r)
	if err == nil && path != report.File {
		err = fmt.Errorf("%s became %s", report.File, path)
	}
	return err
}

// fill takes over what a file says.
func (r *Report) fill(from *repro.Repro) {
	r.Story, r.Insns, r.Bytes = from.How, len(from.Program), inputBytes(from.Input)
	has := func(comment string) bool { return slices.Contains(from.Comments, comment) }
	r.Shows = !has(commentNoRepro) && !has(commentElsewhere)
	r.Shrunk = r.Shows && !has(CommentRaw) && !has(commentLarge)
}

func inputBytes(in kernelabi.Input) int {
	if skb, ok := in.(*kernelabi.Skb); ok {
		return len(skb.Packet)
	}
	return 0
}
