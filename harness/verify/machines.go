package verify

import (
	"errors"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/kernelabi"
)

// machines keeps runners between records, one per profile. Those for outcomes
// that were measured are apart: in the measurements there was a little readable
// memory behind packets.
type machines struct {
	jits   map[jitKey]*harness.JIT
	images map[string]*harness.Image
}

// jitKey tells runners apart.
type jitKey struct {
	profile  string
	measured bool
}

// measuredTailroom is how many bytes behind a packet could be read where the
// outcomes of records were measured: the ARM record of a packet of one byte
// gives a word, that of an access 12 bytes behind a packet a crash.
const measuredTailroom = 3

// runner returns the runner of a built-in profile, for measured outcomes or for
// those that a correct kernel has.
func (m *machines) runner(profile string, measured bool) (*harness.JIT, error) {
	key := jitKey{profile, measured}
	if r, ok := m.jits[key]; ok {
		return r, nil
	}
	p, err := kernelabi.ProfileByName(profile)
	if err != nil {
		return nil, err
	}
	var options []emulator.Option
	if measured {
		options = append(options, emulator.WithTailroom(measuredTailroom))
	}
	r, err := harness.NewJIT(p, options...)
	if err != nil {
		return nil, err
	}
	if m.jits == nil {
		m.jits = map[jitKey]*harness.JIT{}
	}
	m.jits[key] = r
	return r, nil
}

// foreign returns the runner of an image that somebody else made, ready to run.
// What it calls that is not emulated is a reason to skip it.
func (m *machines) foreign(img *kernelabi.Image) (*harness.Image, error) {
	runner := m.images[img.Profile.Name]
	if runner == nil {
		var err error
		if runner, err = harness.NewImage(img.Profile.Name, img); err != nil {
			return nil, err
		}
		if m.images == nil {
			m.images = map[string]*harness.Image{}
		}
		m.images[img.Profile.Name] = runner
	} else if err := runner.Switch(img); err != nil {
		return nil, err
	}
	var missing *harness.MissingError
	if err := runner.Prepare(); errors.As(err, &missing) {
		return nil, skipped(missing.Error())
	} else if err != nil {
		return nil, err
	}
	return runner, nil
}

func (m *machines) close() {
	for _, r := range m.jits {
		r.Close()
	}
	for _, r := range m.images {
		r.Close()
	}
}
