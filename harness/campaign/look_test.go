package campaign

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever only looks sees what whoever has the folder sees, while another has it,
// and changes nothing.
func TestLook(t *testing.T) {
	cfg := faulty(t, seed(t, 3))
	f := openFolder(t, cfg, t.TempDir())
	s := run(t, cfg, Options{Jobs: 1, Programs: programs(cfg), Folder: f}).State
	before := folderFiles(t, f.Dir)
	settings, looked, err := Look(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cfg.Settings, *settings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(everything(t, s), everything(t, looked)); diff != "" {
		t.Errorf("it looks otherwise (-is +seen):\n%s", diff)
	}
	if diff := cmp.Diff(s.History(), looked.History()); diff != "" || len(s.History()) != 3 {
		t.Errorf("%d points of history, want 3:\n%s", len(s.History()), diff)
	}
	last := Point{}
	for i, p := range s.History() {
		if p.Programs <= last.Programs || p.Corpus < last.Corpus || len(p.Targets) != len(cfg.JITs) || p.Targets[0].Edges == 0 {
			t.Errorf("point %d: %+v after %+v", i, p, last)
		}
		last = p
	}
	if diff := cmp.Diff(before, folderFiles(t, f.Dir)); diff != "" {
		t.Errorf("looking changed something:\n%s", diff)
	}
	// A journal that is being written ends anywhere.
	f.Close()
	if err := edit(journalFile, func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+9] })(f.Dir); err != nil {
		t.Fatal(err)
	}
	if _, looked, err = Look(f.Dir); err != nil || looked.Next != s.Next-1 {
		t.Errorf("a torn line: %v, range %d, want %d", err, looked.Next, s.Next-1)
	}
	if err := os.Truncate(filepath.Join(f.Dir, stateFile), 50); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Look(f.Dir); err == nil {
		t.Error("half a state is no error")
	}
}

// folderFiles are the files of a folder with their content.
func folderFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{settingsFile, stateFile, journalFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	return out
}

// The history of a long campaign is thinned out, and keeps its ends.
func TestHistoryIsBounded(t *testing.T) {
	cfg := small(t, 1, 12)
	s := NewState(&cfg.Settings)
	for i := range uint64(10 * maxHistory) {
		s.Programs = i + 1
		s.note()
		if n := len(s.history); n >= maxHistory || s.history[n-1].Programs != i+1 {
			t.Fatalf("%d points after %d epochs, the last of program %d", n, i+1, s.history[n-1].Programs)
		}
	}
}
