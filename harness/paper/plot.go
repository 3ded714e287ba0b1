package paper

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/kjit-project/kjit/harness/chart"
)

// WriteSVG draws the columns that the table's plot names. Those of one unit have one
// scale, up to their largest value: what has another unit can be compared in shape.
func (t *Table) WriteSVG(w io.Writer) error {
	b := chart.Bars{Title: t.Title, Desc: t.Source + ". Columns of one unit have one scale."}
	largest := map[string]float64{} // by unit
	for _, c := range t.Plot.Columns {
		b.Series = append(b.Series, t.Columns[c].String())
		for _, row := range t.Rows {
			if v := row.Cells[c]; v.Known() {
				unit := t.Columns[c].Unit
				largest[unit] = math.Max(largest[unit], float64(v))
			}
		}
	}
	for _, row := range t.Rows {
		g := chart.Group{Label: row.Label}
		for _, c := range t.Plot.Columns {
			v := row.Cells[c]
			value := chart.Value{Known: v.Known()}
			if v.Known() {
				value.Text = v.Format(t.Columns[c].Decimals) + " " + t.Columns[c].Unit
				if most := largest[t.Columns[c].Unit]; most > 0 {
					value.Share = math.Max(0, float64(v)/most)
				}
			}
			g.Values = append(g.Values, value)
		}
		b.Groups = append(b.Groups, g)
	}
	return b.WriteSVG(w)
}

// String is the column in words: "no JIT, slow (published, ns)".
func (c Column) String() string { return fmt.Sprintf("%s (%s, %s)", c.Name, c.Origin, c.Unit) }

// Format writes the value with so many decimals, "-" where there is none.
func (v Value) Format(decimals int) string {
	if !v.Known() {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, float64(v))
}

// MarshalJSON writes a number, or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known() {
		return []byte("null"), nil
	}
	// Differences of published decimals are not exact in binary.
	return fmt.Appendf(nil, "%g", math.Round(float64(v)*1e6)/1e6), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(data []byte) error {
	var number *float64
	if err := json.Unmarshal(data, &number); err != nil {
		return err
	}
	*v = None
	if number != nil {
		*v = Value(*number)
	}
	return nil
}
