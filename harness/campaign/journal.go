package campaign

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// journal is a file of lines that are only added.
type journal struct {
	file *os.File
	size int64 // up to which it is good
}

// line is one of a journal: the result of a range, or that programs leave the
// corpus, when all ranges before Next are merged.
type line struct {
	Result *Result  `json:"result,omitempty"`
	Next   uint64   `json:"next,omitempty"`
	Drop   []uint64 `json:"drop,omitempty"` // hashes
}

// sealed is a line in the file, with what tells whether it is whole.
type sealed struct {
	CRC  uint32          `json:"crc"` // IEEE
	Line json.RawMessage `json:"line"`
}

// readLine is a line that was read.
type readLine struct {
	line
	Number int
	Bad    string // why it cannot be used
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		f.Close()
		return nil, err
	}
	return &journal{file: f}, nil
}

func (j *journal) close() error { return j.file.Close() }

// read reads all lines. What was written last may be torn: it is cut off. A line
// elsewhere that is damaged is as good as none.
func (j *journal) read(s *Settings) (lines []readLine, err error) {
	if _, err := j.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(j.file, 1<<20)
	j.size = 0
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == io.EOF {
			if len(text) > 0 {
				lines = append(lines, readLine{Number: n, Bad: "the last line is torn"})
			}
			break
		}
		l := readLine{Number: n}
		if l.line, err = unseal(text, s); err != nil {
			l.Bad = err.Error()
		}
		lines = append(lines, l)
		j.size += int64(len(text))
	}
	return lines, j.file.Truncate(j.size)
}

func unseal(text []byte, s *Settings) (l line, err error) {
	var outer sealed
	if err := json.Unmarshal(text, &outer); err != nil {
		return line{}, fmt.Errorf("no line of a journal (%w)", err)
	}
	if crc32.ChecksumIEEE(outer.Line) != outer.CRC {
		return line{}, errors.New("the checksum is another one")
	}
	if err := json.Unmarshal(outer.Line, &l); err != nil {
		return line{}, err
	}
	if l.Result != nil {
		err = l.Result.Validate(s)
	}
	return l, err
}

// append adds a line. It counts when sync has returned.
func (j *journal) append(l line) error {
	inner, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text, err := json.Marshal(sealed{crc32.ChecksumIEEE(inner), inner})
	if err != nil {
		return err
	}
	n, err := j.file.WriteAt(append(text, '\n'), j.size)
	if err != nil {
		return err
	}
	j.size += int64(n)
	return nil
}

func (j *journal) sync() error { return j.file.Sync() }

// empty takes all lines out.
func (j *journal) empty() error {
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	j.size = 0
	return j.file.Sync()
}
