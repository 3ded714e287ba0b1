package ciformat

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// The parts of SARIF 2.1.0 that are written (OASIS Standard, 27 March 2020).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Automation  sarifAutomation   `json:"automationDetails"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		ColumnKind  string            `json:"columnKind"`
		Properties  map[string]string `json:"properties,omitempty"`
	}
	sarifAutomation struct {
		ID string `json:"id"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name            string      `json:"name"`
		InformationURI  string      `json:"informationUri"`
		SemanticVersion string      `json:"semanticVersion,omitempty"`
		Version         string      `json:"version,omitempty"`
		Rules           []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string             `json:"id"`
		ShortDescription     sarifText          `json:"shortDescription"`
		FullDescription      sarifText          `json:"fullDescription"`
		Help                 sarifText          `json:"help"`
		DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct {
		Level string `json:"level"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool `json:"executionSuccessful"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://json.schemastore.org/sarif-2.1.0.json"
	homepage     = "https://github.com/kjit-project/kjit"

	// srcRoot is the name of the folder that relative paths are in, which whoever
	// reads the file knows: the root of the repository.
	srcRoot = "%SRCROOT%"

	// lineHash is the one fingerprint that GitHub looks at. For files that it has,
	// what uploads to it makes its own.
	lineHash = "primaryLocationLineHash"
)

// WriteSARIF writes the failures of the run as SARIF. Paths inside the working
// folder become relative to it.
func (r *Run) WriteSARIF(w io.Writer) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "kjit", InformationURI: homepage, Version: r.Version, Rules: []sarifRule{}}},
		Automation:  sarifAutomation{r.category()},
		Invocations: []sarifInvocation{{true}},
		Results:     []sarifResult{},
		ColumnKind:  "utf16CodeUnits",
		Properties:  map[string]string{"command": "kjit " + r.Command},
	}
	for _, p := range r.Properties {
		run.Properties[clean(p.Name, maxMessage)] = clean(p.Value, maxMessage)
	}
	index := map[string]int{}
	for i := range r.Results {
		res := &r.Results[i]
		if res.Outcome != Failed {
			continue
		}
		rule := r.rule(res)
		n, ok := index[rule.ID]
		if !ok {
			n = len(run.Tool.Driver.Rules)
			index[rule.ID] = n
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
		}
		out := sarifResult{
			RuleID: rule.ID, RuleIndex: n, Level: "error", Message: sarifText{clean(message(res), maxMessage)},
			Fingerprints: map[string]string{"kjit/v1": fingerprint(res)},
		}
		file := res.File
		if file == "" { // GitHub refuses a whole file for one result without a location
			file = path.Join("kjit", r.Command, slug(cmp.Or(res.Name, rule.ID)))
			out.Fingerprints[lineHash] = fingerprint(res)
		}
		var artifact sarifArtifact
		artifact.URI, artifact.BaseID = location(file)
		out.Locations = []sarifLocation{{sarifPhysical{artifact, sarifRegion{max(res.Line, 1)}}}}
		run.Results = append(run.Results, out)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}

// category tells the run from others of the same upload, which GitHub refuses if
// two have the same; a later one of that category takes its place. What is behind
// the last slash would tell runs of one category apart: nothing does.
func (r *Run) category() string {
	return path.Join("kjit", r.Command, slug(r.Name)) + "/"
}

// rule describes what a failure has in common with others.
func (r *Run) rule(res *Result) sarifRule {
	id := clean(cmp.Or(res.Rule, "kjit."+r.Command), maxMessage)
	brief := cmp.Or(res.About.Brief, strings.TrimSpace("kjit "+r.Command+" failed: "+cmp.Or(res.Kind, id)))
	about := func(text string) sarifText { return sarifText{clean(text, maxAbout)} }
	return sarifRule{
		id, about(brief), about(cmp.Or(res.About.Full, brief)),
		about(cmp.Or(res.About.Again, "Run the same kjit "+r.Command+" again.")), sarifConfiguration{"error"},
	}
}

// message is the text of a result; there has to be one.
func message(res *Result) string {
	for _, text := range []string{res.Message, res.Name, res.Rule} {
		if text != "" {
			return text
		}
	}
	return "failed"
}

// fingerprint is the same for the same failure in another run: the rule, and what
// it is called, but not where it is.
func fingerprint(res *Result) string {
	h := fnv.New64a()
	io.WriteString(h, res.Rule+"\x00"+res.Name)
	return strconv.FormatUint(h.Sum64(), 16)
}

// location is a file as a URI, and the name of what it is relative to: of what is
// outside the working folder nothing, since some readers take no "..".
func location(file string) (uri, base string) {
	dir, err := os.Getwd()
	if err != nil {
		dir = string(filepath.Separator)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		slashed := filepath.ToSlash(file)
		if !strings.HasPrefix(slashed, "/") {
			slashed = "/" + slashed // C:/...
		}
		return (&url.URL{Scheme: "file", Path: slashed}).String(), ""
	}
	return (&url.URL{Path: filepath.ToSlash(rel)}).String(), srcRoot
}
