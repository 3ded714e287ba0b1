package kernelabi

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// ArchError is an image that begins like code of another architecture than its
// profile's.
type ArchError struct {
	Profile *Profile
	Looks   string // "x86_64" or "ARM"
}

func (e *ArchError) Error() string {
	return fmt.Sprintf("the image begins like %s code, and profile %s is for %s", e.Looks, e.Profile.Name, e.Profile.Arch)
}

// beginningsX86 are how the code of x86_64 JITs begins: none of them is an ARM
// instruction that a function could begin with.
var beginningsX86 = [][]byte{
	{0x55, 0x48, 0x89, 0xe5},       // push rbp; mov rbp, rsp
	{0x0f, 0x1f, 0x44, 0x00, 0x00}, // the place for a patched call
	{0xf3, 0x0f, 0x1e, 0xfa},       // endbr64
}

// Mislabelled returns an *ArchError if the image is plainly for another
// architecture than the profile's, as files are that name the wrong kernel.
func (i *Image) Mislabelled() error {
	looks := ""
	for _, begin := range beginningsX86 {
		if bytes.HasPrefix(i.Code, begin) {
			looks = "x86_64"
		}
	}
	// push {..., lr}, condition always, which no x86_64 code can begin with: it
	// would be a locked instruction, or a jump out of the image.
	if len(i.Code) >= 4 && binary.LittleEndian.Uint32(i.Code)&0xffffc000 == 0xe92d4000 {
		looks = "ARM"
	}
	if looks == "" || (looks == "x86_64") == (i.Profile.Arch == X86_64) {
		return nil
	}
	return &ArchError{i.Profile, looks}
}
