package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/campaign"
)

type fuzzCmd struct {
	campaignFlags
	ciFlags
	Time time.Duration `placeholder:"DURATION" help:"How long to go on, such as 10m; ranges that have begun are finished (default: until an interrupt)."`
	Runs uint64        `placeholder:"N" help:"How many programs the campaign shall have in all, rounded up to whole ranges (default: no bound)."`
	Jobs int           `short:"j" placeholder:"N" help:"How many ranges to do at once (default: one for each processor). What comes out is the same."`

	settingsFlags
}

func (c *fuzzCmd) Help() string {
	return `Generates programs, finds inputs that take every branch, and compares what the
JITs' code does in the emulator with what the interpreter does. What diverges is
named by JIT, instruction and kind, made smaller, and written to
DIR/findings/NAME.txtar, which kjit replay runs again.

The folder (--state) keeps the campaign: the same command goes on with it, after
an interrupt or a crash as well, and nothing is lost or counted twice. An
interrupt (Ctrl-C) ends it after the ranges that have begun, a second one at
once.

Exit codes: 0 nothing was found, 1 the campaign has findings.`
}

// settingsFlags choose what a campaign is about.
type settingsFlags struct {
	JIT    []string `name:"jit" placeholder:"NAME" help:"JITs to compare with the interpreter, or mutant:FAULT, or exec:COMMAND for one of your own (default linux-3.10-x86_64,kjit-armv5,kjit-armv7)."`
	Kind   string   `placeholder:"KIND" help:"Only programs of this kind: socket or seccomp (default: what the JITs take)."`
	Seed   *uint64  `placeholder:"N" help:"Seed of the programs (default 1)."`
	Inputs int      `placeholder:"N" help:"Most inputs for a program (default 64)."`
	Range  int      `placeholder:"N" help:"Programs in a range, the unit of work (default 256)."`
	Kernel string   `name:"profile" placeholder:"NAME" help:"Kernel that JITs exec:COMMAND emit for (default: what they say, or linux-3.10-x86_64)."`
}

// stateFlag is the folder of a campaign.
type stateFlag struct {
	State string `default:"kjit-fuzz" placeholder:"DIR" help:"Folder of the campaign (default ${default})."`
}

// campaignFlags are what it takes to run something in it.
type campaignFlags struct {
	stateFlag
	pluginFlags
}

// settings returns those of the campaign in the folder, or those that campaigns
// start with.
func (f *stateFlag) settings() (_ campaign.Settings, found bool, err error) {
	s, err := campaign.ReadSettings(f.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return campaign.Default(), false, nil
	case err != nil:
		return campaign.Settings{}, false, badInput(err)
	}
	return *s, true, nil
}

// open opens the folder for a campaign.
func (f *stateFlag) openFolder(s *campaign.Settings) (*campaign.Folder, error) {
	folder, err := campaign.OpenFolder(f.State, s)
	var (
		other  *campaign.SettingsError
		locked *campaign.LockedError
		owner  *campaign.OwnerError
	)
	switch {
	case err == nil:
		return folder, nil
	case errors.As(err, &owner):
		return nil, badInput(fmt.Errorf("--state %w", err))
	case errors.As(err, &other):
		return nil, badInput(fmt.Errorf("%w: leave that out to go on with it, or choose another folder with --state", err))
	case errors.As(err, &locked):
		return nil, environment(err)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, environment(fmt.Errorf("--state: %w: choose a folder that can be written", err))
	}
	return nil, badInput(err)
}

// config finds the targets of a campaign. The context is that of plugins.
func (f *pluginFlags) config(ctx context.Context, s campaign.Settings) (*campaign.Config, error) {
	var targets []campaign.Target
	for _, name := range s.JITs {
		if !usesPlugin(name) {
			if _, err := jitProfile(name); err != nil {
				return nil, badInput(err)
			}
			t, err := campaign.TargetByName(name)
			if err != nil {
				return nil, badInput(err)
			}
			targets = append(targets, t)
			continue
		}
		open := func() (harness.Imager, error) {
			r, err := f.open(ctx, name, s.Profile)
			if err != nil {
				return nil, err // not an Imager that is nil
			}
			r.Rename(name)
			return r, nil
		}
		r, err := open()
		if err != nil {
			return nil, err
		}
		targets = append(targets, campaign.Target{Name: name, Profile: r.Profile(), Open: open})
		if err := r.Close(); err != nil {
			return nil, environment(err)
		}
	}
	cfg, err := campaign.NewConfig(s, targets...)
	if err != nil {
		return nil, badInput(err)
	}
	return cfg, nil
}

