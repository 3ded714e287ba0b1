package seccompdata

import (
	"fmt"
	"strconv"
	"strings"
)

// Kernel is a release of Linux, where releases differ in what they do with
// seccomp filters.
type Kernel struct{ Major, Minor int }

// CurrentKernel is the release that all facts here hold for unless something
// else is said: the last one that was measured.
var CurrentKernel = Kernel{6, 18}

// AtLeast reports whether k is the release major.minor or a later one.
func (k Kernel) AtLeast(major, minor int) bool {
	return k.Major > major || k.Major == major && k.Minor >= minor
}

// String is the release as kernels write it: "6.18".
func (k Kernel) String() string { return fmt.Sprintf("%d.%d", k.Major, k.Minor) }

// MarshalText writes "6.18".
func (k Kernel) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a release as uname prints it, "6.18", "6.1.0-50-cloud",
// "linux-4.4". What follows the second number says nothing.
func (k *Kernel) UnmarshalText(text []byte) error {
	parsed, err := ParseKernel(string(text))
	if err == nil {
		*k = parsed
	}
	return err
}

// ParseKernel is the function behind [Kernel.UnmarshalText].
func ParseKernel(text string) (Kernel, error) {
	release := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(text), "linux-"), "v")
	first, rest, found := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err := strconv.ParseUint(first, 10, 16)
	minor, err2 := strconv.ParseUint(rest[:end], 10, 16)
	if !found || err != nil || err2 != nil {
		return Kernel{}, fmt.Errorf("kernel %.40q: want a release such as 6.18", text)
	}
	k := Kernel{int(major), int(minor)}
	if !k.AtLeast(3, 5) {
		return Kernel{}, fmt.Errorf("kernel %s: seccomp filters came with Linux 3.5", k)
	}
	return k, nil
}
