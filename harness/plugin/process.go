package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/kjit-project/kjit/harness"
)

const (
	maxLine = 4 << 20 // bytes of an answer; an image of 1 MiB has half of them

	// grace is how long a process has to end by itself, or to be seen to have
	// ended, before it is killed.
	grace = 200 * time.Millisecond
)

// process is a running plugin: lines go in, lines come out. All methods but
// kill belong to one goroutine.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader
	stderr *lastWords

	mu     sync.Mutex // of waited
	waited bool
}

// living are the processes that were not ended yet.
var living struct {
	sync.Mutex
	set  map[*process]struct{}
	over bool
}

// KillAll ends all plugins at once, with all that they have started, for a
// program that a signal is about to end. No plugin can be started any more. It
// may be called from any goroutine.
func KillAll() {
	living.Lock()
	defer living.Unlock()
	living.over = true
	for p := range living.set {
		p.kill()
	}
}

// over reports whether KillAll was called.
func over() bool {
	living.Lock()
	defer living.Unlock()
	return living.over
}

var errOver = errors.New("all plugins were ended")

// start starts a command.
func start(command []string) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	OwnGroup(cmd)
	var files [6]*os.File // of the three pipes: read and write ends
	closeFrom := func(list ...*os.File) {
		for _, f := range list {
			f.Close() // a nil *os.File only returns an error
		}
	}
	for i := 0; i < len(files); i += 2 {
		var err error
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			closeFrom(files[:]...)
			return nil, err
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	p := &process{cmd: cmd, stdin: files[1], stdout: files[2], stderr: hear(files[4])}
	p.lines = bufio.NewReaderSize(p.stdout, 64<<10)

	living.Lock()
	defer living.Unlock()
	err := errOver
	if !living.over {
		err = cmd.Start()
	}
	closeFrom(files[0], files[3], files[5])
	if err != nil {
		closeFrom(p.stdin, p.stdout)
		p.stderr.close()
		return nil, err
	}
	if living.set == nil {
		living.set = map[*process]struct{}{}
	}
	living.set[p] = struct{}{}
	return p, nil
}

// ask sends a line and returns the line that comes back, both without their
// ends. All errors but ctx's and errOver are *harness.Failure; after any, the process is of
// no more use: end it.
func (p *process) ask(ctx context.Context, line []byte, limit time.Duration) ([]byte, error) {
	deadline := time.Now().Add(limit)
	p.stdin.SetWriteDeadline(deadline)
	p.stdout.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() {
		p.stdin.SetWriteDeadline(time.Unix(1, 0))
		p.stdout.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	_, err := p.stdin.Write(append(line, '\n'))
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		// One that does not listen any more may still have something to say.
		var answer []byte
		if answer, err = p.line(); err == nil {
			return answer, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case over():
		return nil, errOver // it is not to blame
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, p.failed(harness.FailureSilence, fmt.Sprintf("no answer within %v", limit))
	case errors.Is(err, errTooLong):
		return nil, p.failed("", err.Error())
	}
	return nil, p.gone(err)
}

var errTooLong = fmt.Errorf("the answer is a line of more than %d MiB", maxLine>>20)

// line reads a line. One that is cut off at the end of the output is none.
func (p *process) line() ([]byte, error) {
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, errTooLong
		}
		switch {
		case err == nil && line == nil:
			return part[:len(part)-1], nil // valid until the next read
		case err == nil:
			line = append(line, part...)
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		line = append(line, part...)
	}
}

// failed is a failure with the last words so far.
func (p *process) failed(name, reason string) error {
	return &harness.Failure{Name: name, Reason: reason, Said: p.stderr.lines()}
}

// gone is the failure of a process that closed its output, mostly because it
// has ended. It ends it.
func (p *process) gone(cause error) error {
	p.stderr.wait(grace)
	state := p.end(0)
	reason := "it closed its output or was killed,"
	if how := fate(state); how != "" {
		reason = "it ended (" + how + ")"
	} else if !errors.Is(cause, io.EOF) {
		reason += ": " + cause.Error()
	}
	return p.failed(harness.FailureCrash, reason+" without an answer")
}

// kill ends the process and all that it has started, but for what has left its
// group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waited {
		KillGroup(p.cmd.Process)
	}
}

// end closes the process's input, gives it some time to end by itself, and
// kills what is left. It may be called again.
func (p *process) end(patience time.Duration) *os.ProcessState {
	p.mu.Lock()
	waited := p.waited
	p.mu.Unlock()
	if waited {
		return p.cmd.ProcessState
	}
	p.stdin.Close()
	if patience > 0 {
		p.stdout.SetReadDeadline(time.Now().Add(patience))
		io.Copy(io.Discard, p.stdout)
	}
	p.kill()
	// It does not return before the process is dead, and the number free.
	p.mu.Lock()
	p.cmd.Wait()
	p.waited = true
	p.mu.Unlock()
	p.stdout.Close()
	p.stderr.close()

	living.Lock()
	defer living.Unlock()
	delete(living.set, p)
	return p.cmd.ProcessState
}
