package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/kjit-project/kjit/emulator"
)

type versionCmd struct{}

// Help is the long help text.
func (*versionCmd) Help() string {
	return "Says of what this kjit was made: what a report of a defect should have in it. kjit --version prints the first line only."
}

// versionRecord is what kjit version prints, with --json as one object.
type versionRecord struct {
	Type     string            `json:"type"` // "version"
	Version  string            `json:"version"`
	Commit   string            `json:"commit,omitempty"`
	Time     string            `json:"time,omitempty"` // of the commit, RFC 3339
	Modified bool              `json:"modified"`       // built from more than the commit
	Go       string            `json:"go"`
	Platform string            `json:"platform"` // GOOS/GOARCH
	Unicorn  string            `json:"unicorn"`  // the library that is linked in
	Modules  map[string]string `json:"modules"`  // those that numbers or formats depend on
	Settings map[string]string `json:"settings"` // of the Go build
}

// notedModules are those that decide about results or what is read and written;
// the SBOM of a release has all.
var notedModules = []string{
	unicornModule,
	"github.com/cilium/ebpf",
	"github.com/elastic/go-seccomp-bpf",
	"github.com/gopacket/gopacket",
	"github.com/moby/profiles/seccomp",
	"github.com/nats-io/nats-server/v2",
	"golang.org/x/arch",
}

func (c *versionCmd) Run(std streams, global *cli) error {
	r := versionRecord{
		Type: "version", Version: release(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Unicorn: emulator.LibraryVersion(), Modules: map[string]string{}, Settings: map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				r.Commit = s.Value
			case "vcs.time":
				r.Time = s.Value
			case "vcs.modified":
				r.Modified = s.Value == "true"
			default:
				r.Settings[s.Key] = s.Value
			}
		}
	}
	for _, m := range notedModules {
		r.Modules[m] = moduleVersion(m)
	}
	if global.JSON {
		return json.NewEncoder(std.out).Encode(r)
	}
	commit := r.Commit
	if commit == "" {
		commit = "unknown"
	} else if r.Time != "" {
		commit += " of " + r.Time
	}
	if r.Modified {
		commit += ", modified"
	}
	fmt.Fprintf(std.out, "kjit %s\ncommit   %s\ngo       %s %s\nunicorn  %s\n", r.Version, commit, r.Go, r.Platform, r.Unicorn)
	for _, m := range notedModules {
		fmt.Fprintf(std.out, "module   %s %s\n", m, r.Modules[m])
	}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		fmt.Fprintf(std.out, "build    %s=%s\n", key, r.Settings[key])
	}
	return nil
}

// version is what kjit --version prints: the release, and the Go that built it.
func version() string { return "kjit " + release() + " " + runtime.Version() }

// sameBuild is the version that all of a campaign have to have. Where the release
// does not say what was built it has a sum of the executable.
func sameBuild() (string, error) {
	if v := release(); v != unversioned && !strings.HasSuffix(v, "dirty") {
		return version(), nil
	}
	sum, err := executableSum()
	return version() + ", executable " + sum, err
}

// executableSum is the beginning of the SHA-256 of what runs, whatever has its name
// now.
var executableSum = sync.OnceValues(func() (string, error) {
	path := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		var err error
		if path, err = os.Executable(); err != nil {
			return "", environment(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", environment(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", environment(fmt.Errorf("%s: %w", path, err))
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
})

// stamped is the version that a build without a Git checkout was given:
// go build -ldflags "-X main.stamped=v1.2.3".
var stamped string

// unversioned is the release of a build that nobody gave a version.
const unversioned = "devel"

// release is the version that the build was given, or the module's as the Go
// toolchain recorded it. It ends with "dirty" if more was built than it says.
func release() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unversioned
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return unversioned
}

// unicornModule is both the binding and the source that the library is built
// from.
const unicornModule = "github.com/unicorn-engine/unicorn"

// moduleVersion is the version of a module that this binary was built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown version"
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return "unknown version"
}
