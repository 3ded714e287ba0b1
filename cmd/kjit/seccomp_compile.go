package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/seccompdata"
	"github.com/kjit-project/kjit/seccompdata/policy"
)

type seccompCompileCmd struct {
	Profile string   `arg:"" help:"Profile: a JSON file of the OCI runtime specification or of Docker, a config.json, - for standard input, or docker-default."`
	Form    string   `default:"d" placeholder:"FORM" help:"Form to write: ${forms} (default ${default})."`
	ABI     []string `name:"abi" placeholder:"NAME" help:"The same as --arches."`

	profileFlags
}

// Help is the long help text.
func (c *seccompCompileCmd) Help() string {
	return `The program goes to standard output. What is known of it, and what in the profile does not mean what it may seem to, goes to standard error.

What a profile leaves open is decided as runc and libseccomp do it; --same-arg and says otherwise. The mean cost is in executed BPF instructions with all arguments 0, over the calls of the histogram, or else over all calls of an ABI.`
}

func (c *seccompCompileCmd) Run(std streams, global *cli) error {
	form, err := bpftext.FormByName(c.Form)
	if err != nil {
		return badInput(fmt.Errorf("--form: %w", err))
	}
	c.Arches = append(c.Arches, c.ABI...)
	data, name, err := readFilterFile(c.Profile, &c.profileFlags, std.in)
	if err != nil {
		return err
	}
	filters, err := c.compile(name, data)
	if err != nil {
		return err
	}
	filter := filters[0]
	text, err := bpftext.Format(form, filter.Program())
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", name, err))
	}
	costs, err := filter.Compiled.Policy.Costs(filter.Program(), filter.Compiled.Options.Histogram)
	if err != nil {
		return err
	}
	if global.JSON {
		return c.object(std.out, filter, form, text, costs)
	}
	c.remarks(std.err, filter, costs)
	_, err = std.out.Write(text)
	return err
}

// remarks tells people what became of the profile.
func (c *seccompCompileCmd) remarks(w io.Writer, f *seccompFilter, costs []policy.Cost) {
	p := f.Compiled.Policy
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "%s: warning: %s\n", f.Source, warning)
	}
	if len(p.Unknown) > 0 {
		fmt.Fprintf(w, "%s: %s unknown to %s left out: %s\n", f.Source, plural(len(p.Unknown), "call"), abiList(p.ABIs), few(p.Unknown, 5))
	}
	fmt.Fprintf(w, "%s: %s for %s; layout %s: %s, %d converted, up to %d on a task\n", f.Source, plural(len(p.Rules), "rule"),
		abiList(p.ABIs), f.Compiled.Compiled.Layout, plural(f.Len(), "instruction"), f.Converted, (seccompdata.Chain{}).Depth(f.Converted))
	for _, cost := range costs {
		if cost.Weight > 0 {
			fmt.Fprintf(w, "%s: %s: %.2f instructions a call\n", f.Source, cost.ABI, cost.Mean)
		}
		if len(cost.Unknown) > 0 {
			fmt.Fprintf(w, "%s: %s: %s of the histogram unknown, and not counted: %s\n", f.Source, cost.ABI, plural(len(cost.Unknown), "call"), few(cost.Unknown, 5))
		}
	}
}

// few lists some names and counts the others.
func few(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

func abiList(abis []*seccompdata.ABI) string {
	var names []string
	for _, abi := range abis {
		names = append(names, abi.Name)
	}
	return strings.Join(names, ", ")
}

// compiledJSON is a compiled profile for programs.
type compiledJSON struct {
	Type      string        `json:"type"` // "filter"
	Profile   string        `json:"profile"`
	ABIs      []string      `json:"abis"`
	Layout    policy.Layout `json:"layout"`
	Insns     int           `json:"insns"`
	Converted int           `json:"converted"`
	Stacked   int           `json:"max_stacked"`
	Costs     []costJSON    `json:"costs"`
	Unknown   []string      `json:"unknown"` // names of calls that are left out
	Warnings  []warningJSON `json:"warnings"`
	Rules     []ruleJSON    `json:"rules"`
	RuleOf    []int         `json:"rule_of"` // for each instruction an index into rules, or -1
	Program   bpf.Program   `json:"program"`
	Form      string        `json:"form"`
	Text      string        `json:"text,omitempty"` // not of raw forms
}

type costJSON struct {
	ABI     string   `json:"abi"`
	Mean    float64  `json:"mean"`
	Weight  float64  `json:"weight"`
	Unknown []string `json:"unknown,omitempty"`
}

type warningJSON struct {
	Where  string `json:"where,omitempty"`
	Reason string `json:"reason"`
}

type ruleJSON struct {
	ABI        string   `json:"abi"`
	Nr         uint32   `json:"nr"`
	Call       string   `json:"call"`
	Ret        uint32   `json:"ret"`
	Conditions []string `json:"conditions,omitempty"`
	Where      string   `json:"where"`
}

func (c *seccompCompileCmd) object(w io.Writer, f *seccompFilter, form bpftext.Form, text []byte, costs []policy.Cost) error {
	p := f.Compiled.Policy
	out := compiledJSON{
		Type: "filter", Profile: f.Source, ABIs: []string{}, Layout: f.Compiled.Compiled.Layout,
		Insns: f.Len(), Converted: f.Converted, Stacked: (seccompdata.Chain{}).Depth(f.Converted),
		Costs: []costJSON{}, Unknown: append([]string{}, p.Unknown...), Warnings: []warningJSON{}, Rules: []ruleJSON{},
		RuleOf: f.Compiled.Compiled.Rules, Program: f.Program(), Form: form.String(), Text: textOf(form, text),
	}
	for _, abi := range p.ABIs {
		out.ABIs = append(out.ABIs, abi.Name)
	}
	for _, cost := range costs {
		out.Costs = append(out.Costs, costJSON{cost.ABI.Name, cost.Mean, cost.Weight, cost.Unknown})
	}
	for _, warning := range p.Warnings {
		out.Warnings = append(out.Warnings, warningJSON{warning.Where, warning.Reason})
	}
	for _, r := range p.Rules {
		rule := ruleJSON{ABI: r.ABI.Name, Nr: r.Nr, Call: r.Call, Ret: r.Ret, Where: r.Where}
		for _, condition := range r.Conditions {
			rule.Conditions = append(rule.Conditions, condition.String())
		}
		out.Rules = append(out.Rules, rule)
	}
	return json.NewEncoder(w).Encode(out)
}
