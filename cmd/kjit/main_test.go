package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kjit": main, "jsonfield": jsonField, "sariflines": sarifLines})
}

// TestScript runs testdata/script: what the command line does, as its users see
// it. With -update the scripts' expected outputs are rewritten.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Condition:     hostAllows,
		Setup: func(env *testscript.Env) error {
			root, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			// Filter expressions must not depend on what is installed here.
			env.Setenv("PATH", env.Getenv("WORK")+"/bin:"+env.Getenv("PATH"))
			// A capture that ends in the middle of its first packet.
			cut := "\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + strings.Repeat("\x00", 8) + "\x00\x00\x04\x00\x01\x00\x00\x00" +
				strings.Repeat("\x00", 8) + "\x20\x00\x00\x00\x20\x00\x00\x00" + "half a packet"
			return os.WriteFile(env.Getenv("WORK")+"/cut.pcap", []byte(cut), 0o666)
		},
	})
}
