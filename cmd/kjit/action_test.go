package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// jsonField is a command of scripts: it writes the first text that a field of the
// lines of a file has into another file.
func jsonField() {
	field, from, to := os.Args[1], os.Args[2], os.Args[3]
	data, err := os.ReadFile(from)
	for line := range strings.Lines(string(data)) {
		var record map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(line), &record)
		}
		if text, ok := record[field].(string); err == nil && ok {
			if err = os.WriteFile(to, []byte(text), 0o666); err == nil {
				return
			}
		}
	}
	fmt.Fprintf(os.Stderr, "jsonfield: no text %s in %s: %v\n", field, from, err)
	os.Exit(1)
}

// action is a composite action of GitHub's.
type action struct {
	Name, Description string
	Inputs            map[string]struct {
		Description string
		Default     *string
		Required    bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	ID, Name, If, Uses, Shell, Run string
	With, Env                      map[string]string
}

// reference is an expression that names an input, or an output of a step.
var (
	reference  = regexp.MustCompile(`\b(inputs|steps)\.([\w-]+)(?:\.outputs\.([\w-]+))?`)
	expression = regexp.MustCompile(`\$\{\{(.*?)\}\}`)
)

func readAction(t *testing.T) (a action, text string) {
	t.Helper()
	data, err := os.ReadFile("../../ci/action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a, string(data)
}

// The action is one that GitHub takes: every step runs something, and every name
// that is used is that of something.
func TestAction(t *testing.T) {
	a, text := readAction(t)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Errorf("%+v", a)
	}
	outputs := map[string]string{} // what a step's script says, by the step's id
	for i, s := range a.Runs.Steps {
		switch {
		case (s.Uses == "") == (s.Run == ""):
			t.Errorf("step %d: either uses or run", i)
		case s.Run != "" && s.Shell == "":
			t.Errorf("step %d: the steps of composite actions name their shell", i)
		case s.Uses != "" && !regexp.MustCompile(`^[\w-]+/[\w-]+(/[\w-]+)*@v\d+$`).MatchString(s.Uses):
			t.Errorf("step %d: uses %s", i, s.Uses)
		}
		if s.ID != "" {
			outputs[s.ID] = s.Run
		}
		for _, m := range regexp.MustCompile(`\$GITHUB_ACTION_PATH/([\w./-]+\w)`).FindAllStringSubmatch(s.Run, -1) {
			info, err := os.Stat(filepath.Join("../../ci/action", m[1]))
			if err != nil || strings.HasSuffix(m[1], ".sh") && info.Mode()&0o111 == 0 {
				t.Errorf("step %d: %s: %v: want a script that can be run", i, m[1], err)
			}
		}
	}
	script, err := os.ReadFile("../../ci/action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var expressions []string
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		expressions = append(expressions, m[1])
	}
	for _, m := range reference.FindAllStringSubmatch(strings.Join(expressions, "\n"), -1) {
		used[m[1]+"."+m[2]] = true
		if _, ok := a.Inputs[m[2]]; m[1] == "inputs" && !ok {
			t.Errorf("there is no input %s", m[2])
		}
		if run, ok := outputs[m[2]]; m[1] == "steps" && (!ok || !strings.Contains(run+string(script), m[3]+"=")) {
			t.Errorf("no step %s writes an output %s", m[2], m[3])
		}
	}
	for name, in := range a.Inputs {
		if in.Description == "" || in.Default == nil && !in.Required || !used["inputs."+name] {
			t.Errorf("input %s: has no description or default, or is not used", name)
		}
	}
	// What the step hands to the script is what the script reads.
	var handed []string
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "run.sh") {
			for name := range s.Env {
				handed = append(handed, name)
			}
		}
	}
	read := regexp.MustCompile(`\$\{(KJIT[A-Z_]*)`).FindAllStringSubmatch(string(script), -1)
	for _, m := range read {
		if !slices.Contains(handed, m[1]) {
			t.Errorf("run.sh reads %s, which no step hands to it", m[1])
		}
	}
	for _, name := range handed {
		if !slices.ContainsFunc(read, func(m []string) bool { return m[1] == name }) {
			t.Errorf("run.sh does not read %s", name)
		}
	}
}

// What docs/ci.md shows is YAML, and gives the action inputs that it has, with the
// defaults that it has.
func TestActionDocs(t *testing.T) {
	a, _ := readAction(t)
	page, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want one for GitHub and one for GitLab", len(blocks))
	}
	var workflow struct {
		On   any
		Jobs map[string]struct {
			Steps []actionStep
		}
	}
	if err := yaml.Unmarshal([]byte(blocks[0][1]), &workflow); err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, s := range workflow.Jobs["kjit"].Steps {
		if !strings.Contains(s.Uses, "ci/action") {
			continue
		}
		for name := range s.With {
			with++
			if _, ok := a.Inputs[name]; !ok {
				t.Errorf("the action has no input %s", name)
			}
		}
	}
	if with == 0 {
		t.Error("the example gives the action nothing")
	}
	var pipeline map[string]struct {
		Variables map[string]string
		Script    []string
	}
	if err := yaml.Unmarshal([]byte(blocks[1][1]), &pipeline); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../ci/action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name := range pipeline["kjit"].Variables {
		if strings.HasPrefix(name, "KJIT_") && !strings.Contains(string(script), "#   "+name+" ") {
			t.Errorf("run.sh does not tell of %s", name)
		}
	}
	for name, in := range a.Inputs {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*\\| (.*) \\|$").FindStringSubmatch(string(page))
		if row == nil || strings.HasPrefix(row[1], "`") && row[1] != "`"+*in.Default+"`" {
			t.Errorf("input %s: the page has %q", name, row)
		}
	}
}
