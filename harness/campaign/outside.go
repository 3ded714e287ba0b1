package campaign

// Finisher makes files of findings, one at a time, for who does a campaign
// otherwise than with [Run]. It serves one goroutine; Close frees its machines.
type Finisher struct{ f *finisher }

// NewFinisher returns one that writes into a folder.
func (c *Config) NewFinisher(dir string) *Finisher { return &Finisher{newFinisher(c, dir)} }

// Finish writes the file of a finding, as small as it gets. What is reported
// depends on the finding alone.
func (f *Finisher) Finish(finding *Finding) (*Report, error) { return f.f.finish(finding) }

// Close frees what the finisher holds.
func (f *Finisher) Close() error { return f.f.close() }

// Differs returns a *SettingsError that names the first thing in which s, those
// of a campaign that is there, are not those that are wanted.
func (s *Settings) Differs(want *Settings) error { return s.differs(want) }
