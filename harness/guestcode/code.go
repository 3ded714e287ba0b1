package guestcode

import (
	"embed"
	"fmt"

	"github.com/kjit-project/kjit/kernelabi"
)

// compiled holds the C files of ci/guestcode as flat machine code, one file for
// each of them and each architecture.
//
//go:generate ../../ci/guestcode/build.sh code
//go:embed code
var compiled embed.FS

// target is an architecture that the C files are compiled for.
type target struct {
	name    string
	pointer int // bytes of an address

	// enter writes an entry of stubBytes at the start of image: it passes what
	// stands at the two offsets as the second and third argument, the context
	// being the first, and goes to the code behind itself.
	enter func(image []byte, base uint64, second, third int)
}

var targets = map[kernelabi.Arch]*target{
	kernelabi.X86_64: {"x86_64", 8, enterX86},
	kernelabi.ARMv5:  {"armv5", 4, enterARM},
	kernelabi.ARMv7:  {"armv7", 4, enterARM},
}

func targetFor(p *kernelabi.Profile) (*target, error) {
	t := targets[p.Arch]
	if t == nil || p.Features.Endian == "big" {
		return nil, fmt.Errorf("profile %s: the guest code is compiled for x86_64, armv5 and armv7, little endian", p.Name)
	}
	return t, nil
}

// code returns the compiled C file of that name, without its ending.
func (t *target) code(name string) []byte {
	b, err := compiled.ReadFile("code/" + name + "-" + t.name + ".bin")
	if err != nil {
		panic(err) // embedded with this package, for every target
	}
	return b
}
