package kernelabi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLayoutTables(t *testing.T) {
	for _, name := range LayoutNames() {
		layout, err := LayoutByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(layout), len(layoutColumns)+2; got != want {
			t.Errorf("%s has %d fields, want %d", name, got, want)
		}
		seen := map[int]string{}
		for _, field := range layout.Fields() {
			if !strings.HasPrefix(field, "sk_buff.") {
				continue
			}
			if other, ok := seen[layout[field]]; ok {
				t.Errorf("%s: %s and %s are at the same offset %#x", name, field, other, layout[field])
			}
			seen[layout[field]] = field
		}
		if layout[SkbDataLen] != layout[SkbLen]+4 || layout[SkbPktType] != layout[SkbLen]+0x15 || layout[SkbProtocol] != layout[SkbLen]+0x16 {
			t.Errorf("%s: data_len, pkt_type and protocol are not where they always are behind len", name)
		}
		if last := layout.Fields()[len(layout)-1]; last != SkbSize && last != DevIfindex {
			t.Errorf("%s: %s lies behind the end of the struct", name, last)
		}
	}
	if _, err := LayoutByName("L61"); err == nil || !strings.Contains(err.Error(), "L60") {
		t.Errorf("an unknown layout gives %v, want an error that lists the layouts", err)
	}
}

func TestLayoutByNameIsACopy(t *testing.T) {
	layout, _ := LayoutByName("L60")
	layout[SkbLen] = 1
	if L60[SkbLen] != 0x60 {
		t.Error("changing the copy changed L60")
	}
}

// Every x86_64 golden of a kernel was made with the layout and helper addresses
// that the profile of that kernel has; only the load address differs.
func TestProfilesFitTheGoldens(t *testing.T) {
	profileOf := map[string]string{"linux-3.0.1/L60": "linux-3.0-x86_64", "linux-3.10.99/L68": "linux-3.10-x86_64"}
	found := map[string]bool{}
	for _, r := range readRecords[JITRecord](t, "testdata/goldens.jsonl") {
		name, ok := profileOf[r.Kernel+"/"+r.LayoutName]
		if !ok {
			continue
		}
		found[name] = true
		p, err := ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		q := r.Profile(p).WithBase(p.Base)
		if diff := cmp.Diff(p, q, cmp.Comparer(func(a, b Layout) bool { return cmp.Equal(map[string]int(a), map[string]int(b)) })); diff != "" {
			t.Errorf("%s: %s with the record's symbols and layout differs from the built-in (-built-in +record):\n%s", r.Name, name, diff)
		}
	}
	if len(found) != len(profileOf) {
		t.Errorf("testdata has records for %v only, want %v", found, profileOf)
	}
}

func TestProfilesAreComplete(t *testing.T) {
	for _, p := range Profiles() {
		modern := slices.Contains(profilesModern, p)
		if p.Name == "" || p.Summary == "" || (p.Emitter == "") != modern || p.Rules.Name == "" || p.Semantics.VlanPresentInTCI == modern {
			t.Errorf("profile %+v lacks something", p)
		}
		if p.Base%4096 != 0 {
			t.Errorf("%s: base %#x is not page-aligned", p.Name, p.Base)
		}
		text := uint64(0xffffffff81000000)
		if p.Arch != X86_64 {
			text = 0xc0000000
		}
		for name, addr := range p.Symbols {
			if name != "cpu_number" && addr < text {
				t.Errorf("%s: %s at %#x is no kernel text address", p.Name, name, addr)
			}
		}
	}
}
