package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/repro"
)

// Bounds of texts, in bytes, and of lists.
const (
	maxText    = 1000
	maxName    = 1000 // of a JIT: exec: has a command
	maxHistory = 240
	maxSmall   = 64 << 10 // of a message of the control and worker buckets
)

// Spec is what a campaign is: it is written once, and who does not fit is
// refused.
type Spec struct {
	Settings campaign.Settings `json:"settings"`

	// Probe is the sum of what a tiny range gives with the generator, the
	// emitters and the emulator of who began the campaign. Two builds that name
	// the same version, or two commands of one name, may differ in it.
	Probe string `json:"probe"`
}

// ID names the campaign in its messages.
func (s *Spec) ID() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Validate returns what is wrong with a spec. Its format and version may be
// others than ours: see Fits.
func (s *Spec) Validate() error {
	c := s.Settings
	c.Format = campaign.Format
	if err := c.Validate(); err != nil {
		return badMessage{err}
	}
	for _, name := range append([]string{c.Version, c.Profile}, c.JITs...) {
		if len(name) > maxName {
			return bad("a name of %d bytes", len(name))
		}
	}
	if len(s.Probe) != 2*sha256.Size {
		return bad("the probe is none")
	}
	return nil
}

// MismatchError is a kjit that is not what the campaign is done with.
type MismatchError struct{ What, Campaign, Ours string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the campaign is done with %s %s, and this worker has %s: all of a campaign must have the same", e.What, e.Campaign, e.Ours)
}

// Fits returns a *MismatchError unless the campaign is for a kjit of that
// version.
func (s *Spec) Fits(version string) error {
	return s.fits(campaign.Format, version)
}

func (s *Spec) fits(format int, version string) error {
	if s.Settings.Format != format {
		return &MismatchError{"format", fmt.Sprint(s.Settings.Format), fmt.Sprint(format)}
	}
	if s.Settings.Version != version {
		return &MismatchError{"version", quote(s.Settings.Version), quote(version)}
	}
	return nil
}

// fitsJITs returns a *MismatchError unless the campaign is against those JITs.
func (s *Spec) fitsJITs(names []string) error {
	if !slices.Equal(s.Settings.JITs, names) {
		return &MismatchError{"JITs", fmt.Sprintf("%q", s.Settings.JITs), fmt.Sprintf("%q", names)}
	}
	return nil
}

// fitsProbe returns a *MismatchError unless the campaign is for what gives that
// probe.
func (s *Spec) fitsProbe(probe string) error {
	if s.Probe != probe {
		return &MismatchError{"emitters that give", s.Probe[:12], probe[:12]}
	}
	return nil
}

// quote makes one line of a text from anywhere that no terminal acts upon.
func quote(text string) string { return fmt.Sprintf("%q", cut(text, 200)) }

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most-3] + "..."
	}
	return text
}

// Mode is what a campaign should do.
type Mode string

const (
	Running  Mode = "running"
	Paused   Mode = "paused"   // ranges that have begun are finished
	Stopped  Mode = "stopped"  // so they are, and then everybody goes home
	Finished Mode = "finished" // all of Control.Ranges are done
)

// Control is what the campaign is told to do.
type Control struct {
	Mode   Mode   `json:"mode"`
	Ranges uint64 `json:"ranges,omitempty"` // how many in all; 0: no bound
}

// Validate returns what is wrong with it.
func (c *Control) Validate() error {
	if !slices.Contains([]Mode{Running, Paused, Stopped, Finished}, c.Mode) || c.Ranges > maxNumber {
		return bad("no control: mode %.20q, %d ranges", c.Mode, c.Ranges)
	}
	return nil
}

// Ended reports whether nobody has to wait for more work.
func (c *Control) Ended() bool { return c.Mode == Stopped || c.Mode == Finished }

// Poison is a range, or a finding to be made smaller, that is set aside.
type Poison struct {
	Range      uint64 `json:"range"`
	Deliveries uint64 `json:"deliveries"`      // so many workers were given it, and none was done
	Error      string `json:"error,omitempty"` // of the last that could say one
}

// Validate returns what is wrong with it.
func (p *Poison) Validate() error {
	if p.Range > maxNumber || p.Deliveries < MaxDeliveries || len(p.Error) > maxText {
		return bad("no poison")
	}
	return nil
}

// Heartbeat is what a worker says of itself.
type Heartbeat struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Format  int       `json:"format"`
	JITs    []string  `json:"jits"`
	Jobs    int       `json:"jobs"`
	Began   time.Time `json:"began"`
	Seen    time.Time `json:"seen"`
	Mode    Mode      `json:"mode"`

	Ranges   uint64  `json:"ranges"` // done
	Programs uint64  `json:"programs"`
	Pairs    uint64  `json:"pairs"`
	Rate     float64 `json:"programs_per_second"` // lately
	Shrunk   uint64  `json:"shrunk"`
	Again    uint64  `json:"again"`    // ranges that another had done already
	Differ   uint64  `json:"differ"`   // of those, with another result: a defect
	Junk     uint64  `json:"junk"`     // messages that were none
	Messages uint64  `json:"messages"` // that it sent
	Bytes    uint64  `json:"bytes"`
	Error    string  `json:"error,omitempty"` // the last
}

