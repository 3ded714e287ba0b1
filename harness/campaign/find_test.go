package campaign

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// Mutants are found within a few ranges, by name.
func TestMutantsAreFound(t *testing.T) {
	seed := seed(t, 1)
	for _, tt := range []struct{ jit, want string }{
		{"mutant:x86-and-imm16", "mutant-x86-and-imm16.and-k.value"},
		{"mutant:x86-divk-reciprocal", "mutant-x86-divk-reciprocal.div-k.value"},
		{"mutant:arm-rsh0@kjit-armv7", "mutant-arm-rsh0@kjit-armv7.rsh-k.value"},
		{"mutant:arm-xorx-first@kjit-armv5", "mutant-arm-xorx-first@kjit-armv5.entry-a.value"},
	} {
		cfg := small(t, seed, 64, tt.jit)
		w := newWorker(t, cfg)
		s := NewState(&cfg.Settings)
		var got []string
		for !slices.Contains(got, tt.want) && s.Next < 40 {
			merge(t, s, w)
			got = got[:0]
			for _, f := range s.Findings() {
				got = append(got, f.Signature().String())
			}
		}
		t.Logf("%s: %d programs, %v", tt.jit, s.Programs, got)
		if !slices.Contains(got, tt.want) {
			t.Errorf("%s: after %d programs got %v, want %s", tt.jit, s.Programs, got, tt.want)
		}
	}
}

