package campaign

import (
	"errors"
	"sync"

	"github.com/kjit-project/kjit/harness/judge"
)

// backlog makes files of findings, in a goroutine of its own.
type backlog struct {
	finisher *Finisher // that goroutine's

	mu      sync.Mutex
	more    sync.Cond
	queue   []*Finding
	busy    bool
	closed  bool
	err     error
	reports map[judge.Signature]*Report
	done    chan struct{}
}

func newBacklog(cfg *Config, dir string) *backlog {
	b := &backlog{finisher: cfg.newFinisher(dir), reports: map[judge.Signature]*Report{}, done: make(chan struct{})}
	b.more.L = &b.mu
	go b.work()
	return b
}

// add queues findings.
func (b *backlog) add(findings ...*Finding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, findings...)
	b.more.Signal()
}

// waiting returns how many findings have no final file yet.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.queue)
	if b.busy {
		n++
	}
	return n
}

// failed returns the error that stopped it, if any.
func (b *backlog) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// close waits until all files are written.
func (b *backlog) close() error {
	b.mu.Lock()
	b.closed = true
	b.more.Signal()
	b.mu.Unlock()
	<-b.done
	return errors.Join(b.finisher.Close(), b.err)
}

func (b *backlog) work() {
	defer close(b.done)
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.closed {
			b.more.Wait()
		}
		if len(b.queue) == 0 {
			b.mu.Unlock()
			return
		}
		next := b.queue[0]
		b.queue, b.busy = b.queue[1:], true
		b.mu.Unlock()
		report, err := b.finisher.finish(next)
		b.mu.Lock()
		b.busy = false
		if err != nil {
			b.err, b.queue = err, nil
		} else {
			b.reports[next.Signature()] = report
		}
		b.mu.Unlock()
	}
}

// report returns what is known of a finding.
func (b *backlog) report(finding *Finding) *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.reports[finding.Signature()]; r != nil {
		return r
	}
	return NewReport(finding)
}
