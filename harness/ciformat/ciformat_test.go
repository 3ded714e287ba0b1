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
	r.Add(Result{Rule: "c", Outcome: Failed, About: About{"c goes wrong", "What that means.", "kjit fuzz"}})
	r.Add(Result{Rule: "d", Name: "exec:./a b", Outcome: Failed, About: About{Full: strings.Repeat("long ", 1000)}})
	r.Add(Result{Outcome: Failed, File: "a:b"})
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
	if got.Tests != 8 || got.Failures != 6 || got.Skipped != 1 || got.Suite.Name != "kjit fuzz st" || got.Suite.Time != "1.500" {
		t.Errorf("%+v", got)
	}
	c := got.Suite.Cases[2]
	if c.Class != "kjit.fuzz.a" || c.Failure == nil || c.Failure.Message != "at <1> & \uFFFD" || c.Failure.Type != "value" ||
		!strings.HasSuffix(c.Failure.Data, "findings/a b.txtar:1\n]]> long\uFFFD") {
		t.Errorf("%+v %+v", c, c.Failure)
	}
}

// required are the properties that SARIF 2.1.0 requires of the objects that are
// written here, by the path to them, and those that GitHub's page "SARIF support
// for code scanning" calls required beyond that.
var required = map[string][]string{
	"":                       {"$schema", "version", "runs"},
	"runs":                   {"tool", "automationDetails", "results"},
	"runs.tool":              {"driver"},
	"runs.tool.driver":       {"name", "version", "rules"},
	"runs.tool.driver.rules": {"id", "shortDescription", "fullDescription", "help"},
	"runs.tool.driver.rules.shortDescription":                  {"text"},
	"runs.tool.driver.rules.fullDescription":                   {"text"},
	"runs.tool.driver.rules.help":                              {"text"},
	"runs.automationDetails":                                   {"id"},
	"runs.invocations":                                         {"executionSuccessful"},
	"runs.results":                                             {"message", "locations", "partialFingerprints"},
	"runs.results.message":                                     {"text"},
	"runs.results.locations":                                   {"physicalLocation"},
	"runs.results.locations.physicalLocation":                  {"artifactLocation", "region"},
	"runs.results.locations.physicalLocation.artifactLocation": {"uri"},
	"runs.results.locations.physicalLocation.region":           {"startLine"},
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
			for _, name := range []string{"shortDescription", "fullDescription"} {
				if text := rule.(map[string]any)[name].(map[string]any)["text"].(string); text == id || len(text) > 1024 {
					t.Errorf("rule %v: %s %q", id, name, text)
				}
			}
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
			if len(locations) == 0 {
				t.Errorf("%v has no location", res)
			}
			for _, l := range locations {
				p := l.(map[string]any)["physicalLocation"].(map[string]any)
				if line := p["region"].(map[string]any)["startLine"].(float64); line < 1 {
					t.Errorf("line %v", line)
				}
				a := p["artifactLocation"].(map[string]any)
				u, err := url.Parse(a["uri"].(string))
				if err != nil || u.IsAbs() == (a["uriBaseId"] != nil) || !u.IsAbs() && !filepath.IsLocal(u.Path) || strings.Contains(a["uri"].(string), " ") {
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
	above := " file://" + filepath.ToSlash(filepath.Dir(dir))
	want := []string{
		"a.and-k.value|at <1> & \uFFFD|%SRCROOT% findings/a%20b.txtar",
		"b.ld.fault|m|" + above + "/up.jsonl",
		"a.and-k.value|another|" + above + "/elsewhere",
		"c|c|%SRCROOT% kjit/fuzz/c",
		"d|exec:./a b|%SRCROOT% kjit/fuzz/exec-.-a-b",
		"kjit.fuzz|failed|%SRCROOT% ./a:b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var rules []string
	for _, r := range log.Runs[0].Tool.Driver.Rules {
		rules = append(rules, strings.Join([]string{r.ID, r.ShortDescription.Text, r.FullDescription.Text[:min(len(r.FullDescription.Text), 40)], r.Help.Text}, "|"))
	}
	want = []string{
		"a.and-k.value|kjit fuzz failed: value|kjit fuzz failed: value|Run the same kjit fuzz again.",
		"b.ld.fault|kjit fuzz failed: fault|kjit fuzz failed: fault|Run the same kjit fuzz again.",
		"c|c goes wrong|What that means.|kjit fuzz",
		"d|kjit fuzz failed: d|" + strings.Repeat("long ", 8) + "|Run the same kjit fuzz again.",
		"kjit.fuzz|kjit fuzz failed: kjit.fuzz|kjit fuzz failed: kjit.fuzz|Run the same kjit fuzz again.",
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
	results := log.Runs[0].Results
	if results[0].Fingerprints["kjit/v1"] == results[2].Fingerprints["kjit/v1"] {
		t.Error("different failures have one fingerprint")
	}
	if results[0].Fingerprints[lineHash] != "" || results[3].Fingerprints[lineHash] == "" {
		t.Error("what uploads a file hashes the lines of files, and of nothing else")
	}
}

// Runs of one upload have different categories, whatever they ran on.
func TestCategory(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct{ command, name, want string }{
		{"verify", "", "kjit/verify/"},
		{"fuzz", "kjit-fuzz", "kjit/fuzz/kjit-fuzz/"},
		{"verify", "kjit-fuzz", "kjit/verify/kjit-fuzz/"},
		{"verify", "testdata/a.jsonl b_2.jsonl", "kjit/verify/testdata-a.jsonl-b_2.jsonl/"},
		{"fuzz", "/home/me/../st/", "kjit/fuzz/home-me-..-st/"},
		{"replay", "corpus:alu-k", "kjit/replay/corpus-alu-k/"},
		{"replay", "ip[0] > 1", "kjit/replay/ip-0----1-1efe9017/"},
		{"replay", "ip[0] < 1", "kjit/replay/ip-0----1-fc2d2a0d/"},
		{"replay", "äöü", "kjit/replay/43db70b8/"},
		{"replay", strings.Repeat("a/", 60), "kjit/replay/" + strings.TrimSuffix(strings.Repeat("a-", 50), "-") + "-e0951a05/"},
	} {
		var b bytes.Buffer
		if err := (&Run{Command: c.command, Name: c.name}).WriteSARIF(&b); err != nil {
			t.Fatal(err)
		}
		var log sarifLog
		if err := json.Unmarshal(b.Bytes(), &log); err != nil {
			t.Fatal(err)
		}
		got := log.Runs[0].Automation.ID
		if got != c.want || seen[got] {
			t.Errorf("%q: %s, want %s, and once", c.name, got, c.want)
		}
		seen[got] = true
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
