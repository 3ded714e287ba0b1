package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/seccompdata"
)

// Histogram says how often each call is made. The zero value says nothing.
type Histogram struct {
	// Modes has the weight of each call by name. The key is the ABI, or nil for
	// the native one, whichever that is.
	Modes map[*seccompdata.ABI]map[string]float64
}

// HistogramError is a line that is none of a histogram.
type HistogramError struct {
	Name   string // of the file
	Line   int    // from 1; 0 if it is about the whole
	Reason string
}

func (e *HistogramError) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
}

// Empty reports whether nothing is known.
func (h Histogram) Empty() bool { return len(h.Modes) == 0 }

// Weights returns the weight of each call of an ABI by name. The native one also
// makes the calls of no particular ABI.
func (h Histogram) Weights(abi *seccompdata.ABI, native bool) map[string]float64 {
	weights := h.Modes[abi]
	if native {
		weights = maps.Clone(weights)
		if weights == nil {
			weights = map[string]float64{}
		}
		for name, w := range h.Modes[nil] {
			weights[name] += w
		}
	}
	return weights
}

func (h *Histogram) add(abi *seccompdata.ABI, name string, weight float64) {
	if h.Modes == nil {
		h.Modes = map[*seccompdata.ABI]map[string]float64{}
	}
	if h.Modes[abi] == nil {
		h.Modes[abi] = map[string]float64{}
	}
	h.Modes[abi][name] += weight
}

// ParseHistogram reads what strace prints with -c, -C, -w and any -U that has
// calls, or lines of a name and a count, in this order or the other. Where
// strace saw processes of several ABIs, it prints a table for each. Several
// tables of one ABI are added up. Its errors are *HistogramError.
func ParseHistogram(name string, data []byte) (Histogram, error) {
	lines := strings.Split(string(data), "\n")
	parse := plainCounts
	for i := range lines {
		if isHeader(lines, i) {
			parse = straceTables
			break
		}
	}
	h, err := parse(lines)
	if err == nil && h.Empty() {
		err = &HistogramError{Reason: "it has no system calls: want the output of strace -c, or lines with a name and a count"}
	}
	var at *HistogramError
	if errors.As(err, &at) {
		at.Name = name
	}
	return h, err
}

// straceModes are the words in which strace names the ABI of a table.
var straceModes = map[string][]*seccompdata.ABI{
	"64 bit": {seccompdata.X86_64, seccompdata.AARCH64},
	"32 bit": {seccompdata.I386, seccompdata.ARM},
	"x32":    {seccompdata.X32},
}

// isHeader recognizes the first line of a table, "% time  seconds  ...  syscall",
// by the line of dashes below it.
func isHeader(lines []string, i int) bool {
	fields := strings.Fields(lines[i])
	return slices.Contains(fields, "calls") && slices.Contains(fields, "syscall") &&
		i+1 < len(lines) && isRule(lines[i+1])
}

func isRule(line string) bool {
	return strings.HasPrefix(line, "--") && strings.Trim(line, "- \r") == ""
}

// straceTables reads tables and passes over all that is between them, such as
// the trace itself.
func straceTables(lines []string) (Histogram, error) {
	var h Histogram
	var columns []string // of the table that is open
	modes := []*seccompdata.ABI{nil}
	rules := 0 // lines of dashes seen in it
	for i, line := range lines {
		if mode, ok := modeLine(line); ok {
			modes = mode
			continue
		}
		if isHeader(lines, i) {
			columns, rules = strings.Fields(strings.Replace(line, "% time", "%time", 1)), 0
			continue
		}
		fields := strings.Fields(line)
		switch {
		case columns == nil || len(fields) == 0:
			continue
		case isRule(line):
			// The second one is above the total.
			if rules++; rules == 2 {
				columns = nil
			}
			continue
		}
		call, count, err := tableRow(columns, fields)
		if err != nil {
			return h, &HistogramError{Line: i + 1, Reason: err.Error()}
		}
		for _, abi := range modes {
			h.add(abi, call, count)
		}
	}
	return h, nil
}

// modeLine reads "System call usage summary for 32 bit mode:".
func modeLine(line string) ([]*seccompdata.ABI, bool) {
	_, rest, ok := strings.Cut(line, "System call usage summary for ")
	if !ok {
		return nil, false
	}
	mode, _, _ := strings.Cut(rest, " mode")
	abis, ok := straceModes[mode]
	if !ok {
		abis = []*seccompdata.ABI{nil}
	}
	return abis, true
}

// tableRow reads a row. The field of a call without errors is empty.
func tableRow(columns, fields []string) (call string, count float64, err error) {
	errorsAt := slices.Index(columns, "errors")
	if len(fields) == len(columns)-1 && errorsAt >= 0 {
		fields = slices.Insert(slices.Clone(fields), errorsAt, "")
	}
	if len(fields) != len(columns) {
		return "", 0, fmt.Errorf("%d fields, and the table has %d columns", len(fields), len(columns))
	}
	for i, column := range columns {
		switch column {
		case "calls":
			if count, err = parseCount(fields[i]); err != nil {
				return "", 0, err
			}
		case "syscall":
			call = fields[i]
		}
	}
	return call, count, nil
}

// plainCounts reads lines of a name and a count, or a count and a name, as
// uniq -c prints them.
func plainCounts(lines []string) (Histogram, error) {
	var h Histogram
	for i, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return h, &HistogramError{Line: i + 1, Reason: fmt.Sprintf("%.60q: want a name and a count", strings.TrimSpace(line))}
		}
		call, count := fields[0], fields[1]
		if call[0] >= '0' && call[0] <= '9' {
			call, count = count, call
		}
		weight, err := parseCount(count)
		if err != nil {
			return h, &HistogramError{Line: i + 1, Reason: err.Error()}
		}
		h.add(nil, call, weight)
	}
	return h, nil
}

func parseCount(text string) (float64, error) {
	count, err := strconv.ParseFloat(text, 64)
	if err != nil || count < 0 || math.IsInf(count, 0) || math.IsNaN(count) || count > 1e18 {
		return 0, fmt.Errorf("%.40q is no count", text)
	}
	return count, nil
}
