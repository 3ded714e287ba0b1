package kernelabi

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// HexBytes are bytes that text forms write as hex digits without separators.
type HexBytes []byte

// MarshalText writes lower-case digits.
func (b HexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

// UnmarshalText reads digits of either case; the error is a *HexError.
func (b *HexBytes) UnmarshalText(text []byte) error {
	for i, c := range text {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return &HexError{Offset: i, Reason: fmt.Sprintf("%q is not a hex digit", rune(c))}
		}
	}
	if len(text)%2 != 0 {
		return &HexError{Offset: len(text), Reason: "half a byte is missing at the end"}
	}
	*b = make([]byte, len(text)/2)
	_, err := hex.Decode(*b, text)
	return err
}

// HexError is hex text with a fault; Offset counts its characters from 0.
type HexError struct {
	Offset int
	Reason string
}

func (e *HexError) Error() string {
	return fmt.Sprintf("hex text, character %d: %s", e.Offset, e.Reason)
}

// HexUint is a number that text forms write with 0x: an address, a result.
type HexUint uint64

// MarshalText writes "0x1f".
func (u HexUint) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(u), 16), nil
}

// UnmarshalText reads what MarshalText writes.
func (u *HexUint) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	value, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("number %q: want 0x and up to 16 hex digits", text)
	}
	*u = HexUint(value)
	return nil
}

// HexAddresses are addresses of symbols as records write them.
func HexAddresses(symbols map[string]uint64) map[string]HexUint {
	out := make(map[string]HexUint, len(symbols))
	for name, addr := range symbols {
		out[name] = HexUint(addr)
	}
	return out
}

// addresses are those of a record's symbols.
func addresses(symbols map[string]HexUint) map[string]uint64 {
	out := make(map[string]uint64, len(symbols))
	for name, addr := range symbols {
		out[name] = uint64(addr)
	}
	return out
}
