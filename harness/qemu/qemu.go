// Package qemu has other kernels than the running one as runners: it boots them
// in QEMU, with a program of kjit's as their only process (harness/qemu/guest),
// and asks that over the console. Programs are judged as by livekernel, with the
// same limits: what a packet of an AF_UNIX socket has not cannot be given.
package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/livekernel"
	"github.com/kjit-project/kjit/harness/livekernel/probe"
)

// Time limits, several times what a slow host takes without KVM.
const (
	defaultBoot   = 3 * time.Minute
	defaultAnswer = 2 * time.Minute
)

// maxCrashes is after how many guests in a row that answered nothing no other is
// booted.
const maxCrashes = 3

// Options are about a guest. The zero value is good.
type Options struct {
	Boot   time.Duration // until its first words; 0: 3 minutes
	Answer time.Duration // for one request, that is, some program on some inputs; 0: 2 minutes
}

// Runner is a kernel in QEMU.
type Runner struct {
	*livekernel.Runner
	guest *guest
}

// JIT reports whether the kernel compiles programs. One without a JIT
// interprets them.
func (r *Runner) JIT() bool { return r.guest.system.JIT != "" && r.guest.system.JIT != "0" }

// Open boots the kernel in a file, a bzImage or an ELF file for x86_64 or a
// zImage for ARM, and returns it as a runner named by its release,
// "qemu:6.1.0-50-armmp". When ctx ends, so does QEMU. Errors: *KernelError,
// *livekernel.UnavailableError, *harness.Failure for a kernel that does not
// boot, and ctx's.
func Open(ctx context.Context, kernel string, o Options) (*Runner, error) {
	m, err := machineFor(kernel)
	if err != nil {
		return nil, err
	}
	if _, err := m.find(); err != nil {
		return nil, err
	}
	initramfs, err := newInitramfs(ctx, m.goarch)
	if err != nil {
		return nil, err
	}
	o.Boot, o.Answer = cmp.Or(o.Boot, defaultBoot), cmp.Or(o.Answer, defaultAnswer)
	g := &guest{ctx: ctx, machine: m, kernel: kernel, initramfs: initramfs, Options: o}
	if err := g.boot(); err != nil {
		return nil, err
	}
	r, err := livekernel.New("qemu:"+g.system.Release, g)
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return &Runner{r, g}, nil
}

// guest is a kernel in QEMU as a probe.Kernel. One that crashes is booted again
// for the next request.
type guest struct {
	Options
	ctx       context.Context
	machine   *machine
	kernel    string
	initramfs []byte

	system  probe.System
	process *process // nil after a crash
	crashes int      // in a row
}

// boot starts the guest.
func (g *guest) boot() error {
	p, err := start(g.ctx, g.machine, g.kernel, g.initramfs)
	if err != nil {
		return err
	}
	client, err := p.dial(g.Boot)
	if err != nil {
		return g.failure(p, "the kernel does not boot", err)
	}
	g.process, g.system = p, client.System()
	return nil
}

// ask asks the guest, which is ended if it does not answer.
func (g *guest) ask(question func(probe.Kernel) error) error {
	if g.process == nil {
		if g.crashes >= maxCrashes {
			return fmt.Errorf("%d guests in a row gave no answer: no other is booted", g.crashes)
		}
		if err := g.boot(); err != nil {
			return err
		}
	}
	p := g.process
	err := p.within(g.Answer, func() error { return question(p.client) })
	if err == nil {
		g.crashes = 0
		return nil
	}
	g.process = nil
	g.crashes++
	return g.failure(p, "the guest gives no answer", err)
}

// failure ends the process and returns the *harness.Failure of what went wrong
// there, or ctx's error.
func (g *guest) failure(p *process, what string, err error) error {
	how := p.end()
	if g.ctx.Err() != nil {
		return g.ctx.Err()
	}
	reason := fmt.Sprintf("%s: %s", what, cmp.Or(how, err.Error()))
	if last := p.log.lines(); len(last) > 0 {
		reason += "; last on its console: " + strings.Join(last, " | ")
	}
	return &harness.Failure{Reason: reason}
}

func (g *guest) System() probe.System { return g.system }

func (g *guest) Packets(prog bpf.Program, packets [][]byte) (values *probe.Values, err error) {
	err = g.ask(func(k probe.Kernel) error {
		values, err = k.Packets(prog, packets)
		return err
	})
	return values, err
}

func (g *guest) Calls(calls *probe.Calls) (values *probe.Values, err error) {
	err = g.ask(func(k probe.Kernel) error {
		values, err = k.Calls(calls)
		return err
	})
	return values, err
}

// Close ends QEMU.
func (g *guest) Close() error {
	if g.process != nil {
		g.process.kill()
		g.process.end()
		g.process = nil
	}
	return nil
}
