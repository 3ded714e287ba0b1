package campaign

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/jitx86"
	"github.com/kjit-project/kjit/kernelabi"
)

// The folder of a campaign says what a JIT refuses that cannot be asked later.
func TestRefused(t *testing.T) {
	e, err := jitx86.ByName("linux-3.10")
	if err != nil {
		t.Fatal(err)
	}
	p, err := kernelabi.ProfileByName("linux-3.10-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	codes := []uint16{bpf.RetA, bpf.LdImm, bpf.AddK, bpf.AndK}
	s := Default()
	s.Size, s.JITs = 4, []string{"few", p.Name}
	own, err := TargetByName(p.Name)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := NewConfig(s, Target{Name: "few", Profile: p, Open: func() (harness.Imager, error) {
		return harness.NewCompiled("few", few{e.NewCompiler(), codes}, p), nil
	}}, own)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if got := ReadRefused(dir); got != nil {
		t.Errorf("a folder that is not there knows %v", got)
	}
	f, err := OpenFolder(dir, &s)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Run(t.Context(), cfg, Options{Jobs: 1, Programs: 1, Folder: f}); err != nil {
		t.Fatal(err)
	}
	want, err := cfg.Refused()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ReadRefused(dir)); diff != "" {
		t.Errorf("the folder has something else:\n%s", diff)
	}
	if len(want) != 1 {
		t.Errorf("%d JITs are asked, and one is external", len(want))
	}
	for _, code := range append(codes, bpf.RetK, bpf.LdWAbs, bpf.LdxMsh, 256) {
		if refuses := slices.Contains(want["few"], uint32(code)); refuses == slices.Contains(codes, code) {
			t.Errorf("opcode %#x: it refuses it: %v", code, refuses)
		}
	}
}
