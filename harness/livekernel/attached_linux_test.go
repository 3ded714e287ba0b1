package livekernel

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

func TestSocketFilters(t *testing.T) {
	prog := assemble(t, "ldh [12]; jeq #0x806, yes; ret #0; yes: ret #0x40000")
	pair, err := probe.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	if errno, err := pair.Attach(prog); errno != 0 || err != nil {
		t.Fatal(errno, err)
	}
	want := map[string]string{name(t, pair.To): "AF_UNIX"}
	if fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err == nil {
		defer unix.Close(fd)
		if errno := probe.AttachFilter(fd, prog); errno != 0 {
			t.Fatal(errno)
		}
		want[name(t, fd)] = "AF_PACKET"
	} else {
		t.Logf("without a packet socket: %v", err)
	}

	filters, err := SocketFilters()
	if err != nil {
		t.Logf("our own all the same: %v", err)
	}
	for _, f := range filters {
		family, ok := want[f.Name]
		if !ok {
			continue
		}
		delete(want, f.Name)
		if !strings.Contains(f.Holder, family) || f.Kind != bpf.Socket {
			t.Errorf("%s: %v of %s, want %s", f.Name, f.Kind, f.Holder, family)
		}
		if diff := cmp.Diff(prog, f.Program); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v in %v", want, filters)
	}
	if slices.ContainsFunc(filters, func(f Filter) bool { return f.Name == name(t, pair.From) }) {
		t.Error("the other end has no filter, and one was found")
	}
}

// TestPacketSockets asks for packet sockets alone, as if their processes could
// not be seen.
func TestPacketSockets(t *testing.T) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no packet socket: %v", err)
	}
	defer unix.Close(fd)
	prog := assemble(t, "ldb [23]; ret a")
	if errno := probe.AttachFilter(fd, prog); errno != 0 {
		t.Fatal(errno)
	}
	found := map[uint64]*Filter{}
	if err := packetSockets(found); err != nil {
		t.Skipf("the kernel does not list packet sockets: %v", err)
	}
	for _, f := range found {
		if f.Name == name(t, fd) {
			if diff := cmp.Diff(prog, f.Program); diff != "" {
				t.Error(diff)
			}
			return
		}
	}
	t.Errorf("not found in %v", found)
}

// FuzzPacketMessages: what is no list of sockets ends in an error or in less.
func FuzzPacketMessages(f *testing.F) {
	filter := []byte{28, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 3, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, seed := range [][]byte{
		{}, {3},
		{4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{255, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{20, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		filter, append([]byte{44}, append(filter[1:], 12, 0, 7, 0, 6, 0, 0, 0, 1, 0, 0, 0)...),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found := map[uint64]*Filter{}
		_, err := packetMessages(data, found)
		if len(data) >= 16 && data[1]|data[2]|data[3] == 0 && data[0] < 16 && err == nil {
			t.Errorf("% x: a message shorter than its header is no error", data)
		}
		for inode, f := range found {
			if len(f.Program) == 0 || 8*len(f.Program) > len(data) {
				t.Errorf("% x: socket %d: %d instructions", data, inode, len(f.Program))
			}
		}
	})
}

// name is that of a socket of this process.
func name(t *testing.T, fd int) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return socketFilter(st.Ino, "", nil).Name
}

// filteredEnv makes this test binary a process with two filters that waits for
// its standard input to end.
const filteredEnv = "KJIT_TEST_FILTERED"

func init() {
	if os.Getenv(filteredEnv) != "" {
		runtime.LockOSThread() // to the thread that has the number of the process
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(filteredEnv) != "" {
		if probe.NoNewPrivs() != nil {
			os.Exit(1)
		}
		for _, f := range filteredWith() {
			if _, errno := probe.Install(f, 0); errno != 0 {
				os.Exit(1)
			}
		}
		os.Stdout.WriteString("ready\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func filteredWith() []bpf.Program {
	return []bpf.Program{
		{{Code: bpf.LdWAbs, K: 0}, {Code: bpf.JeqK, JF: 1, K: 0x1234}, {Code: bpf.RetK, K: 0x00050001}, {Code: bpf.RetK, K: 0x7fff0000}},
		{{Code: bpf.RetK, K: 0x7fff0000}},
	}
}

func TestProcessFilters(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), filteredEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if n, _ := out.Read(make([]byte, 16)); n == 0 {
		t.Skipf("seccomp(2) is not to be had here: %v", cmd.Wait())
	}
	filters, err := ProcessFilters(cmd.Process.Pid)
	skipUnavailable(t, err)
	var got []bpf.Program
	for _, f := range filters {
		got = append(got, f.Program)
	}
	if diff := cmp.Diff(filteredWith(), got); diff != "" {
		t.Error(diff)
	}
	// It goes on as if nothing had been.
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
}

func TestProcessFiltersErrors(t *testing.T) {
	if _, err := ProcessFilters(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: %v", err)
	}
	var none *UnavailableError
	if _, err := ProcessFilters(os.Getpid()); !errors.As(err, &none) {
		t.Errorf("this process: %v", err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	filters, err := ProcessFilters(cmd.Process.Pid)
	skipUnavailable(t, err)
	if len(filters) != 0 {
		t.Errorf("a process without filters has %v", filters)
	}
}
