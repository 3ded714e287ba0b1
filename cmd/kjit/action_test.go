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

// sarifLines is a command of scripts: it prints the results of SARIF files, a line
// each with category, rule, place, the rule's description and how to run it again.
// What GitHub refuses is an error: a result without a location, two files of one
// category, a rule that is not described.
func sarifLines() {
	type text struct{ Text string }
	categories := map[string]bool{}
	for _, name := range os.Args[1:] {
		fail := func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "sariflines: %s: %s\n", name, fmt.Sprintf(format, args...))
			os.Exit(1)
		}
		var log struct {
			Runs []struct {
				Tool struct {
					Driver struct {
						Rules []struct {
							ID                                      string
							ShortDescription, FullDescription, Help text
						}
					}
				}
				AutomationDetails struct{ ID string }
				Results           []struct {
					RuleID    string
					RuleIndex int
					Message   text
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI string }
							Region           struct{ StartLine int }
						}
					}
				}
			}
		}
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &log)
		}
		if err != nil || len(log.Runs) != 1 {
			fail("%v, %d runs", err, len(log.Runs))
		}
		run := &log.Runs[0]
		category := run.AutomationDetails.ID
		if categories[category] || !strings.HasSuffix(category, "/") {
			fail("category %q: it is there twice, or no slash ends it", category)
		}
		categories[category] = true
		for _, res := range run.Results {
			rule := &run.Tool.Driver.Rules[res.RuleIndex]
			if rule.ID != res.RuleID || res.Message.Text == "" || rule.Help.Text == "" || len(rule.FullDescription.Text) <= len(rule.ID) {
				fail("%+v of rule %+v", res, rule)
			}
			if len(res.Locations) != 1 {
				fail("%s has %d locations", res.RuleID, len(res.Locations))
			}
			at := res.Locations[0].PhysicalLocation
			fmt.Printf("%s %s %s:%d | %s | %s\n", category, res.RuleID, at.ArtifactLocation.URI, at.Region.StartLine, rule.ShortDescription.Text, rule.Help.Text)
		}
	}
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
		case strings.Contains(s.Uses, "upload-sarif") && s.With["category"] != "":
			t.Errorf("step %d: one category for all files, of which GitHub then takes none", i)
		case s.Uses != "" && !regexp.MustCompile(`^[\w-]+/[\w-]+(/[\w-]+)*@v\d+$`).MatchString(s.Uses):
			t.Errorf("step %d: uses %s", i, s.Uses)
		}
		if s.ID != "" {
			outputs[s.ID] = s.Run
		}
		if s.Uses == "actions/cache/restore@v5" {
			outputs[s.ID] = "cache-hit= cache-primary-key="
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
