package campaign

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/harness/shrink"
	"github.com/kjit-project/kjit/kernelabi"
)

// shrinkTries bounds what is spent on making one finding smaller.
const shrinkTries = 5000

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

// Comments of files.
const (
	commentRaw       = "as it was found: it has not been made smaller yet"
	commentLarge     = "not as small as can be: the tries were used up"
	commentNoRepro   = "it does not show when it is run alone: as it was found"
	commentElsewhere = "it does not show when it is read from this file: as it was found"
)

// finisher makes files of findings, in a goroutine of its own.
type finisher struct {
	cfg *Config
	dir string

	mu      sync.Mutex
	more    sync.Cond
	queue   []*Finding
	busy    bool
	closed  bool
	err     error
	reports map[judge.Signature]*Report
	judges  map[string]*judge.Judge
	done    chan struct{}
	last    *repro.Repro // what was written last, with a folder or without
}

func newFinisher(cfg *Config, dir string) *finisher {
	f := &finisher{cfg: cfg, dir: dir, reports: map[judge.Signature]*Report{}, judges: map[string]*judge.Judge{}, done: make(chan struct{})}
	f.more.L = &f.mu
	go f.work()
	return f
}

// add queues findings.
func (f *finisher) add(findings ...*Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, findings...)
	f.more.Signal()
}

// waiting returns how many findings have no final file yet.
func (f *finisher) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.queue)
	if f.busy {
		n++
	}
	return n
}

// failed returns the error that stopped the finisher, if any.
func (f *finisher) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close waits until all files are written.
func (f *finisher) close() error {
	f.mu.Lock()
	f.closed = true
	f.more.Signal()
	f.mu.Unlock()
	<-f.done
	var errs []error
	for _, j := range f.judges {
		errs = append(errs, j.Close(), j.Runner().Close())
	}
	return errors.Join(append(errs, f.err)...)
}

func (f *finisher) work() {
	defer close(f.done)
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && !f.closed {
			f.more.Wait()
		}
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return
		}
		next := f.queue[0]
		f.queue, f.busy = f.queue[1:], true
		f.mu.Unlock()
		report, err := f.finish(next)
		f.mu.Lock()
		f.busy = false
		if err != nil {
			f.err, f.queue = err, nil
		} else {
			f.reports[next.Signature()] = report
		}
		f.mu.Unlock()
	}
}

// report returns what is known of a finding.
func (f *finisher) report(finding *Finding) *Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.reports[finding.Signature()]; r != nil {
		return r
	}
	return &Report{Finding: finding, Insns: len(finding.Program), Bytes: inputBytes(finding.Input)}
}

// judgeOf returns the judge of a target.
func (f *finisher) judgeOf(name string) (*judge.Judge, error) {
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
	f.judges[name] = judge.New(r, judge.Options{})
	return f.judges[name], nil
}

// found says where a finding comes from, in its file.
func (f *finisher) found(finding *Finding) string {
	return fmt.Sprintf("kjit fuzz, seed %d, case %d", f.cfg.Seed, finding.Case)
}

// finish writes the file of a finding: first as it was found, then smaller. A
// file that is there already is left as it is.
func (f *finisher) finish(finding *Finding) (*Report, error) {
	j, err := f.judgeOf(finding.Target)
	if err != nil {
		return nil, err
	}
	sig := finding.Signature()
	report := &Report{Finding: finding}
	if f.dir != "" {
		report.File = filepath.Join(f.dir, sig.String()+repro.Extension)
		if old, err := repro.Read(report.File); err == nil && old.Found == f.found(finding) && !slices.Contains(old.Comments, commentRaw) {
			report.fill(old)
			return report, nil
		}
	}
	d, err := j.Judge(finding.Program, finding.Input)
	if err != nil {
		return nil, err
	}
	if d == nil || d.Signature != sig {
		return report, f.write(report, f.raw(finding), commentNoRepro)
	}
	if err := f.write(report, f.made(finding, d), commentRaw); err != nil {
		return nil, err
	}
	small := shrink.Shrink(finding.Program, finding.Input, j.Shows(sig), shrink.Options{Profile: j.Runner().Profile(), Tries: shrinkTries})
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
func (f *finisher) made(finding *Finding, d *judge.Divergence) *repro.Repro {
	r := repro.New(d)
	r.JIT, r.Found = finding.Target, f.found(finding)
	if strings.HasPrefix(r.JIT, "exec:") {
		r.Comments = []string{"kjit replay FILE --jit '" + r.JIT + "' runs this again: a command must be named, no file is trusted to."}
	}
	return r
}

// raw is the file of a finding that nobody has looked at closely.
func (f *finisher) raw(finding *Finding) *repro.Repro {
	return &repro.Repro{
		JIT: finding.Target, Kind: finding.Kind, Expect: repro.Diverge, Divergence: finding.How, Rule: finding.Rule,
		Want: finding.Want, Got: finding.Got, Found: f.found(finding), Program: finding.Program, Input: finding.Input,
	}
}

// shows runs a file's content again as kjit replay does.
func (f *finisher) shows(j *judge.Judge, r *repro.Repro) (bool, error) {
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
func (f *finisher) write(report *Report, r *repro.Repro, comment string) error {
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
	r.Shrunk = r.Shows && !has(commentRaw) && !has(commentLarge)
}

func inputBytes(in kernelabi.Input) int {
	if skb, ok := in.(*kernelabi.Skb); ok {
		return len(skb.Packet)
	}
	return 0
}
