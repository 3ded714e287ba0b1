package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moby/profiles/seccomp"
)

// ProfileError is a profile that cannot be read.
type ProfileError struct {
	Name   string // of the profile
	Line   int    // from 1; 0 if it is about no line
	Where  string // path in the JSON, "syscalls[3].args[0].op"; "" if it is about the whole
	Reason string
}

func (e *ProfileError) Error() string {
	text := e.Name
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, e.Line)
	}
	if e.Where != "" {
		text += ": " + e.Where
	}
	return text + ": " + e.Reason
}

// decodeProfile reads the JSON of a profile. If it is a whole config.json of
// the OCI runtime specification, the path of the profile in it is returned, and
// the capabilities of its process.
func decodeProfile(name string, data []byte) (p *seccomp.Seccomp, path string, caps []string, err error) {
	var config struct {
		Process struct {
			Capabilities *struct {
				Bounding []string `json:"bounding"`
			} `json:"capabilities"`
		} `json:"process"`
		Linux *struct {
			Seccomp json.RawMessage `json:"seccomp"`
		} `json:"linux"`
	}
	if err := decode(data, &config); err != nil {
		return nil, "", nil, jsonError(name, data, 0, "", err)
	}
	offset := 0
	profile := data
	if config.Linux != nil {
		path, profile = "linux.seccomp.", config.Linux.Seccomp
		offset = max(bytes.Index(data, profile), 0)
		if c := config.Process.Capabilities; c != nil {
			caps = append([]string{}, c.Bounding...)
		}
		if len(profile) == 0 || string(profile) == "null" {
			return nil, "", nil, &ProfileError{Name: name, Where: "linux.seccomp", Reason: "the container has no seccomp profile"}
		}
	}
	p = &seccomp.Seccomp{}
	if err := decode(profile, p); err != nil {
		return nil, "", nil, jsonError(name, data, offset, path, err)
	}
	return p, path, caps, nil
}

// decode reads exactly one JSON value.
func decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("there is something behind the JSON object")
	}
	return nil
}

// jsonError says where in data the decoder found something wrong; it was given
// what begins at offset.
func jsonError(name string, data []byte, offset int, path string, err error) error {
	out := &ProfileError{Name: name, Where: strings.TrimSuffix(path, "."), Reason: err.Error()}
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		offset += int(kind.Offset)
		// Fields have the names of Go's embedded structs in their paths.
		out.Where = path + strings.NewReplacer("LinuxSyscall.", "", "LinuxSeccomp.", "").Replace(kind.Field)
		out.Reason = fmt.Sprintf("%s where %s is wanted", kind.Value, wanted(kind.Type.String()))
		out.Where = strings.TrimSuffix(out.Where, ".")
	case errors.As(err, &syntax):
		offset += int(syntax.Offset)
		out.Reason = "no JSON: " + syntax.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		offset = len(data)
		out.Reason = "no JSON: it ends too early"
	default:
		return out
	}
	out.Line = 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
	return out
}

// wanted names a Go type for people who write JSON.
func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "uint"):
		return "a number from 0 to 18446744073709551615"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.Contains(goType, "string"), strings.HasPrefix(goType, "specs.LinuxSeccomp") && !strings.Contains(goType, "Arg"), goType == "specs.Arch":
		return "a string"
	}
	return "an object"
}

// knownFields are those that a profile may have, by the path of their object,
// in which a list is "[]".
var knownFields = map[string]string{
	"":                     "defaultAction defaultErrnoRet defaultErrno architectures archMap flags listenerPath listenerMetadata syscalls",
	".archMap[]":           "architecture subArchitectures",
	".syscalls[]":          "names name action errnoRet errno args comment includes excludes",
	".syscalls[].args[]":   "index value valueTwo op",
	".syscalls[].includes": "caps arches minKernel",
	".syscalls[].excludes": "caps arches minKernel",
}

// strangeFields returns warnings about fields that nobody reads: a mistyped one
// can open a hole.
func strangeFields(path string, profile []byte) []Warning {
	var out []Warning
	var walk func(pattern, path string, value any)
	walk = func(pattern, path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			known, ok := knownFields[pattern]
			if !ok {
				return
			}
			for _, name := range sortedKeys(v) {
				if !slices.Contains(strings.Fields(known), name) {
					out = append(out, Warning{strings.TrimPrefix(path+"."+name, "."), "unknown field: it is ignored; known here are " + strings.ReplaceAll(known, " ", ", ")})
					continue
				}
				walk(pattern+"."+name, path+"."+name, v[name])
			}
		case []any:
			for i, element := range v {
				walk(pattern+"[]", fmt.Sprintf("%s[%d]", path, i), element)
			}
		}
	}
	var tree any
	if json.Unmarshal(profile, &tree) == nil {
		walk("", strings.TrimSuffix(path, "."), tree)
	}
	return out
}