// Validate returns what is wrong with a heartbeat.
func (h *Heartbeat) Validate() error {
	switch {
	case !isWord(h.ID, 80, "_-"), len(h.Host) > maxText, len(h.Version) > maxName, len(h.Error) > maxText,
		len(h.JITs) > campaign.MaxTargets, h.Jobs < 0, h.Jobs > 1<<16:
		return bad("no heartbeat")
	}
	for _, name := range h.JITs {
		if len(name) > maxName {
			return bad("no heartbeat: a name of %d bytes", len(name))
		}
	}
	return nil
}

// Fits returns a *MismatchError if a worker is not of the campaign.
func (h *Heartbeat) Fits(s *Spec) error {
	if err := s.fits(h.Format, h.Version); err != nil {
		return err
	}
	return s.fitsJITs(h.JITs)
}

// rangeWork is a message of the work queue; so is shrinkWork.
type rangeWork struct {
	ID    string `json:"id"`
	Range uint64 `json:"range"`
}

type shrinkWork struct {
	ID   string `json:"id"`
	Case uint64 `json:"case"`
}

// Entry is a finding in its bucket: the first divergence of its signature, and
// what is left of it when it is made smaller.
type Entry struct {
	Finding campaign.Finding `json:"finding"` // with a count of 1: counts are in the state
	Final   bool             `json:"final,omitempty"`

	// Of a final one:
	File   string `json:"file,omitempty"` // a file that kjit replay runs
	Story  string `json:"story,omitempty"`
	Insns  int    `json:"insns,omitempty"`
	Bytes  int    `json:"bytes,omitempty"` // of the packet
	Shows  bool   `json:"shows,omitempty"`
	Shrunk bool   `json:"shrunk,omitempty"`
}

// Validate returns what is wrong with an entry of a campaign.
func (e *Entry) Validate(s *campaign.Settings) error {
	if err := validFinding(e.Finding, s); err != nil {
		return badMessage{err}
	}
	if e.Insns < 0 || e.Insns > bpf.MaxInsns || e.Bytes < 0 || len(e.Story) > 4*maxText {
		return bad("no finding")
	}
	if e.File == "" {
		return nil
	}
	r, err := repro.Parse("finding", []byte(e.File))
	if err != nil {
		return badMessage{err}
	}
	if sig := e.Finding.Signature(); r.JIT != sig.Runner || r.Rule != sig.Rule || r.Divergence != sig.Kind {
		return bad("%s with a file of %s", sig, r.Signature())
	}
	return nil
}

// better orders entries of one signature: what was made smaller before what was
// not, of those the smaller before the larger, and of all the earlier before the
// later, so that what is made smaller is the same whoever wrote first.
func (e *Entry) better(o *Entry) bool {
	rank := func(e *Entry) int {
		switch {
		case e.Final && e.Shrunk:
			return 0
		case e.Final && e.Shows:
			return 1
		case e.Final:
			return 2
		}
		return 3
	}
	if !e.Final && !o.Final {
		return e.Finding.Case < o.Finding.Case
	}
	return cmp.Or(cmp.Compare(rank(e), rank(o)), cmp.Compare(e.Insns, o.Insns), cmp.Compare(e.Bytes, o.Bytes),
		cmp.Compare(e.Finding.Case, o.Finding.Case), cmp.Compare(len(e.File), len(o.File)), cmp.Compare(e.File, o.File)) < 0
}

// validFinding checks a finding as one of a result is.
func validFinding(f campaign.Finding, s *campaign.Settings) error {
	f.Count = 1
	r := emptyResult(f.Case/uint64(s.Size), s)
	r.Programs, r.Findings = uint64(s.Size), []campaign.Finding{f}
	return r.Validate(s)
}

// emptyResult stands for a range of which nothing is known.
func emptyResult(r uint64, s *campaign.Settings) *campaign.Result {
	return &campaign.Result{Range: r, Targets: make([]campaign.Tally, len(s.JITs)), Coverage: make(engine.Features, len(s.JITs))}
}

// parseState reads a state that came from the network.
func parseState(data []byte, s *campaign.Settings) (*campaign.State, error) {
	state, err := campaign.ParseState(data, s)
	if err != nil {
		return nil, badMessage{err}
	}
	if state.Next > maxNumber {
		return nil, bad("a state of %d ranges", state.Next)
	}
	for _, e := range state.Corpus() {
		r := emptyResult(e.Case/uint64(s.Size), s)
		e.Features = make(engine.Features, len(s.JITs))
		r.Programs, r.Corpus = uint64(s.Size), []campaign.Entry{e}
		if err := r.Validate(s); err != nil {
			return nil, badMessage{err}
		}
	}
	if len(state.Findings()) > campaign.MaxSignatures {
		return nil, bad("a state with %d findings", len(state.Findings()))
	}
	for _, f := range state.Findings() {
		if err := validFinding(*f, s); err != nil {
			return nil, badMessage{err}
		}
	}
	return state, nil
}
