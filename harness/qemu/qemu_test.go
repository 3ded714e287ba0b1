package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
	"github.com/kjit-project/kjit/harness/qemu/wire"
	"github.com/kjit-project/kjit/kernelabi"
)

// TestMain is QEMU where the test calls itself so.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "qemu-system-") {
		if err := playQEMU(os.Getenv(playEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const playEnv = "KJIT_TEST_QEMU"

// poison is a program on which played guests crash.
var poison = bpf.Program{{Code: bpf.RetK, K: 0xdead}}

// playQEMU plays a guest whose kernel is the running one.
func playQEMU(how string) error {
	switch how {
	case "refuse":
		return errors.New("qemu-system-arm: unsupported machine type")
	case "panic":
		fmt.Print("[    0.1] Linux\r\n[    0.2] Kernel panic - not syncing: no init\x07\r\n")
		return nil
	case "hang":
		fmt.Print("[    0.1] Linux\n")
		select {}
	}
	kernel, err := probe.Running()
	if err != nil {
		return err
	}
	return wire.Serve(os.Stdin, os.Stdout, &poisonable{kernel})
}

type poisonable struct{ probe.Kernel }

func (k *poisonable) Packets(prog bpf.Program, packets [][]byte) (*probe.Values, error) {
	if len(prog) == 1 && prog[0] == poison[0] {
		fmt.Println("[   60.0] Oops: general protection fault")
		os.Exit(0)
	}
	return k.Kernel.Packets(prog, packets)
}

// played makes tests find themselves as QEMU.
func played(t *testing.T, how string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no symbolic links for all")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range machines {
		if err := os.Symlink(self, filepath.Join(dir, m.command)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv(playEnv, how)
	t.Setenv("TMPDIR", t.TempDir())
}

// newGuest boots a played guest without what kjit puts into real ones.
func newGuest(t *testing.T, o Options) (*guest, error) {
	t.Helper()
	kernel := kernelFile(t, bzImage)
	m, err := machineFor(kernel)
	if err != nil {
		t.Fatal(err)
	}
	if o.Answer == 0 {
		o.Answer = time.Minute
	}
	g := &guest{ctx: t.Context(), machine: m, kernel: kernel, Options: o}
	return g, g.boot()
}

func TestGuestsThatDoNotBoot(t *testing.T) {
	for _, test := range []struct{ desc, how, want string }{
		{"QEMU refuses.", "refuse", "the kernel does not boot: QEMU ended: exit status 1; last on its console: qemu-system-arm: unsupported machine type"},
		{"The kernel panics.", "panic", "the kernel does not boot: the guest has shut down, or its kernel has crashed; last on its console: [    0.1] Linux | [    0.2] Kernel panic - not syncing: no init"},
		{"The kernel hangs.", "hang", "the kernel does not boot: nothing within 1s; last on its console: [    0.1] Linux"},
	} {
		played(t, test.how)
		limit := time.Minute
		if test.how == "hang" {
			limit = time.Second
		}
		_, err := newGuest(t, Options{Boot: limit})
		var failure *harness.Failure
		if !errors.As(err, &failure) {
			t.Errorf("%s %v", test.desc, err)
			continue
		}
		if got := failure.Error(); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.desc, got, test.want)
		}
		if left, err := os.ReadDir(os.TempDir()); len(left) > 0 || err != nil {
			t.Errorf("%s left behind: %v, %v", test.desc, left, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	played(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	m := machines[0]
	g := &guest{ctx: ctx, machine: m, kernel: "vmlinuz", Options: Options{Boot: time.Minute}}
	if err := g.boot(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNoQEMU(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for kernel, want := range map[string]string{
		kernelFile(t, bzImage): "not available here: qemu-system-x86_64: it is not installed: apt-get install qemu-system-x86",
		kernelFile(t, zImage):  "not available here: qemu-system-arm: it is not installed: apt-get install qemu-system-arm",
	} {
		_, err := Open(t.Context(), kernel, Options{})
		var none *livekernel.UnavailableError
		if !errors.As(err, &none) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A guest that crashes gives no outcome for that program, and another guest goes
// on, if not for ever.
func TestCrash(t *testing.T) {
	if r, err := livekernel.Open(); err != nil {
		t.Skip(err)
	} else {
		r.Close()
	}
	played(t, "serve")
	g, err := newGuest(t, Options{Boot: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, err := livekernel.New("qemu:test", g)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := func(prog bpf.Program) string {
		t.Helper()
		out, err := r.Run(prog, bpf.Socket, []kernelabi.Input{kernelabi.NewSkb(make([]byte, 60)), kernelabi.NewSkb(nil)}, nil)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s, %s", out[0].Long(), out[1].Long())
	}
	const crashed = "no outcome (the guest gives no answer: the guest has shut down, or its kernel has crashed"
	good := bpf.Program{{Code: bpf.RetK, K: 0xfedcba98}}
	for i, step := range []struct {
		prog bpf.Program
		want string
	}{
		{good, "4275878552 = 0xfedcba98, 4275878552 = 0xfedcba98"},
		{poison, crashed},
		{good, "4275878552 = 0xfedcba98, 4275878552 = 0xfedcba98"},
		{poison, crashed}, {poison, crashed}, {poison, crashed},
		{good, "3 guests in a row gave no answer: no other is booted"},
	} {
		if got := run(step.prog); !strings.HasPrefix(got, step.want) {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

func TestLastWords(t *testing.T) {
	var w lastWords
	for i := range 20 {
		fmt.Fprintf(&w, "line %d\nhalf of", i)
		io.WriteString(&w, " a line\n\n")
	}
	w.add(strings.Repeat("x", 300) + "\x1b[2J")
	got := w.lines()
	want := []string{"half of a line", "line 17", "half of a line", "line 18", "half of a line", "line 19", "half of a line", strings.Repeat("x", maxWord)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
