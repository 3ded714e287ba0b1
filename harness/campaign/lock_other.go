//go:build !unix

package campaign

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked")

// lockFolder opens the file; there are no locks here that go with the process.
func lockFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
}
