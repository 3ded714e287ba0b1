package seccompdata

import "testing"

func TestParseKernel(t *testing.T) {
	for text, want := range map[string]Kernel{
		"6.18": {6, 18}, "6.1.0-50-cloud": {6, 1}, "linux-4.4": {4, 4}, "v5.11-rc1": {5, 11}, "3.5": {3, 5}, "6.18.44": {6, 18},
	} {
		var got Kernel
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "6", "six.one", "6.x", "2.6", "3.4", "-6.1", "6.-1", "99999.1", "6.99999"} {
		if k, err := ParseKernel(text); err == nil {
			t.Errorf("%q is %s", text, k)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, tt := range []struct {
		k            Kernel
		major, minor int
		want         bool
	}{{Kernel{5, 11}, 5, 11, true}, {Kernel{5, 10}, 5, 11, false}, {Kernel{6, 0}, 5, 11, true}, {Kernel{4, 14}, 5, 0, false}} {
		if tt.k.AtLeast(tt.major, tt.minor) != tt.want {
			t.Errorf("%s at least %d.%d: %v", tt.k, tt.major, tt.minor, !tt.want)
		}
	}
}
