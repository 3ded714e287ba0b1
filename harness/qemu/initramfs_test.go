package qemu

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entries reads a newc archive, by the kernel's description of it.
func entries(t *testing.T, data []byte) (list []string, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	take := func(n int) []byte {
		if n > len(data) {
			t.Fatalf("%d bytes are missing at the end", n-len(data))
		}
		var part []byte
		part, data = data[:n], data[n:]
		return part
	}
	size := len(data)
	padded := func(n int) []byte {
		part := take(n)
		for (size-len(data))%4 != 0 {
			take(1)
		}
		return part
	}
	for {
		if magic := take(6); string(magic) != "070701" {
			t.Fatalf("magic %q", magic)
		}
		var field [13]int
		for i := range field {
			n, err := strconv.ParseUint(string(take(8)), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			field[i] = int(n)
		}
		name := string(bytes.TrimSuffix(padded(field[11]), []byte{0}))
		files[name] = padded(field[6])
		if name == "TRAILER!!!" {
			if len(data) > 0 {
				t.Errorf("%d bytes behind the end", len(data))
			}
			return list, files
		}
		list = append(list, fmt.Sprintf("%s %o device %d,%d", name, field[1], field[9], field[10]))
	}
}

// Both programs for guests can be built, and stand on their own.
func TestInitramfs(t *testing.T) {
	for goarch, machine := range map[string]elf.Machine{"arm": elf.EM_ARM, "amd64": elf.EM_X86_64} {
		data, err := newInitramfs(t.Context(), goarch)
		if err != nil {
			t.Fatal(err)
		}
		list, files := entries(t, data)
		want := []string{
			"dev 40755 device 0,0", "dev/console 20600 device 5,1", "dev/null 20600 device 1,3",
			"proc 40755 device 0,0", "init 100755 device 0,0",
		}
		if diff := cmp.Diff(want, list); diff != "" {
			t.Error(diff)
		}
		f, err := elf.NewFile(bytes.NewReader(files["init"]))
		if err != nil {
			t.Fatal(err)
		}
		if libs, err := f.ImportedLibraries(); f.Machine != machine || len(libs) > 0 || err != nil {
			t.Errorf("%v that needs %v, %v", f.Machine, libs, err)
		}
	}
}

func TestCheckout(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := checkout(deep); got != "" {
		t.Errorf("no module at all: %q", got)
	}
	write("go.mod", "module github.com/kjit-project/kjit\n\ngo 1.26\n")
	if got := checkout(deep); got != dir {
		t.Errorf("kjit's module: %q", got)
	}
	write("a/go.mod", "module example.org/other\n")
	if got := checkout(deep); got != dir {
		t.Errorf("another module inside kjit's: %q", got)
	}
	if got := strings.Join(buildEnv("arm"), " "); got != "CGO_ENABLED=0 GOOS=linux GOARCH=arm GOARM=5" {
		t.Error(got)
	}
}
