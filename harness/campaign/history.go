package campaign

// Point is how far a campaign was at the end of an epoch.
type Point struct {
	Programs uint64   `json:"programs"`
	Corpus   int      `json:"corpus"` // programs
	Findings int      `json:"findings"`
	Targets  []Growth `json:"targets"`
}

// Growth is what a target had shown then.
type Growth struct {
	Rules int `json:"rules"`
	Edges int `json:"edges"`
}

// maxHistory bounds the points that a campaign keeps. Of more, every second one
// is forgotten.
const maxHistory = 256

// History returns how the campaign grew, oldest first. It is not to be changed.
// Campaigns of earlier versions have none.
func (s *State) History() []Point { return s.history }

// note adds a point at the end of an epoch.
func (s *State) note() {
	p := Point{Programs: s.Programs, Corpus: len(s.corpus), Findings: len(s.order)}
	for i := range s.Targets {
		_, rules, edges := s.Coverage(i)
		p.Targets = append(p.Targets, Growth{rules, edges})
	}
	if s.history = append(s.history, p); len(s.history) < maxHistory {
		return
	}
	// The last stays.
	var kept []Point
	for i := 1; i < len(s.history); i += 2 {
		kept = append(kept, s.history[i])
	}
	s.history = kept
}
