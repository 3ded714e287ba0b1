package livekernel

import "testing"

func TestFreeWord(t *testing.T) {
	for _, test := range []struct {
		desc, prog, arch string
		want             uint32
		ok               bool
	}{
		{"The last upper half is free in most filters.", "ld [0]; ld [16]; ret a", "amd64", 60, true},
		{"One that is read is not.", "ld [60]; ld [52]; ret a", "amd64", 44, true},
		{"ARM has lower halves only.", "ld [16]; ret a", "arm", 56, true},
		{"There may be none.", "ld [16]; ld [24]; ld [32]; ld [40]; ld [48]; ld [56]; ret a", "arm", 0, false},
	} {
		if word, ok := freeWord(assemble(t, test.prog), nativeABIs[test.arch]); word != test.want || ok != test.ok {
			t.Errorf("%s got %d, %v", test.desc, word, ok)
		}
	}
}
