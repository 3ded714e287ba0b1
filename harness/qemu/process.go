package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kjit-project/kjit/harness/qemu/wire"
)

// commandLine is what all kernels are told. A kernel that panics ends QEMU.
const commandLine = "quiet panic=-1 rdinit=/init "

// process is a QEMU that runs.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	client *wire.Client
	log    lastWords
	file   string        // the initramfs, until it was read
	exited chan struct{} // closed when it has ended

	late string // it was killed for that: "nothing within 2m0s"
}

// start starts QEMU with a kernel.
func start(ctx context.Context, m *machine, kernel string, initramfs []byte) (*process, error) {
	path, err := m.find()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "kjit-initramfs-")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Write(initramfs); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	args := slices.Concat(m.args, []string{
		"-accel", "tcg", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-net", "none",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", kernel, "-initrd", file.Name(), "-append", commandLine + m.append,
	})
	if m.dtb != "" {
		args = append(args, "-dtb", m.deviceTree(kernel))
	}
	p := &process{cmd: exec.CommandContext(ctx, path, args...), file: file.Name(), exited: make(chan struct{})}
	p.cmd.Stderr = &p.log
	tie(p.cmd)
	if err := p.run(); err != nil {
		return nil, errors.Join(err, os.Remove(p.file))
	}
	return p, nil
}

// run starts the command and has somebody wait for its end.
func (p *process) run() (err error) {
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	p.stdout, p.cmd.Stdout = stdout, theirs
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // what tie does is about the thread that starts it
		err := p.cmd.Start()
		theirs.Close()
		started <- err
		if err == nil {
			p.cmd.Wait()
			os.Remove(p.file) // of a guest that did not boot
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		stdout.Close()
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}

// dial waits for the guest's first words.
func (p *process) dial(limit time.Duration) (*wire.Client, error) {
	err := p.within(limit, func() (err error) {
		p.client, err = wire.Dial(p.stdout, p.stdin, p.log.add)
		return err
	})
	if err == nil {
		os.Remove(p.file)
	}
	return p.client, err
}

// within does something that ends with the process, and ends the process after
// the limit.
func (p *process) within(limit time.Duration, do func() error) error {
	timer := time.AfterFunc(limit, p.kill)
	err := do()
	if !timer.Stop() {
		p.late = fmt.Sprintf("nothing within %v", limit)
	}
	return err
}

func (p *process) kill() { p.cmd.Process.Kill() }

// end ends the process, and says how it ended if not by our hand.
func (p *process) end() string {
	if p.late == "" {
		// One that has gone is about to exit.
		select {
		case <-p.exited:
		case <-time.After(200 * time.Millisecond):
		}
	}
	p.kill()
	<-p.exited
	p.stdout.Close()
	switch state := p.cmd.ProcessState; {
	case p.late != "":
		return p.late
	case state.Exited() && state.ExitCode() == 0:
		return "the guest has shut down, or its kernel has crashed"
	case state.Exited():
		return "QEMU ended: " + state.String()
	}
	return ""
}

// lastWords keeps the last lines of a guest's kernel, and of QEMU.
type lastWords struct {
	mu   sync.Mutex
	last []string
	rest string // of a line that goes on
}

const (
	maxWords = 8   // lines
	maxWord  = 200 // characters of a line
)

func (w *lastWords) add(line string) {
	line = strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f {
			return -1
		}
		return c
	}, line[:min(len(line), maxWord)]))
	if line == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, line)
	w.last = w.last[max(0, len(w.last)-maxWords):]
}

// Write takes QEMU's messages.
func (w *lastWords) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, rest, whole := strings.Cut(w.rest, "\n")
		if !whole {
			w.rest = w.rest[:min(len(w.rest), maxWord)]
			return len(p), nil
		}
		w.add(line)
		w.rest = rest
	}
}

func (w *lastWords) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.last)
}
