package ciformat

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example(t *testing.T) *Run {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Command: "fuzz", Name: "st", Version: "kjit v9", Seconds: 1.5, Properties: []Property{{"seed", "1"}}}
	r.Add(Result{Name: "linux-3.10-x86_64", Message: "10 agree"})
	r.Add(Result{Name: "kjit-armv5", Outcome: Skipped, Message: "it ran nothing"})
	r.Add(Result{Rule: "a.and-k.value", Name: "a.and-k.value", Class: "a", Outcome: Failed, Kind: "value", Message: "at <1> & \x00", Detail: "]]> long\xff", File: filepath.Join(dir, "findings", "a b.txtar")})
	r.Add(Result{Rule: "b.ld.fault", Name: "x", Outcome: Failed, Kind: "fault", Message: "m", File: "../up.jsonl", Line: 7})
	r.Add(Result{Rule: "a.and-k.value", Name: "another", Outcome: Failed, Kind: "value", File: filepath.Join(filepath.Dir(dir), "elsewhere")})
	r.Add(Result{Rule: "c", Outcome: Failed})
	return r
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := example(t).WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suite    struct {
			Name  string `xml:"name,attr"`
			Time  string `xml:"time,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Class   string `xml:"classname,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Type    string `xml:"type,attr"`
					Data    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if got.Tests != 6 || got.Failures != 4 || got.Skipped != 1 || got.Suite.Name != "kjit fuzz st" || got.Suite.Time != "1.500" {
		t.Errorf("%+v", got)
	}
	c := got.Suite.Cases[2]
	if c.Class != "kjit.fuzz.a" || c.Failure == nil || c.Failure.Message != "at <1> & \uFFFD" || c.Failure.Type != "value" ||
		!strings.HasSuffix(c.Failure.Data, "findings/a b.txtar:1\n]]> long\uFFFD") {
		t.Errorf("%+v %+v", c, c.Failure)
	}
}

// required are the properties that SARIF 2.1.0 requires of the objects that are
// written here, by the path to them.
var required = map[string][]string{
	"":                       {"version", "runs"},
	"runs":                   {"tool"},
	"runs.tool":              {"driver"},
	"runs.tool.driver":       {"name"},
	"runs.tool.driver.rules": {"id"},
	"runs.tool.driver.rules.shortDescription":                  {"text"},
	"runs.invocations":                                         {"executionSuccessful"},
	"runs.results":                                             {"message"},
	"runs.results.message":                                     {"text"},
	"runs.results.locations.physicalLocation":                  {"artifactLocation"},
	"runs.results.locations.physicalLocation.artifactLocation": {"uri"},
}

// checkSARIF holds a file to what SARIF 2.1.0 requires, and GitHub beyond that.
func checkSARIF(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var log map[string]any
	if err := json.Unmarshal(data, &log); err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(path, e)
			}
		case map[string]any:
			met[path] = true
			for _, name := range required[path] {
				if text, isText := v[name].(string); v[name] == nil || isText && text == "" {
					t.Errorf("%s: no %s in %v", path, name, v)
				}
			}
			for name, e := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), e)
			}
		}
	}
	walk("", log)
	for path := range required {
		if !met[path] {
			t.Errorf("nothing at %s: this test sees little", path)
		}
	}
	if log["version"] != "2.1.0" {
		t.Errorf("version %v", log["version"])
	}
	for _, run := range log["runs"].([]any) {
		run := run.(map[string]any)
		rules := run["tool"].(map[string]any)["driver"].(map[string]any)["rules"].([]any)
		seen := map[any]bool{}
		for _, rule := range rules {
			id := rule.(map[string]any)["id"]
			if seen[id] {
				t.Errorf("rule %v is there twice", id)
			}
			seen[id] = true
		}
		for _, res := range run["results"].([]any) {
			res := res.(map[string]any)
			if i := int(res["ruleIndex"].(float64)); i < 0 || i >= len(rules) || rules[i].(map[string]any)["id"] != res["ruleId"] {
				t.Errorf("rule %v has not the index %v", res["ruleId"], res["ruleIndex"])
			}
			if level := res["level"]; level != "error" && level != "warning" && level != "note" && level != "none" {
				t.Errorf("level %v", level)
			}
			locations, _ := res["locations"].([]any)
			for _, l := range locations {
				p := l.(map[string]any)["physicalLocation"].(map[string]any)
				if line := p["region"].(map[string]any)["startLine"].(float64); line < 1 {
					t.Errorf("line %v", line)
				}
				a := p["artifactLocation"].(map[string]any)
				u, err := url.Parse(a["uri"].(string))
				if err != nil || u.IsAbs() == (a["uriBaseId"] != nil) || strings.Contains(a["uri"].(string), " ") {
					t.Errorf("%v: %v", a, err)
				}
			}
		}
	}
	return log
}

func TestSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := example(t).WriteSARIF(&b); err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, b.Bytes())
	var log sarifLog
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range log.Runs[0].Results {
		place := ""
		for _, l := range res.Locations {
			place = l.Physical.Artifact.BaseID + " " + l.Physical.Artifact.URI
		}
		got = append(got, strings.Join([]string{res.RuleID, res.Message.Text, place}, "|"))
	}
	dir, _ := os.Getwd()
	want := []string{
		"a.and-k.value|at <1> & \uFFFD|%SRCROOT% findings/a%20b.txtar",
		"b.ld.fault|m|%SRCROOT% ../up.jsonl",
		"a.and-k.value|another| file://" + filepath.ToSlash(filepath.Dir(dir)) + "/elsewhere",
		"c|c|",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(log.Runs[0].Tool.Driver.Rules); n != 3 {
		t.Errorf("%d rules, want 3", n)
	}
	results := log.Runs[0].Results
	if results[0].Fingerprints["kjit/v1"] == results[2].Fingerprints["kjit/v1"] {
		t.Error("different failures have one fingerprint")
	}
}

// A run without failures is a file as well: it closes what was open before.
func TestNothingFailed(t *testing.T) {
	var b bytes.Buffer
	if err := (&Run{Command: "verify"}).WriteSARIF(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"results": []`) || !strings.Contains(b.String(), `"rules": []`) {
		t.Error(b.String())
	}
}

func TestBounds(t *testing.T) {
	r := &Run{Command: "verify"}
	for range MaxFailures + 3 {
		r.Add(Result{Rule: "r", Outcome: Failed})
	}
	r.Add(Result{Name: "good"})
	last := r.Results[MaxFailures]
	if len(r.Results) != MaxFailures+2 || last.Message != "3 failures more than are shown" {
		t.Errorf("%d results, the last failure %+v", len(r.Results), last)
	}
	if text := clean(strings.Repeat("ä", 100), 51); text != strings.Repeat("ä", 25)+" ..." {
		t.Errorf("%q", text)
	}
}
