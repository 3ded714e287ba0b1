package policy

import (
	"bytes"
	_ "embed"
)

// dockerDefault is the default profile of Docker: default.json of
// github.com/moby/profiles/seccomp v0.3.0 (Apache-2.0, The Moby Authors). The
// module has it as a Go value on Linux alone.
//
//go:embed docker-default.json
var dockerDefault []byte

// DockerDefaultName is what policies call the default profile of Docker.
const DockerDefaultName = "docker-default"

// DockerDefaultProfile returns the JSON of the default profile of Docker.
func DockerDefaultProfile() []byte { return bytes.Clone(dockerDefault) }

// DockerDefault is the default profile of Docker under some options.
func DockerDefault(o Options) (*Policy, error) {
	return Parse(DockerDefaultName, dockerDefault, o)
}
