package emulator

import "testing"

func TestSelfTest(t *testing.T) {
	for _, c := range SelfTest() {
		if c.Err != nil {
			t.Errorf("%s: %v (%s)", c.Name, c.Err, c.Detail)
		} else {
			t.Logf("%s: %s", c.Name, c.Detail)
		}
	}
	errorCode.Lock()
	defer errorCode.Unlock()
	if errorCode.at < 0 {
		t.Error("the error code was not found in the processor state of this build")
	}
}
