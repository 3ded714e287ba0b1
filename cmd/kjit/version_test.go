package main

import (
	"strings"
	"testing"
)

// What campaigns compare has a sum of the executable where nothing else tells two
// builds apart.
func TestSameBuild(t *testing.T) {
	for _, test := range []struct {
		desc, stamped string
		sum           bool
	}{
		{"a build that was given a version", "v1.2.3", false},
		{"one of more than the commit says", "v1.2.3-dirty", true},
		{"so as Go writes it", "v1.2.4-0.20260101000000-0123456789ab+dirty", true},
		{"a build without any version", unversioned, true},
	} {
		stamped = test.stamped
		defer func() { stamped = "" }()
		got, err := sameBuild()
		if err != nil {
			t.Fatal(err)
		}
		sum, err := executableSum()
		if err != nil || len(sum) != 12 {
			t.Fatalf("sum %q, %v", sum, err)
		}
		if !strings.HasPrefix(got, "kjit "+test.stamped+" go1.") || strings.HasSuffix(got, ", executable "+sum) != test.sum {
			t.Errorf("%s: %s", test.desc, got)
		}
	}
}
