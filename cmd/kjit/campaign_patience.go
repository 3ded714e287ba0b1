package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kjit-project/kjit/harness/cluster"
)

// patience is that of a command which waits for its server. What it tells goes to
// standard error, line by line.
type patience struct{ cluster.Patience }

func newPatience(std streams) *patience {
	var mu sync.Mutex
	p := new(patience)
	p.Log = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(std.err, "kjit: "+format+"\n", args...)
	}
	return p
}

// hint says what to do when stop is done while the server is away: then what is on
// its way has to wait. The function that is returned ends that.
func (p *patience) hint(stop context.Context) (end func()) {
	over, end := context.WithCancel(context.WithoutCancel(stop))
	go func() {
		select {
		case <-stop.Done():
		case <-over.Done():
		}
		for pause(over, time.Second) == nil {
			if p.Waiting() {
				p.Log("waiting for the server; interrupt again to end at once")
				return
			}
		}
	}()
	return end
}

// jobsMost is how many ranges at once are of use to a processor; more only take
// memory, and each other's time.
const jobsMost = 4

// checkJobs bounds how many ranges a process does at once.
func checkJobs(flag string, n int) error {
	if most := jobsMost * processors; n > most {
		return badInput(fmt.Errorf("--%s %d: want at most %d, %d for each processor", flag, n, most, jobsMost))
	}
	return nil
}
