package campaign

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is damaged in a folder is done again, or said.
func TestDamage(t *testing.T) {
	cfg := faulty(t, seed(t, 4))
	// In the middle of an epoch, the journal has lines.
	whole := openFolder(t, cfg, t.TempDir())
	want := everything(t, run(t, cfg, Options{Jobs: 1, Programs: programs(cfg), Folder: whole}).State)
	whole.Close()
	for _, tt := range []struct {
		desc   string
		damage func(dir string) error
		note   string // part of it
		err    string // part of it
	}{
		{"Nothing is damaged.", func(string) error { return nil }, "", ""},
		{"The last line is torn.", edit(journalFile, func(b []byte) []byte { return b[:len(b)-100] }), "ranges.jsonl:5: the last line is torn", ""},
		{"The last line lacks its end.", edit(journalFile, func(b []byte) []byte { return b[:len(b)-1] }), "the last line is torn", ""},
		{"The last line is garbage.", edit(journalFile, func(b []byte) []byte { return append(b, "\x00\x00\x00\x00\n"...) }), "ranges.jsonl:6: no line of a journal", ""},
		{"A digit is another one.", edit(journalFile, func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"range":28`), []byte(`"range":32`), 1)
		}), "ranges.jsonl:1: the checksum is another one", ""},
		{"A line is there twice.", edit(journalFile, func(b []byte) []byte {
			line, _, _ := bytes.Cut(b, []byte("\n"))
			return append(append(b, line...), '\n')
		}), "", ""},
		{"The journal is missing.", func(dir string) error { return os.Remove(filepath.Join(dir, journalFile)) }, "", ""},
		{"The findings are missing.", func(dir string) error { return os.RemoveAll(filepath.Join(dir, findingsDir)) }, "", ""},
		{"A finding is half a file.", func(dir string) error {
			all, err := filepath.Glob(filepath.Join(dir, findingsDir, "*"))
			if err != nil {
				return err
			}
			return os.Truncate(all[0], 60)
		}, "", ""},
		{"A finding was being written when the process was killed.", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, findingsDir, ".repro-1234"), []byte("# half"), 0o600)
		}, "", ""},
		{"The state is missing.", func(dir string) error { return os.Remove(filepath.Join(dir, stateFile)) }, "", "epoch.json is missing or old"},
		{"The state is half a file.", edit(stateFile, func(b []byte) []byte { return b[:len(b)/2] }), "", "epoch.json: unexpected end of JSON"},
		{"The settings are no JSON.", edit(settingsFile, func(b []byte) []byte { return b[1:] }), "", "campaign.json: invalid character"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(whole.Dir)); err != nil {
			t.Fatal(err)
		}
		if err := tt.damage(dir); err != nil {
			t.Fatalf("%s: %v", tt.desc, err)
		}
		f, err := OpenFolder(dir, &cfg.Settings)
		var s *Summary
		if err == nil {
			s, err = Run(t.Context(), cfg, Options{Jobs: 2, Programs: programs(cfg), Folder: f})
		}
		if !strings.Contains(fmt.Sprint(err), tt.err) || (err == nil) != (tt.err == "") {
			t.Errorf("%s: got error %v, want %q", tt.desc, err, tt.err)
		}
		if err == nil {
			if notes := strings.Join(f.Notes, "; "); !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
				t.Errorf("%s: notes %q, want %q", tt.desc, notes, tt.note)
			}
			if diff := cmp.Diff(want, everything(t, s.State)); diff != "" {
				t.Errorf("%s It comes to something else:\n%s", tt.desc, diff)
			}
			if diff := cmp.Diff(files(t, whole), files(t, f)); diff != "" {
				t.Errorf("%s Other files:\n%s", tt.desc, diff)
			}
		}
		if f != nil {
			f.Close()
		}
	}
}

// edit changes a file of a folder.
func edit(name string, change func([]byte) []byte) func(string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := change(bytes.Clone(data))
		if bytes.Equal(changed, data) {
			return errors.New("nothing is damaged")
		}
		return os.WriteFile(path, changed, 0o666)
	}
}

// A folder is for one campaign, and for one process at a time.
func TestFolderRefuses(t *testing.T) {
	cfg := faulty(t, 1)
	dir := t.TempDir()
	f := openFolder(t, cfg, dir)
	var locked *LockedError
	if _, err := OpenFolder(dir, &cfg.Settings); !errors.As(err, &locked) {
		t.Errorf("a folder that is in use: %v", err)
	}
	f.Close()
	for _, tt := range []struct {
		what, want string
		change     func(*Settings)
	}{
		{"--seed", `has --seed "1", and now it is "2"`, func(s *Settings) { s.Seed = 2 }},
		{"--jit", `has --jit "[mutant:x86-and-imm16 mutant:arm-rsh0@kjit-armv7 linux-3.10-x86_64]", and now it is "[kjit-armv7]"`, func(s *Settings) { s.JITs = []string{"kjit-armv7"} }},
		{"kjit version", `has kjit version "", and now it is "kjit v9"`, func(s *Settings) { s.Version = "kjit v9" }},
		{"--kind", "--kind", func(s *Settings) { s.Kind = "socket" }},
		{"--inputs", "--inputs", func(s *Settings) { s.Inputs = 8 }},
		{"--range", "--range", func(s *Settings) { s.Size = 8 }},
		{"--profile", "--profile", func(s *Settings) { s.Profile = "kjit-armv5" }},
	} {
		other := cfg.Settings
		tt.change(&other)
		_, err := OpenFolder(dir, &other)
		var differs *SettingsError
		if !errors.As(err, &differs) || differs.What != tt.what || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("another %s: got %v, want %s", tt.what, err, tt.want)
		}
	}
	openFolder(t, cfg, dir) // the refusals gave it back
}
