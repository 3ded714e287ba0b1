package ciformat

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"net/url"
	"os"
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
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		ColumnKind  string            `json:"columnKind"`
		Properties  map[string]string `json:"properties,omitempty"`
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
		Locations    []sarifLocation   `json:"locations,omitempty"`
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
)

// WriteSARIF writes the failures of the run as SARIF. Paths inside the working
// folder become relative to it.
func (r *Run) WriteSARIF(w io.Writer) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "kjit", InformationURI: homepage, Version: r.Version, Rules: []sarifRule{}}},
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
		n, ok := index[res.Rule]
		if !ok {
			n = len(run.Tool.Driver.Rules)
			index[res.Rule] = n
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
				clean(res.Rule, maxMessage), sarifText{clean(describe(res), maxMessage)}, sarifConfiguration{"error"},
			})
		}
		out := sarifResult{
			RuleID: clean(res.Rule, maxMessage), RuleIndex: n, Level: "error", Message: sarifText{clean(message(res), maxMessage)},
			Fingerprints: map[string]string{"kjit/v1": fingerprint(res)},
		}
		if res.File != "" {
			var artifact sarifArtifact
			artifact.URI, artifact.BaseID = location(res.File)
			out.Locations = []sarifLocation{{sarifPhysical{artifact, sarifRegion{max(res.Line, 1)}}}}
		}
		run.Results = append(run.Results, out)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
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

// describe says what a rule's failures have in common.
func describe(res *Result) string {
	if res.Kind == "" {
		return res.Rule
	}
	return res.Rule + ": " + res.Kind
}

// fingerprint is the same for the same failure in another run: the rule, and what
// it is called, but not where it is.
func fingerprint(res *Result) string {
	h := fnv.New64a()
	io.WriteString(h, res.Rule+"\x00"+res.Name)
	return strconv.FormatUint(h.Sum64(), 16)
}

// location is a file as a URI, and the name of what it is relative to.
func location(file string) (uri, base string) {
	if filepath.IsAbs(file) {
		dir, err := os.Getwd()
		if err != nil {
			dir = string(filepath.Separator)
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil || !filepath.IsLocal(rel) {
			slashed := filepath.ToSlash(file)
			if !strings.HasPrefix(slashed, "/") {
				slashed = "/" + slashed // C:/...
			}
			return (&url.URL{Scheme: "file", Path: slashed}).String(), ""
		}
		file = rel
	}
	// "./" in front keeps a colon in the first part from being a scheme.
	uri = (&url.URL{Path: filepath.ToSlash(filepath.Clean(file))}).String()
	return strings.TrimPrefix(uri, "./"), srcRoot
}