func merge(t testing.TB, s *State, w *Worker) {
	t.Helper()
	r, err := w.RunRange(context.Background(), s.Frozen(), s.Next)
	if err == nil {
		err = r.Validate(&w.cfg.Settings)
	}
	if err == nil {
		_, err = s.Merge(r)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Emitters without faults diverge nowhere.
func TestClean(t *testing.T) {
	for _, kind := range []string{"socket", "seccomp", ""} {
		s := Default()
		s.Seed, s.Size, s.Kind = seed(t, 2), 128, kind
		s.JITs = append(s.JITs, "inline-x86_64")
		cfg, err := NewConfig(s)
		if err != nil {
			t.Fatal(err)
		}
		w, st := newWorker(t, cfg), NewState(&s)
		for range 6 {
			merge(t, st, w)
		}
		if len(st.Findings()) > 0 || st.Pairs < 6*128*30 {
			t.Errorf("%s: %d pairs, findings %s", kind, st.Pairs, text(t, st.Findings()))
		}
		if seen, all := cfg.Opcodes(&st.Totals); seen < all*9/10 || all < 40 {
			t.Errorf("%s: %d of %d opcodes", kind, seen, all)
		}
		if kind == "socket" && st.Same() > 0.3 {
			t.Errorf("%.0f %% of the runs end with the same value", 100*st.Same())
		}
	}
}

// moody is a compiler that panics, fails and refuses as it likes.
type moody struct{ *jitx86.Emitter }

func (m moody) Compile(prog bpf.Program, kind bpf.Kind, p *kernelabi.Profile) (*kernelabi.Image, error) {
	for _, ins := range prog {
		switch ins.Code {
		case bpf.MulX:
			panic("no multiplication today")
		case bpf.DivX:
			return nil, errors.New("divided opinions")
		case bpf.ModX:
			return nil, &kernelabi.Refusal{PC: -1, Reason: "fatal error"}
		}
	}
	return m.Emitter.Compile(prog, kind, p)
}

// A compiler of the user's cannot stop a campaign, whatever it does.
func TestMoodyCompiler(t *testing.T) {
	p, err := kernelabi.ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	e, err := jitx86.ByName(p.Emitter)
	if err != nil {
		t.Fatal(err)
	}
	s := Default()
	s.Seed, s.Size, s.JITs, s.Kind = seed(t, 3), 64, []string{"moody", "linux-3.10-x86_64"}, "socket"
	own, err := TargetByName(s.JITs[1])
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := NewConfig(s, Target{Name: "moody", Profile: p, Open: func() (harness.Imager, error) {
		return harness.NewCompiled("moody", moody{e}, p, emulator.WithBudget(1<<12)), nil
	}}, own)
	if err != nil {
		t.Fatal(err)
	}
	st := run(t, cfg, Options{Jobs: 2, Programs: 512})
	var got []string
	for _, r := range st.Reports {
		got = append(got, strings.TrimPrefix(r.Signature().String(), "moody."))
		if !r.Shows {
			t.Errorf("%s does not show again", r.Signature())
		}
	}
	slices.Sort(got)
	want := []string{
		"fatal-error.refusal", "the-compiler-fails-divided-opinions.failed", "the-compiler-panics-no-multipli-6a6b77b8.failed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is left of a corpus covers what all of it did, and less would not do.
func TestMinimise(t *testing.T) {
	cfg := small(t, seed(t, 6), 40)
	dir := t.TempDir()
	f := openFolder(t, cfg, dir)
	run(t, cfg, Options{Jobs: 2, Programs: 6 * 40, Folder: f}) // in the middle of an epoch
	f.Close()
	f = openFolder(t, cfg, dir)
	s, _, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	before, frozen := s.Corpus(), len(s.Frozen().Corpus)
	m, err := f.Minimise(t.Context(), cfg, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := s.Corpus()
	if m.Programs != len(before) || m.Kept != len(after) || m.Kept == 0 || m.Kept >= m.Programs {
		t.Errorf("%+v, of %d programs %d are left", m, len(before), len(after))
	}
	if len(s.Frozen().Corpus) != frozen {
		t.Error("the ranges of the open epoch start from another corpus")
	}
	cover := func(corpus []Entry) []engine.Features {
		features, err := cfg.measure(t.Context(), corpus, nil)
		if err != nil {
			t.Fatal(err)
		}
		return features
	}
	all := engine.NewCoverageMap(len(cfg.Targets))
	for _, features := range cover(before) {
		all.Add(features)
	}
	left, rest := engine.NewCoverageMap(len(cfg.Targets)), cover(after)
	for _, features := range rest {
		left.Add(features)
	}
	if n := all.Total() - left.Total(); n != 0 || m.Features != all.Total() {
		t.Errorf("%d features of %d are lost, %d were told", n, all.Total(), m.Features)
	}
	// It is kept, and holds when the epoch is over.
	f.Close()
	f = openFolder(t, cfg, dir)
	if s, _, err = f.Load(); err != nil || len(s.Corpus()) != len(after) {
		t.Fatalf("%v, after opening the folder again %d programs are left, want %d", err, len(s.Corpus()), len(after))
	}
	f.Close()
	f = openFolder(t, cfg, dir)
	sum := run(t, cfg, Options{Jobs: 1, Programs: 12 * 40, Folder: f})
	if frozen := sum.Frozen().Corpus; len(frozen) < len(after) || len(frozen) != len(sum.Corpus()) {
		t.Errorf("%d programs in the next epoch", len(frozen))
	}
	for _, e := range sum.Corpus() {
		if !slices.ContainsFunc(after, func(o Entry) bool { return o.hash() == e.hash() }) && slices.ContainsFunc(before, func(o Entry) bool { return o.hash() == e.hash() }) {
			t.Errorf("the program of case %d is back", e.Case)
		}
	}
}

// A finding that does not show again is kept, and says so.
func TestUnreproduced(t *testing.T) {
	cfg := small(t, 1, 8, "linux-3.10-x86_64")
	f := newBacklog(cfg, t.TempDir())
	finding := &Finding{Target: "linux-3.10-x86_64", Rule: "and-k", How: judge.Value, Count: 1, Want: "1", Got: "2",
		Program: bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.RetA}}, Input: kernelabi.NewSkb([]byte{1, 2, 3})}
	f.add(finding)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	r := f.report(finding)
	if r.Shows || r.Insns != 2 || r.Bytes != 3 || !strings.HasSuffix(r.File, "linux-3.10-x86_64.and-k.value.txtar") {
		t.Errorf("got %+v", r)
	}
}
