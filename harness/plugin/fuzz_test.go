package plugin

import (
	"errors"
	"testing"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/kernelabi"
)

// FuzzAnswer gives any line to the decoders: what they take is fit to be run
// and shown.
func FuzzAnswer(f *testing.F) {
	for _, line := range []string{
		goodHello,
		`{"id":1,"image":"b807000000c3","pc_map":[0,5,6],"externs":{"cpu_number":"0xb0a0"},"notes":["a"]}`,
		`{"id":1,"refusal":{"reason":"\u001b[2J","pc":1}}`,
		`{"id":1,"error":{"reason":"x"}}`,
		`{"id":1,"image":null,"pc_map":[0,0,0]}`,
		`{"id":1e0,"image":"c3","pc_map":null}`,
		`{"id":1,"image":"c3"} {`,
		`[[[[`, ``, `null`, "\xff",
	} {
		f.Add([]byte(line))
	}
	p, err := kernelabi.ProfileByName(DefaultProfile)
	if err != nil {
		f.Fatal(err)
	}
	prog := bpf.Program{{Code: bpf.LdImm, K: 7}, {Code: bpf.RetA}}
	f.Fuzz(func(t *testing.T, line []byte) {
		if h, err := decodeHello(line, 0); err == nil {
			if !nameOK().MatchString(h.Name) || len(h.Archs) == 0 {
				t.Errorf("introduction %+v", h)
			}
		} else if h != nil || shown(err.Error()) != err.Error() && len(err.Error()) < maxShown {
			t.Errorf("error %q with %v", err, h)
		}
		img, err := decodeCompile(line, 1, prog, p)
		if err != nil {
			var refusal *kernelabi.Refusal
			if errors.As(err, &refusal) && (refusal.PC < -1 || refusal.PC >= len(prog) || shown(refusal.Reason) != refusal.Reason) {
				t.Errorf("refusal %+v", refusal)
			}
			if img != nil || len(err.Error()) < maxShown && shown(err.Error()) != err.Error() {
				t.Errorf("error %q with an image or characters of the plugin's own", err)
			}
			return
		}
		if len(img.Code) == 0 || len(img.Code) > maxImage || img.PCMap != nil && len(img.PCMap) != len(prog)+1 {
			t.Errorf("image of %d bytes, map %v", len(img.Code), img.PCMap)
		}
		for off := -1; off <= len(img.Code); off++ {
			img.PCAt(off)
		}
	})
}
