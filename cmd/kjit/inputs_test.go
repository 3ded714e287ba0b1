package main

import (
	"errors"
	"testing"
)

// FuzzInputs: any text gives inputs that can be run, or an error with exit
// code 2.
func FuzzInputs(f *testing.F) {
	for _, text := range []string{
		"00 01 02\n# comment\n0x0304", `{"packet":"00","headlen":0,"frags":[1],"skb":{"mark":7}}`,
		`{"nr":1,"arch":"0xc000003e","ip":"0x0","args":["0x0","0x0","0x0","0x0","0x0","0x0"]}`, `{"packet":`, "zz",
	} {
		f.Add([]byte(text), "14,2")
	}
	f.Fuzz(func(t *testing.T, data []byte, frags string) {
		m := &metadata{Frags: frags}
		set := &inputSet{LinkTypes: map[string]int{}}
		err := m.check()
		if err == nil {
			err = set.loadText("f", data, m)
			var coded *codedError
			if err != nil && (!errors.As(err, &coded) || coded.code != exitBadInput) {
				t.Errorf("error %v has no exit code", err)
			}
		}
		for _, in := range set.Inputs {
			if skb, ok := in.(interface{ Check() error }); ok && skb.Check() != nil {
				t.Errorf("an input that fails its check was taken: %v", skb.Check())
			}
		}
	})
}
