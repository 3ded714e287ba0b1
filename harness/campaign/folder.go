package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kjit-project/kjit/harness/repro"
)

// The files of a folder.
const (
	settingsFile = "campaign.json"
	stateFile    = "epoch.json"
	journalFile  = "ranges.jsonl"
	lockFile     = "lock"
	findingsDir  = "findings"
)

// StreamsDir is what a folder has in place of a journal and a state when its
// campaign is in the streams of a server that keeps them there.
const StreamsDir = "jetstream"

// Folder keeps a campaign on disk: its settings; its state at the beginning of
// the open epoch; a journal of the ranges of that epoch, a line each; a file for
// every finding. The process may end at any moment: what was told to be done is
// kept, and done once. One process has a folder at a time.
type Folder struct {
	Dir string

	// Notes says what was damaged, and is done again.
	Notes []string

	settings Settings
	lock     *os.File
	journal  *journal
}

// LockedError is a folder that another process has.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string {
	return e.Dir + ": another kjit works on this campaign: wait for it, or choose another folder"
}

// OwnerError is a folder whose campaign another command works on.
type OwnerError struct{ Dir, Owner, Remedy string }

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s is the folder of %s: %s", e.Dir, e.Owner, e.Remedy)
}

// checkNoStreams returns an *OwnerError if a server has the folder.
func checkNoStreams(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, StreamsDir)); err != nil {
		return nil
	}
	return &OwnerError{dir, "a kjit campaign", "kjit campaign start goes on with it, kjit campaign export writes what it has found; or choose another"}
}

// CheckNoRanges returns an *OwnerError if [Run] has worked on the campaign in a
// folder.
func CheckNoRanges(dir string) error {
	for _, file := range []string{journalFile, stateFile} {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return &OwnerError{dir, "kjit fuzz", "choose another"}
		}
	}
	return nil
}

// ReadSettings returns the settings of the campaign in a folder. If there is none
// the error is fs.ErrNotExist.
func ReadSettings(dir string) (*Settings, error) {
	path := filepath.Join(dir, settingsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := new(Settings)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// OpenFolder opens a folder for a campaign of those settings, and starts one if
// there is none. Errors: a *SettingsError if it is another campaign's, a
// *LockedError, an *OwnerError.
func OpenFolder(dir string, s *Settings) (_ *Folder, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	f, err := LockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := checkNoStreams(dir); err != nil {
		return nil, err
	}
	f.settings = *s
	switch has, err := ReadSettings(dir); {
	case err == nil:
		if err := has.Differs(s); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		if err := f.Note(s); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// LockFolder takes a folder, which is made if it is not there, whatever is in it.
// The error may be a *LockedError.
func LockFolder(dir string) (_ *Folder, err error) {
	if err := os.MkdirAll(filepath.Join(dir, findingsDir), 0o777); err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir}
	if f.lock, err = lockFolder(filepath.Join(dir, lockFile)); err != nil {
		if errors.Is(err, errLocked) {
			err = &LockedError{dir}
		}
		return nil, err
	}
	if err := repro.Sweep(f.Findings()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Note writes down what the campaign in the folder is.
func (f *Folder) Note(s *Settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f.settings = *s
	return writeFile(filepath.Join(f.Dir, settingsFile), append(data, '\n'))
}

// Noted reports whether a folder says what its campaign is, be it damaged.
func Noted(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, settingsFile))
	return err == nil
}

// Close gives the folder back.
func (f *Folder) Close() error {
	var errs []error
	if f.journal != nil {
		errs = append(errs, f.journal.close())
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

// Settings are those of the campaign.
func (f *Folder) Settings() Settings { return f.settings }

// Findings is the folder that the findings are in.
func (f *Folder) Findings() string { return filepath.Join(f.Dir, findingsDir) }

// Load returns the state with all ranges that can be merged, and the results of
// others that are done, by range.
func (f *Folder) Load() (*State, map[uint64]*Result, error) {
	path := filepath.Join(f.Dir, stateFile)
	s, err := readState(path, &f.settings)
	if err != nil {
		return nil, nil, err
	}
	if f.journal, err = openJournal(filepath.Join(f.Dir, journalFile)); err != nil {
		return nil, nil, err
	}
	done, drops := map[uint64]*Result{}, map[uint64][]uint64{}
	first, end := EpochRanges(s.frozen.Epoch)
	lines, err := f.journal.read(&f.settings)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lines {
		switch {
		case l.Bad != "":
			f.Notes = append(f.Notes, fmt.Sprintf("%s:%d: %s: its range is done again", journalFile, l.Number, l.Bad))
		case l.Drop != nil:
			drops[l.Next] = append(drops[l.Next], l.Drop...)
		case l.Result == nil || l.Result.Range < first: // of an epoch that is in the state
		case l.Result.Range >= end:
			return nil, nil, fmt.Errorf("%s is missing or old: %s has range %d of a later epoch: copy all files of a campaign, or none", path, journalFile, l.Result.Range)
		default:
			done[l.Result.Range] = l.Result
		}
	}
	if err := s.goOn(done, drops); err != nil {
		return nil, nil, err
	}
	if s.Next == end {
		err = f.keep(s)
	}
	return s, done, err
}

// readState reads the state at the beginning of an epoch; without a file it is
// that of the first.
func readState(path string, s *Settings) (*State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return NewState(s), nil
	}
	if err != nil {
		return nil, err
	}
	state, err := ParseState(data, s)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return state, nil
}

// goOn merges the results, by range, that are next, and takes them out of the map.
// drops are the hashes of programs that leave the corpus before a range is merged.
func (s *State) goOn(done map[uint64]*Result, drops map[uint64][]uint64) error {
	for {
		if hashes := drops[s.Next]; hashes != nil {
			s.drop(hashes)
		}
		r := done[s.Next]
		if r == nil {
			return nil
		}
		delete(done, s.Next)
		if _, err := s.Merge(r); err != nil {
			return err
		}
	}
}

// add writes results into the journal. When it returns they are safe.
func (f *Folder) add(results []*Result) error {
	for _, r := range results {
		if err := f.journal.append(line{Result: r}); err != nil {
			return err
		}
	}
	return f.journal.sync()
}

// drop notes that programs leave the corpus.
func (f *Folder) drop(s *State, hashes []uint64) error {
	if err := f.journal.append(line{Next: s.Next, Drop: hashes}); err != nil {
		return err
	}
	if err := f.journal.sync(); err != nil {
		return err
	}
	s.drop(hashes)
	return nil
}

// keep writes the state at the beginning of an epoch, and empties the journal.
// Between the two the journal has what the state has, too, which does no harm.
func (f *Folder) keep(s *State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(f.Dir, stateFile), append(data, '\n')); err != nil {
		return err
	}
	return f.journal.empty()
}

// writeFile replaces a file: whenever the process, or the machine, stops, it is
// the old one or the new one.
func writeFile(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes names in a folder safe, where folders can be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
}
