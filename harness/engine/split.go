package engine

import (
	"time"

	"github.com/kjit-project/kjit/kernelabi"
)

// Split is where time goes. Generate and Solve are the caller's to add.
type Split struct {
	Programs, Pairs int

	Generate  time.Duration
	Solve     time.Duration
	Interpret time.Duration // compiling for the interpreter included
	Emit      time.Duration
	Translate time.Duration // loading an image, and what its first run takes longer than the next
	Execute   time.Duration
	Compare   time.Duration

	on   bool
	last time.Time
}

// Split returns the sums so far. Without [Config.Split] the times are 0.
func (e *Engine) Split() Split { return e.split }

func (s *Split) begin() {
	if s.on {
		s.last = time.Now()
	}
}

// lap adds the time since the last call to d.
func (s *Split) lap(d *time.Duration) {
	if !s.on {
		return
	}
	now := time.Now()
	*d += now.Sub(s.last)
	s.last = now
}

// execution divides the time of an image's first run: the second translates
// nothing.
func (s *Split) execution(t *target, inputs []kernelabi.Input) error {
	var first, second time.Duration
	s.lap(&first)
	var err error
	if t.results, err = t.machine.Run(inputs, t.results); err != nil {
		return err
	}
	s.lap(&second)
	s.Execute += min(first, second)
	s.Translate += max(first-second, 0)
	return nil
}
