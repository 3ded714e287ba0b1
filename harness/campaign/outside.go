package campaign

// Finisher makes files of findings, one at a time, for who does a campaign
// otherwise than with [Run]. It serves one goroutine; Close frees its machines.
type Finisher struct{ f *finisher }

// NewFinisher returns one.
func (c *Config) NewFinisher() *Finisher { return &Finisher{newFinisher(c, "")} }

// Finish returns the file of a finding, as small as it gets. It depends on the
// finding alone.
func (f *Finisher) Finish(finding *Finding) (*Report, []byte, error) {
	report, err := f.f.finish(finding)
	if err != nil {
		return nil, nil, err
	}
	file, err := f.f.last.Format()
	return report, file, err
}

// Close frees what the finisher holds.
func (f *Finisher) Close() error { return f.f.close() }

// Differs returns a *SettingsError that names the first thing in which s, those
// of a campaign that is there, are not those that are wanted.
func (s *Settings) Differs(want *Settings) error { return s.differs(want) }
