package main

import (
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/kjit-project/kjit/emulator"
)

type doctorCmd struct{}

// finding is one thing that doctor looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // the command that mends it
}

func (c *doctorCmd) Run(std streams, global *cli) error {
	findings := []finding{{Name: "kjit", OK: true, Detail: version()}, {Name: "unicorn binding", OK: true, Detail: moduleVersion(unicornModule)}}
	for _, check := range emulator.SelfTest() {
		f := finding{Name: "engine: " + check.Name, OK: check.Err == nil, Detail: check.Detail}
		if check.Err != nil {
			f.Detail, f.Mend = check.Err.Error(), rebuild
		}
		findings = append(findings, f)
	}
	findings = append(findings, tcpdumpFinding())

	broken, width := 0, 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
			broken++
		}
		if global.JSON {
			if err := json.NewEncoder(std.out).Encode(f); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(std.out, "%s  %-*s  %s\n", mark, width, f.Name, f.Detail)
		if f.Mend != "" && !f.OK {
			fmt.Fprintf(std.out, "      mend it with: %s\n", f.Mend)
		}
	}
	if broken > 0 {
		return environment(fmt.Errorf("%s failed: %s", plural(broken, "check"), rebuild))
	}
	return nil
}

// rebuild makes the library and the binary anew.
const rebuild = "make clean build"

// tcpdumpFinding reports what filter expressions need; kjit works without it.
func tcpdumpFinding() finding {
	path, err := exec.LookPath("tcpdump")
	if err != nil {
		path = "not installed: only filter expressions need it (apt-get install tcpdump)"
	}
	return finding{Name: "tcpdump", OK: true, Detail: path}
}
