package kernelabi

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLayout(t *testing.T) {
	p, err := ProfileByName("linux-6.1-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	const two = `{"6.1-amd64": {"sk_buff.len": 1, "sk_buff.hash": 2, "sizeof_sk_buff": 3}, "5.15-x": {"net_device.type": 4}}`
	for _, tt := range []struct {
		desc, text, kernel string
		profile            *Profile
		want               Layout
		err                string
	}{
		{"One kernel's fields.", `{"sk_buff.len": 112, "bpf_prog.len": 12, "sizeof_net_device": 9}`, "", nil, Layout{SkbLen: 112}, ""},
		{"The kernel of a profile, under the name that records have for it.", two, "", p, Layout{SkbLen: 1, SkbRxhash: 2, SkbSize: 3}, ""},
		{"The kernel of a record.", two, "5.15-x", p, Layout{DevType: 4}, ""},
		{"The only kernel, whatever its name.", `{"x": {"sk_buff.mark": 8}}`, "", p, Layout{SkbMark: 8}, ""},
		{"Another kernel.", two, "4.19", nil, nil, "f: it has the layouts of 5.15-x, 6.1-amd64, and none of them"},
		{"No JSON.", "sk_buff", "", nil, nil, "f: no layout: want {"},
		{"No number.", `{"sk_buff.len": "x"}`, "", nil, nil, "f: no layout: json: "},
		{"No field that is read.", `{"bpf_prog.len": 12}`, "", nil, nil, "f: it has no field of sk_buff"},
		{"No field.", `{"len": 12}`, "", nil, nil, `f: "len" is no field`},
		{"An offset behind everything.", `{"sk_buff.len": 70000}`, "", nil, nil, "70000 is no offset"},
		{"A mixture.", `{"x": {}, "sk_buff.len": 1}`, "", nil, nil, "some members are fields"},
	} {
		got, err := ParseLayout("f", []byte(tt.text), tt.profile, tt.kernel)
		var typed *LayoutError
		if tt.err == "" && err != nil || tt.err != "" && (!errors.As(err, &typed) || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s got error %v, want %q", tt.desc, err, tt.err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.desc, diff)
		}
	}
}

// The built-in layouts of recent kernels are those that were measured.
func TestMeasuredLayouts(t *testing.T) {
	const file = "../../shared/data/kernel-images/layouts.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("the measured layouts are not here: %v", err)
	}
	for _, p := range profilesModern {
		got, err := ParseLayout(file, data, p, "")
		if err != nil {
			t.Error(err)
			continue
		}
		for field, at := range p.Layout {
			if got[field] != at {
				t.Errorf("%s: %s is at %d, measured %d", p.Name, field, at, got[field])
			}
		}
	}
}

func FuzzLayout(f *testing.F) {
	f.Add([]byte(`{"sk_buff.len": 1}`))
	f.Add([]byte(`{"a": {"sk_buff.len": 1}, "b": {}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		layout, err := ParseLayout("f", data, nil, "a")
		var typed *LayoutError
		if (err == nil) == (len(layout) == 0) || err != nil && !errors.As(err, &typed) {
			t.Errorf("%v, %v", layout, err)
		}
	})
}
