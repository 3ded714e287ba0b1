package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/plugin"
	"github.com/kjit-project/kjit/kernelabi"
)

// execPrefix in front of a JIT's name makes it a command: an external JIT.
const execPrefix = "exec:"

// pluginFlags are about external JITs.
type pluginFlags struct {
	PluginTime time.Duration `name:"plugin-time" default:"10s" placeholder:"DURATION" help:"How long a JIT exec:COMMAND may take for one program (default ${default})."`
}

// usesPlugin reports whether a JIT is a command.
func usesPlugin(jits ...string) bool {
	return slices.ContainsFunc(jits, func(name string) bool { return strings.HasPrefix(name, execPrefix) })
}

// open starts the external JIT that name, with the prefix, names, for the named
// profile, or for what it says itself if that is "".
func (f *pluginFlags) open(ctx context.Context, name, profile string, options ...emulator.Option) (*plugin.Runner, error) {
	command, err := plugin.ParseCommand(strings.TrimPrefix(name, execPrefix))
	if err != nil {
		return nil, badInput(fmt.Errorf("--jit: %w", err))
	}
	if f.PluginTime <= 0 {
		return nil, badInput(fmt.Errorf("--plugin-time %v: want more than 0", f.PluginTime))
	}
	o := plugin.Options{Limit: f.PluginTime, Machine: options}
	if profile != "" {
		if o.Profile, err = kernelabi.ProfileByName(profile); err != nil {
			return nil, badInput(fmt.Errorf("--profile: %w", err))
		}
	}
	endPlugins()
	r, err := plugin.New(ctx, command, o)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: name a program that speaks the protocol of docs/plugin.md", err)
	}
	return nil, badInput(fmt.Errorf("--jit %s%w", execPrefix, err))
}

// distinct gives a plugin another name while one of the runners has its own: a
// JIT may well be compared with another build of itself.
func distinct(r *plugin.Runner, runners []harness.Runner) {
	name := r.Name()
	for n := 2; slices.ContainsFunc(runners, func(o harness.Runner) bool { return o.Name() == r.Name() }); n++ {
		r.Rename(fmt.Sprintf("%s#%d", name, n))
	}
}

// endPlugins sees to it that signals which end kjit end the plugins as well.
// They are in process groups of their own, so that no terminal ends them.
var endPlugins = sync.OnceFunc(func() {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // as nohup has it
			signal.Notify(signals, s)
		}
	}
	go func() {
		s := <-signals
		plugin.KillAll()
		signal.Reset(s)
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Signal(s)
		}
	}()
})
