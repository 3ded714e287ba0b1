package kernelabi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// LayoutError is a file of layouts with a fault.
type LayoutError struct {
	File   string
	Reason string
}

func (e *LayoutError) Error() string { return e.File + ": " + e.Reason }

// maxFieldOffset is beyond every field of the structs that filters read.
const maxFieldOffset = 1 << 16

// ParseLayout reads a struct layout in JSON: {"sk_buff.len": 112, ...}, or one
// such object for each of several kernels, by name. Of several it returns that
// of the kernel that p plays or that is called kernel (either may be left out),
// of one the only one. "sizeof_sk_buff" is the size of the struct; fields of
// structs that filters do not read are passed over. file is for messages; errors
// are *LayoutError.
func ParseLayout(file string, data []byte, p *Profile, kernel string) (Layout, error) {
	bad := func(format string, args ...any) (Layout, error) {
		return nil, &LayoutError{file, fmt.Sprintf(format, args...)}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return bad("no layout: want {\"sk_buff.len\": OFFSET, ...}, or such an object for each kernel: %v", err)
	}
	kernels := map[string]json.RawMessage{}
	for name, value := range members {
		if bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
			kernels[name] = value
		}
	}
	names := slices.Sorted(maps.Keys(kernels))
	switch {
	case len(kernels) > 0 && len(kernels) < len(members):
		return bad("some members are fields, some are kernels: want either")
	case len(kernels) > 0:
		name := layoutOf(names, p, kernel)
		if name == "" {
			return bad("it has the layouts of %s, and none of them is this kernel's", strings.Join(names, ", "))
		}
		data = kernels[name]
	}
	var offsets map[string]int
	if err := json.Unmarshal(data, &offsets); err != nil {
		return bad("no layout: %v", err)
	}
	layout := Layout{}
	for name, offset := range offsets {
		if offset < 0 || offset > maxFieldOffset {
			return bad("%s: %d is no offset in a struct", name, offset)
		}
		switch of, _, dotted := strings.Cut(name, "."); {
		case name == "sizeof_sk_buff":
			layout[SkbSize] = offset
		case of == "sk_buff", of == "net_device", of == "thread_info":
			layout = layout.With(map[string]int{name: offset})
		case !dotted && !strings.HasPrefix(name, "sizeof_"):
			return bad("%q is no field: want names such as sk_buff.len", name)
		}
	}
	if len(layout) == 0 {
		return bad("it has no field of sk_buff or net_device")
	}
	return layout, nil
}

// layoutOf chooses among the kernels of a file, "" for none.
func layoutOf(names []string, p *Profile, kernel string) string {
	if len(names) == 1 {
		return names[0]
	}
	wanted := []string{kernel}
	if p != nil {
		wanted = append(wanted, p.Name, strings.TrimPrefix(p.Name, "linux-"))
		for recorded, profile := range kernelsOfRecords {
			if profile == p.Name {
				wanted = append(wanted, recorded)
			}
		}
	}
	for _, name := range wanted {
		if name != "" && slices.Contains(names, name) {
			return name
		}
	}
	return ""
}