func (c *fuzzCmd) Run(ctx context.Context, std streams, global *cli) error {
	s, _, err := c.settings()
	if err != nil {
		return err
	}
	if err := checkEffort(c.Time, &c.Jobs); err != nil {
		return err
	}
	if err := c.ciFlags.check(); err != nil {
		return err
	}
	if err := c.choose(&s); err != nil {
		return err
	}
	// An interrupt is not the end of ranges and plugins.
	whole := context.WithoutCancel(ctx)
	cfg, err := c.config(whole, s)
	if err != nil {
		return err
	}
	folder, err := c.openFolder(&s)
	if err != nil {
		return err
	}
	defer folder.Close()
	patient.Store(true)
	stop := ctx
	if c.Time > 0 {
		var cancel context.CancelFunc
		stop, cancel = context.WithTimeout(ctx, c.Time)
		defer cancel()
	}
	progress := newFuzzProgress(std.err, cfg, ctx)
	sum, err := campaign.Run(whole, cfg, campaign.Options{
		Jobs: c.Jobs, Programs: c.Runs, Folder: folder, Stop: stop, Progress: progress.show,
	})
	progress.close()
	for _, note := range folder.Notes {
		fmt.Fprintf(std.err, "kjit: %s: %s\n", c.State, note)
	}
	if err != nil {
		return environment(err)
	}
	report := newFuzzReport(c.State, cfg, sum)
	if c.ciFlags.wanted() {
		if err := c.ciFlags.write(report.ci()); err != nil {
			return err
		}
	}
	err = report.write(std.out, global.JSON)
	if err == nil && len(sum.Reports) > 0 {
		err = errDiverged
	}
	return err
}

// AfterApply refuses a 0 that somebody wrote: to the fields it means the default,
// which for a time or a number of programs is to go on for ever.
func (c *fuzzCmd) AfterApply(k *kong.Context) error {
	return refuseZero(k, "time", "runs", "inputs", "range")
}

// refuseZero returns an error if one of the flags is there with a 0.
func refuseZero(k *kong.Context, flags ...string) error {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Target.IsZero() && slices.Contains(flags, p.Flag.Name) {
			return badInput(fmt.Errorf("--%s 0: want more than 0", p.Flag.Name))
		}
	}
	return nil
}

// checkEffort checks how long to work and how many ranges to do at once, for which
// 0 becomes the number of processors.
func checkEffort(limit time.Duration, jobs *int) error {
	switch {
	case limit < 0:
		return badInput(fmt.Errorf("--time %v: want more than 0", limit))
	case *jobs < 0:
		return badInput(fmt.Errorf("--jobs %d: want 1 or more", *jobs))
	case *jobs == 0:
		*jobs = processors
	}
	spareThreads()
	return nil
}

// choose puts the flags that are there into the settings.
func (c *settingsFlags) choose(s *campaign.Settings) error {
	s.Version = version()
	if len(c.JIT) > 0 {
		s.JITs = c.JIT
	}
	if c.Kind != "" {
		s.Kind = c.Kind
	}
	if c.Seed != nil {
		s.Seed = *c.Seed
	}
	if c.Inputs != 0 {
		s.Inputs = c.Inputs
	}
	if c.Range != 0 {
		s.Size = c.Range
	}
	if c.Kernel != "" {
		s.Profile = c.Kernel
		if !usesPlugin(s.JITs...) {
			return badInput(fmt.Errorf("--profile is for a JIT %sCOMMAND: the others have their own", execPrefix))
		}
	}
	if err := s.Validate(); err != nil {
		return badInput(err)
	}
	return nil
}
