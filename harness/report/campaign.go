package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/emulator"
	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/repro"
)

// Campaign is one of kjit fuzz.
type Campaign struct {
	Name    string
	Facts   []Fact
	Targets []Target
	Same    string // share of the runs that ended with the commonest value
	Map     *Map
	Growth  []*Growth
	History []HistoryRow
	Reports []*Listed
	More    string // what is not kept
}

// Target is a JIT of a campaign with its counts.
type Target struct {
	Name, Agree, Diverge, Undefined, NotRun, Why string
	Executed                                     string // native instructions
	Rules, Edges, Full                           string
	Bad                                          bool
}

// HistoryRow is how far a campaign was.
type HistoryRow struct {
	Programs, Corpus, Findings string
	Targets                    []string // rules, edges
}

// Listed is a finding in the list of all.
type Listed struct {
	*Finding
	Programs string // that showed it
	Told     bool   // further down
}

// addFolder adds a campaign's folder, or one of findings.
func (r *Report) addFolder(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "campaign.json")); err == nil {
		return r.addCampaign(dir)
	}
	// Not filepath.Glob: the folder's name may look like a pattern.
	files, err := fs.Glob(os.DirFS(dir), "*"+repro.Extension)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return &Error{dir, 0, "neither the folder of a campaign nor one of findings (.txtar)"}
	}
	for _, file := range files {
		if err := r.addRepro(filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// addCampaign adds the campaign in a folder, which may be at work.
func (r *Report) addCampaign(dir string) error {
	settings, s, err := campaign.Look(dir)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			return &Error{path.Path, 0, path.Err.Error()}
		}
		return &Error{dir, 0, err.Error()}
	}
	c := &Campaign{Name: line(dir), Same: percent(uint64(1e6*s.Same()), 1e6)}
	fact := func(name, format string, args ...any) {
		c.Facts = append(c.Facts, Fact{name, line(fmt.Sprintf(format, args...))})
	}
	fact("seed", "%d", settings.Seed)
	fact("programs", "%s of %.1f instructions on average", thousands(s.Programs), float64(s.Insns)/float64(max(s.Programs, 1)))
	fact("comparisons", "%s on %s", thousands(s.Pairs), count(s.Inputs, "input"))
	fact("work", "%s of %d programs, epoch %d", count(s.Ranges, "range"), settings.Size, s.Frozen().Epoch)
	fact("working corpus", "%s", count(len(s.Corpus()), "program"))
	fact("commonest result", "ends %s of the runs", c.Same)
	if settings.Kind != "" {
		fact("kind of programs", "%s alone", settings.Kind)
	}
	for i, name := range settings.JITs {
		t := &s.Targets[i]
		_, rules, edges := s.Coverage(i)
		c.Targets = append(c.Targets, Target{
			Name: line(name), Agree: thousands(t.Agree), Diverge: thousands(t.Diverge), Undefined: thousands(t.Undefined), NotRun: thousands(t.NotRun),
			Why: line(t.Why), Executed: thousands(t.Executed), Rules: thousands(rules), Edges: thousands(edges),
			Full: percent(uint64(edges), emulator.Edges), Bad: t.Diverge > 0,
		})
	}
	c.Map = newMap(settings, s, campaign.ReadRefused(dir))
	c.Growth, c.History = growth(settings.JITs, s.History())
	for _, f := range s.Findings() {
		listed := &Listed{Programs: thousands(f.Count)}
		file := filepath.Join(dir, "findings", f.Signature().String()+repro.Extension)
		if found, err := repro.Read(file); err == nil {
			listed.Finding = newFinding(found, dir, file, settings.Profile)
		} else {
			listed.Finding = campaignFinding(f, settings.Seed, dir, settings.Profile)
		}
		listed.Finding.fact("programs", "diverge so in "+count(f.Count, "program")+" that were looked at closely")
		r.addFinding(listed.Finding)
		if len(c.Reports) < maxFindings {
			c.Reports = append(c.Reports, listed)
		}
	}
	if s.More > 0 {
		c.More = "divergences of still other signatures in " + count(s.More, "program")
	}
	r.campaigns = append(r.campaigns, c)
	src := Source{Name: c.Name, What: "campaign", Version: line(settings.Version), Bad: len(s.Findings()) > 0,
		Counts: fmt.Sprintf("%s, %s", count(s.Programs, "program"), count(s.Pairs, "comparison")), Verdict: "nothing found"}
	if src.Bad {
		src.Verdict = count(len(s.Findings()), "finding")
	}
	r.sources = append(r.sources, src)
	return nil
}

// addRepro adds the file of a divergence.
func (r *Report) addRepro(file string) error {
	found, err := repro.Read(file)
	if err != nil {
		var bad *repro.Error
		if errors.As(err, &bad) {
			return &Error{file, bad.Line, bad.Reason}
		}
		return err
	}
	r.addFinding(newFinding(found, file, file, ""))
	s := Source{Name: line(file), What: "recorded divergence", Counts: count(len(found.Program), "instruction"), Verdict: string(found.Expect), Bad: found.Expect == repro.Diverge}
	switch found.Expect {
	case repro.Diverge:
		s.Verdict = "diverges, as recorded"
	default:
		s.Verdict = "mended"
	}
	r.sources = append(r.sources, s)
	return nil
}
