package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kjit-project/kjit/harness/livekernel"
)

// newInitramfs returns the file system that a guest starts with: the program,
// the console, and where to mount /proc. Errors: *livekernel.UnavailableError,
// and ctx's.
func newInitramfs(ctx context.Context, goarch string) ([]byte, error) {
	program, err := guestProgram(ctx, goarch)
	if err != nil {
		return nil, err
	}
	const (
		dir, file, device = 0o040755, 0o100755, 0o020600
	)
	var a archive
	a.add("dev", dir, 0, 0, nil)
	a.add("dev/console", device, 5, 1, nil)
	a.add("dev/null", device, 1, 3, nil)
	a.add("proc", dir, 0, 0, nil)
	a.add("init", file, 0, 0, program)
	a.add("TRAILER!!!", 0, 0, 0, nil)
	return a.Bytes(), nil
}

// archive is a cpio archive of the "newc" form (Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	bytes.Buffer
	files int
}

// add appends a file; mode is as in struct stat, and major and minor are of the
// device that it is.
func (a *archive) add(name string, mode, major, minor int, data []byte) {
	a.files++
	a.WriteString("070701")
	for _, field := range []int{
		a.files, mode, 0, 0, 1, 0, // inode, mode, uid, gid, links, time
		len(data), 0, 0, major, minor, len(name) + 1, 0, // size, device of the file system, device, name, checksum
	} {
		fmt.Fprintf(a, "%08x", field)
	}
	a.WriteString(name + "\x00")
	a.align()
	a.Write(data)
	a.align()
}

func (a *archive) align() { a.Write(make([]byte, -a.Len()&3)) }

// The guest's program: the package, and what it is called beside kjit.
const (
	guestPackage = "./harness/qemu/guest"
	guestFile    = "kjit-guest-" // and the GOARCH
)

// guestProgram returns the program for guests of an architecture. In a checkout
// of kjit, where this process runs or its executable is, it is built from the
// source. Elsewhere it has to be beside the executable.
func guestProgram(ctx context.Context, goarch string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if here, err := os.Getwd(); err == nil {
		for _, dir := range []string{here, filepath.Dir(self)} {
			if root := checkout(dir); root != "" {
				return buildGuest(ctx, root, goarch)
			}
		}
	}
	file := filepath.Join(filepath.Dir(self), guestFile+goarch)
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, &livekernel.UnavailableError{
			What:   "the program for guests",
			Reason: fmt.Sprintf("%s: %v, and this is no checkout of kjit to build it from", file, errors.Unwrap(err)),
			Mend:   "in a checkout: " + strings.Join(buildEnv(goarch), " ") + " go build -o " + file + " " + guestPackage,
		}
	}
	return program, nil
}

// checkout returns the folder of kjit's source that dir is in, or "".
func checkout(dir string) string {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/kjit-project/kjit\n") {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// buildEnv makes programs that run on every processor of the architecture,
// without libraries.
func buildEnv(goarch string) []string {
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + goarch}
	if goarch == "arm" {
		env = append(env, "GOARM=5")
	}
	return env
}

func buildGuest(ctx context.Context, root, goarch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "kjit-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "init")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, guestPackage)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), buildEnv(goarch)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &livekernel.UnavailableError{
			What:   "the program for guests",
			Reason: strings.TrimSpace(fmt.Sprintf("go build: %v: %s", err, bytes.TrimSpace(said))),
			Mend:   "install Go 1.26 or later from https://go.dev/dl, or mend the source",
		}
	}
	return os.ReadFile(file)
}
