// Package paper puts the published measurements of the systems that kjit models
// beside counts of executed instructions from the emulator. The counts are the
// same on every host; times are not, and none are taken but by [Table.Measure].
package paper

import "math"

// Table is one publication's table with kjit's counts beside it.
type Table struct {
	Name    string   `json:"name"` // "dumazet-2011"
	Title   string   `json:"title"`
	Source  string   `json:"source"` // who published it, when, on what
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
	Checks  []Check  `json:"checks,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Plot    Plot     `json:"plot"`
}

// Column is what a table has a number of in every row.
type Column struct {
	Name     string `json:"name"` // "no JIT, slow"
	Unit     string `json:"unit"` // "ns", "instructions", "x"
	Origin   Origin `json:"origin"`
	Decimals int    `json:"decimals,omitempty"` // that are printed
}

// Origin says where the numbers of a column come from.
type Origin string

const (
	Published Origin = "published" // the table's source has them, or they are computed from those
	Counted   Origin = "counted"   // executed instructions, the same on every host
	Measured  Origin = "measured"  // times, on the host that prints the table
)

// Row is one line; Cells belong to the columns, NaN where there is no number.
type Row struct {
	Label string  `json:"label"`
	Cells []Value `json:"cells"`
}

// Value is a number or NaN, which is null in JSON.
type Value float64

// None is the value of an empty cell.
var None = Value(math.NaN())

// Known reports whether there is a number.
func (v Value) Known() bool { return !math.IsNaN(float64(v)) }

// Check is something the publication says that the counts must show too, or a
// check that it makes itself.
type Check struct {
	Text string `json:"check"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitempty"` // the numbers; for checks that do not hold, the reason
}

// Plot says which columns a picture of the table shows, side by side for every
// row, those of one unit on one scale.
type Plot struct {
	Columns []int `json:"columns"`
}
