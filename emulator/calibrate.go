package emulator

import (
	"fmt"
	"sync"
)

// contextWord is a word of the engine's raw state that has no register. Where
// it is depends on how the library was built, so it is found by experiment,
// once per process.
type contextWord struct {
	sync.Mutex
	done bool
	at   int // -1 if that gave no single place; then faults say less
}

// probe is an experiment: code that faults, and what the word must be then.
type probe struct {
	code []byte
	want uint32
}

// find provokes known faults and keeps the only place that fits all of them.
func (w *contextWord) find(m *Machine, probes []probe) error {
	w.Lock()
	defer w.Unlock()
	if w.done {
		return nil
	}
	var candidates []int
	for i, p := range probes {
		faulted, err := m.probe(p.code)
		if err != nil {
			return err
		}
		if !faulted {
			return fmt.Errorf("calibration: probe %d was to fault, but: %s", i, m.describe())
		}
		words := m.engine.Words()
		if i == 0 {
			for at := range words {
				candidates = append(candidates, at)
			}
		}
		var left []int
		for _, at := range candidates {
			if words[at] == p.want {
				left = append(left, at)
			}
		}
		candidates = left
	}
	if len(candidates) == 1 {
		w.at = candidates[0]
	}
	w.done = true
	return nil
}

// read returns the word as the last run left it.
func (w *contextWord) read(m *Machine) (value uint32, known bool) {
	w.Lock()
	at := w.at
	w.Unlock()
	words := m.engine.Words()
	if at < 0 || at >= len(words) {
		return 0, false
	}
	return words[at], true
}

// check is the self-test's line about the word.
func (w *contextWord) check(without string) string {
	w.Lock()
	defer w.Unlock()
	if w.at < 0 {
		// Nothing is wrong then, but faults tell less.
		return "not found in the processor state: " + without
	}
	return fmt.Sprintf("word %d of the processor state", w.at)
}
