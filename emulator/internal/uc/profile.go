//go:build ucprofile

package uc

// A library that was built with -fprofile-generate writes its counts when the
// process ends, unless it ends as Go's do: ci/setup.sh builds with this file.

// #cgo LDFLAGS: -lgcov
// void __gcov_dump(void);
// void __gcov_reset(void);
import "C"

func init() {
	closed = func() {
		C.__gcov_dump()
		C.__gcov_reset()
	}
}
