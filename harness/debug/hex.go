package debug

import (
	"fmt"
	"strings"
)

// BytesPerLine is how many bytes of the input a line shows.
const BytesPerLine = 16

// HexLine writes a line of bytes from offset at on, those of a load in brackets,
// and then as text.
func HexLine(data []byte, at int, load Load) string {
	var hex, text strings.Builder
	end := min(at+BytesPerLine, len(data))
	for i := at; i < at+BytesPerLine; i++ {
		switch {
		case load.Size > 0 && i == load.Offset, load.Contains(i) && i == at:
			hex.WriteByte('[')
		case load.Size > 0 && i == load.Offset+load.Size && i > at:
			hex.WriteByte(']')
		default:
			hex.WriteByte(' ')
		}
		if i >= end {
			hex.WriteString("  ")
			continue
		}
		fmt.Fprintf(&hex, "%02x", data[i])
		c := data[i]
		if c < 0x20 || c > 0x7e {
			c = '.'
		}
		text.WriteByte(c)
	}
	closing := " "
	if load.Contains(end-1) && end == at+BytesPerLine {
		closing = "]"
	}
	return fmt.Sprintf("%s%s %s", hex.String(), closing, text.String())
}
