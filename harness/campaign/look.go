package campaign

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/harness/engine"
)

// Features returns what the targets have shown.
func (s *State) Features() engine.Features { return s.coverage.Features() }

// Look returns the settings and the state of the campaign in a folder without
// changing anything there: while another process works on it, too, and where
// nothing can be written. Lines of the journal that are damaged are passed over:
// whoever opens the folder does their ranges again. Errors: an *OwnerError where
// the campaign is in a server's streams.
func Look(dir string) (*Settings, *State, error) {
	if err := checkNoStreams(dir); err != nil {
		return nil, nil, err
	}
	settings, err := ReadSettings(dir)
	if err != nil {
		return nil, nil, err
	}
	// The journal first: if an epoch ends between the two, the state has what was
	// read here as well.
	journal, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	s, err := readState(filepath.Join(dir, stateFile), settings)
	if err != nil {
		return nil, nil, err
	}
	results, drops := map[uint64]*Result{}, map[uint64][]uint64{}
	for text := range bytes.Lines(journal) {
		switch l, err := unseal(text, settings); {
		case err != nil:
		case l.Drop != nil:
			drops[l.Next] = append(drops[l.Next], l.Drop...)
		case l.Result != nil:
			results[l.Result.Range] = l.Result
		}
	}
	if err := s.goOn(results, drops); err != nil {
		return nil, nil, err
	}
	return settings, s, nil
}
