package cluster

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Workers are killed in the middle of ranges, a node is killed and comes back, a
// route is cut and heals: nothing is lost or counted twice.
func TestClusterUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of three servers, and kills: about a minute")
	}
	s := seed(t, 1)
	rng := rand.New(rand.NewPCG(s, 0))
	cfg := small(t, s)
	const ranges = 60
	expect := want(t, cfg, ranges)
	c := startNodes(t)
	nc := c.connect()
	store := begin(t, nc, cfg, ranges, 2*time.Second)
	if info, err := store.results.Info(t.Context()); err != nil || info.Config.Replicas != 3 {
		t.Fatalf("results have %+v replicas, %v", info, err)
	}
	args := workerArgs{c.urls(), cfg.Settings}
	var workers [2]*exec.Cmd
	for i := range workers {
		workers[i] = child(t, workerEnv, args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait := func(least, most time.Duration) bool {
			select {
			case <-stop:
				return false
			case <-time.After(least + rand.N(most-least)):
				return true
			}
		}
		event := 0
		for wait(500*time.Millisecond, 1500*time.Millisecond) {
			switch event++; event % 4 {
			case 0, 2:
				i := rng.IntN(len(workers))
				workers[i].Process.Kill()
				workers[i].Wait()
				workers[i] = child(t, workerEnv, args)
			case 1:
				i := rng.IntN(3)
				t.Logf("node %d is killed", i)
				c.kill(i)
				more := wait(time.Second, 3*time.Second)
				c.start(i)
				if !more {
					return
				}
			case 3:
				i := rng.IntN(3)
				t.Logf("the route between %d and %d is cut", i, (i+1)%3)
				c.setLink(i, (i+1)%3, true)
				more := wait(time.Second, 3*time.Second)
				c.setLink(i, (i+1)%3, false)
				if !more {
					return
				}
			}
		}
	}()
	got := coordinate(t, ctx, store, cfg)
	close(stop)
	<-done
	if diff := cmp.Diff(expect, stateText(t, got)); diff != "" {
		t.Errorf("another answer (-one process +cluster under kills):\n%s", diff)
	}
	if p, err := store.Poisons(t.Context()); err != nil || len(p) > 0 {
		t.Errorf("set aside: %v, %v", p, err)
	}
	entries, err := store.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Findings() {
		if e := entries[keyOf(f.Signature())]; e == nil || !e.Final || e.Finding.Case != f.Case {
			t.Errorf("finding %s: %+v", f.Signature(), e)
		}
	}
}
