package kernelabi

import (
	"errors"
	"testing"
)

func TestMislabelled(t *testing.T) {
	const x86, old, v5, v7 = "linux-6.18-x86_64", "linux-3.0-x86_64", "linux-6.1-armv5", "linux-4.5-armv7"
	for _, tt := range []struct{ desc, profile, code, looks string }{
		{"x86_64 code for x86_64.", x86, "55 48 89 e5", ""},
		{"x86_64 code for an ARM kernel.", v5, "0f 1f 44 00 00 55 48 89", "x86_64"},
		{"The same of an old kernel.", v7, "55 48 89 e5", "x86_64"},
		{"ARM code for ARM.", v7, "f0 4b 2d e9", ""},
		{"ARM code for x86_64.", old, "f0 4b 2d e9 0d b0 a0 e1", "ARM"},
		{"Code with another beginning may be anything.", v7, "07 00 a0 e3", ""},
		{"So may no code.", x86, "", ""},
	} {
		err := image(t, tt.profile, tt.code, 0).Mislabelled()
		var typed *ArchError
		if (tt.looks == "") != (err == nil) || err != nil && (!errors.As(err, &typed) || typed.Looks != tt.looks) {
			t.Errorf("%s got %v", tt.desc, err)
		}
	}
}

// No record of a kernel is taken for code of another architecture.
func TestRecordsAreLabelled(t *testing.T) {
	for _, rec := range readRecords[KernelImageRecord](t, imageRecords) {
		img, err := rec.Code()
		if err != nil || img == nil {
			continue
		}
		if err := img.Mislabelled(); err != nil {
			t.Errorf("%s: %v", rec.Name, err)
		}
		other, err := ProfileByName(map[bool]string{true: "linux-6.1-armv7", false: "linux-6.18-x86_64"}[img.Profile.Arch == X86_64])
		if err != nil {
			t.Fatal(err)
		}
		img.Profile = other
		var typed *ArchError
		if err := img.Mislabelled(); !errors.As(err, &typed) {
			t.Errorf("%s as an image of %s: %v", rec.Name, other.Name, err)
		}
	}
}
