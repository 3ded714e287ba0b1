package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/harness/engine"
)

// childEnv makes the test binary a process that does a campaign in a folder.
const childEnv = "KJIT_CAMPAIGN_CHILD"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := child(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func child(dir string) error {
	s, err := ReadSettings(dir)
	if err != nil {
		return err
	}
	cfg, err := NewConfig(*s)
	if err != nil {
		return err
	}
	f, err := OpenFolder(dir, s)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = Run(context.Background(), cfg, Options{Jobs: 2, Programs: programs(cfg), Folder: f})
	return err
}

// ranges is how many ranges the campaigns of these tests have: three epochs, and
// the beginning of another.
const ranges = 4 + 8 + 16 + 5

func programs(cfg *Config) uint64 { return uint64(ranges * cfg.Size) }

// faulty is a campaign that finds something.
func faulty(t testing.TB, seed uint64) *Config {
	return small(t, seed, 12, "mutant:x86-and-imm16", "mutant:arm-rsh0@kjit-armv7", "linux-3.10-x86_64")
}

func openFolder(t testing.TB, cfg *Config, dir string) *Folder {
	t.Helper()
	f, err := OpenFolder(dir, &cfg.Settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func run(t testing.TB, cfg *Config, o Options) *Summary {
	t.Helper()
	s, err := Run(context.Background(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// everything is all that a state has, as text.
func everything(t testing.TB, s *State) string {
	return text(t, struct {
		Next     uint64
		Totals   Totals
		Coverage engine.Features
		Findings []*Finding
		Corpus   []Entry
	}{s.Next, s.Totals, s.coverage.Features(), s.order, s.corpus})
}

// files are the contents of a folder's findings.
func files(t testing.TB, f *Folder) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(f.Findings()), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(f.Findings(), path))
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The same comes out of a campaign whatever the number of jobs, and in pieces.
func TestJobsDoNotMatter(t *testing.T) {
	cfg := faulty(t, seed(t, 5))
	var want string
	var wantFiles map[string]string
	for i, jobs := range []int{1, 2, 4} {
		f := openFolder(t, cfg, t.TempDir())
		s := run(t, cfg, Options{Jobs: jobs, Programs: programs(cfg), Folder: f})
		if s.Ranges != ranges || s.Programs != programs(cfg) || len(s.Reports) == 0 {
			t.Fatalf("%d ranges, %d programs, %d findings", s.Ranges, s.Programs, len(s.Reports))
		}
		for _, r := range s.Reports {
			if !r.Shows || !r.Shrunk || r.Story == "" || r.Insns > 4 {
				t.Errorf("%s: %+v", r.Signature(), r)
			}
		}
		got, gotFiles := everything(t, s.State), files(t, f)
		if i == 0 {
			want, wantFiles = got, gotFiles
			if len(wantFiles) != len(s.Reports) {
				t.Errorf("%d files of %d findings", len(wantFiles), len(s.Reports))
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d jobs come to something else (-1 job +%d jobs):\n%s", jobs, jobs, diff)
		}
		if diff := cmp.Diff(wantFiles, gotFiles); diff != "" {
			t.Errorf("%d jobs write other files (-1 job +%d jobs):\n%s", jobs, jobs, diff)
		}
	}
	// Two runs instead of one, and nothing kept.
	f := openFolder(t, cfg, t.TempDir())
	run(t, cfg, Options{Jobs: 2, Programs: programs(cfg) / 2, Folder: f})
	f.journal.close()
	if got := everything(t, run(t, cfg, Options{Jobs: 1, Programs: programs(cfg), Folder: f}).State); got != want {
		t.Errorf("two runs come to something else (-one +two):\n%s", cmp.Diff(want, got))
	}
	if got := everything(t, run(t, cfg, Options{Jobs: 3, Programs: programs(cfg)}).State); got != want {
		t.Errorf("a run without a folder comes to something else (-with +without):\n%s", cmp.Diff(want, got))
	}
}

// A campaign that is killed again and again loses nothing and counts nothing
// twice.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seed := seed(t, 9)
	rng := rand.New(rand.NewPCG(seed, 0))
	cfg := faulty(t, seed)
	reference := openFolder(t, cfg, t.TempDir())
	want := run(t, cfg, Options{Jobs: 2, Programs: programs(cfg), Folder: reference})

	dir := t.TempDir()
	openFolder(t, cfg, dir).Close()
	began := time.Now()
	kills := 0
	for {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Once it works, at any moment; and later now and then, for it has to come to
		// an end on a slow machine, too.
		patience := time.Duration(kills) * 60 * time.Millisecond
		timer := time.AfterFunc(100*time.Millisecond+patience+time.Duration(rng.Int64N(int64(600*time.Millisecond))), func() { cmd.Process.Kill() })
		err := cmd.Wait()
		if !timer.Stop() && err != nil {
			kills++
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		break
	}
	t.Logf("killed %d times in %s", kills, time.Since(began).Round(time.Millisecond))
	if kills == 0 {
		t.Error("it was never killed")
	}
	f := openFolder(t, cfg, dir)
	s, done, err := f.Load()
	if err != nil || len(done) > 0 || len(f.Notes) > 0 {
		t.Fatalf("%v, %d ranges are not merged, %v", err, len(done), f.Notes)
	}
	if diff := cmp.Diff(everything(t, want.State), everything(t, s)); diff != "" {
		t.Errorf("after kills it is another campaign (-whole +killed):\n%s", diff)
	}
	killed := files(t, f)
	for name := range killed { // what was being written when the process ended
		if strings.HasPrefix(name, ".") {
			delete(killed, name)
		}
	}
	if diff := cmp.Diff(files(t, reference), killed); diff != "" {
		t.Errorf("after kills there are other files (-whole +killed):\n%s", diff)
	}
}

// Stop ends a campaign at the border of ranges, whatever is running.
func TestStop(t *testing.T) {
	cfg := faulty(t, seed(t, 3))
	stop, cancel := context.WithCancel(context.Background())
	f := openFolder(t, cfg, t.TempDir())
	s, err := Run(context.Background(), cfg, Options{Jobs: 2, Folder: f, Stop: stop, Progress: func(s *Status) {
		if s.Ranges >= 6 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Ranges < 6 || s.Programs != s.Ranges*uint64(cfg.Size) {
		t.Errorf("%d ranges, %d programs", s.Ranges, s.Programs)
	}
	all := run(t, cfg, Options{Jobs: 1, Programs: s.Programs})
	if diff := cmp.Diff(everything(t, all.State), everything(t, s.State)); diff != "" {
		t.Errorf("a stopped campaign is another one:\n%s", diff)
	}
	// When the context itself ends, it ends at once.
	hard, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(hard, cfg, Options{Jobs: 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
