package kernelabi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfilesARMAreComplete(t *testing.T) {
	for _, p := range profilesARM {
		if p.Name == "" || p.Summary == "" || p.Emitter == "" || p.Rules.Name == "" || !p.Semantics.VlanPresentInTCI {
			t.Errorf("profile %+v lacks something", p)
		}
		if !strings.Contains(p.Name, string(p.Arch)) {
			t.Errorf("%s is for %s", p.Name, p.Arch)
		}
		if p.Arch == ARMv5 && p.Features.Idiva {
			t.Errorf("%s: no ARMv5 has a divide instruction", p.Name)
		}
		if p.Features.ThreadSize != 8192 || p.Features.Endian != "little" {
			t.Errorf("%s: features %+v", p.Name, p.Features)
		}
		if p.Base%4096 != 0 || p.Base < 0xbf000000 || p.Base >= 0xbfe00000 {
			t.Errorf("%s: base %#x is no page among the modules", p.Name, p.Base)
		}
		for name, addr := range p.Symbols {
			if addr < 0xc0000000 || addr >= 0xf0000000 || addr%4 != 0 {
				t.Errorf("%s: %s at %#x is no kernel text address", p.Name, name, addr)
			}
		}
	}
}

// Fields do not overlap, and halfwords of the built-in layouts can be loaded
// with an offset in the instruction.
func TestLayoutsARM(t *testing.T) {
	for name, layout := range layoutsARM {
		seen := map[int]string{}
		for _, field := range layout.Fields() {
			if !strings.HasPrefix(field, "sk_buff.") {
				continue
			}
			if other, ok := seen[layout[field]]; ok {
				t.Errorf("%s: %s and %s are at the same offset %d", name, field, other, layout[field])
			}
			seen[layout[field]] = field
		}
		if layout[SkbDataLen] != layout[SkbLen]+4 || layout[SkbDev] != 20 {
			t.Errorf("%s: data_len or dev is not where it always is", name)
		}
		for _, field := range []string{SkbProtocol, SkbVlanTCI, SkbQueue} {
			if layout[field] == 0 || layout[field] > 255 || layout[field]%2 != 0 {
				t.Errorf("%s: %s at offset %d", name, field, layout[field])
			}
		}
	}
}

// Every ARM golden was made with the layout and helper addresses that the
// profiles of that kernel have.
func TestProfilesARMFitTheGoldens(t *testing.T) {
	families := map[string]string{"linux-3.12.9": "linux-3.12-arm", "linux-4.5": "linux-4.5-arm"}
	found := map[string]bool{}
	for _, r := range readRecords[JITRecord](t, shared(t, "jit-goldens/arm.jsonl")) {
		for _, p := range profilesARM {
			if p.Emitter != families[r.Kernel] || p.Arch != r.Arch {
				continue
			}
			found[p.Name] = true
			q := r.Profile(p)
			if diff := cmp.Diff(p.Symbols, q.Symbols); diff != "" {
				t.Fatalf("%s and %s (-profile +record):\n%s", p.Name, r.Name, diff)
			}
			for field, off := range (Layout{}).With(r.Layout) {
				if p.Layout[field] != off {
					t.Fatalf("%s: %s is at %d, in %s at %d", p.Name, field, p.Layout[field], r.Name, off)
				}
			}
		}
	}
	if len(found) != 6 {
		t.Errorf("records for %v only", found)
	}
}
