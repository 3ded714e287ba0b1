package seccompdata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// dataText is the JSON form of Data: {"nr": 1, "arch": "0xc000003e", "ip":
// "0x401000", "args": ["0x1", ...]}, six arguments.
type dataText struct {
	Nr   *int64    `json:"nr"`
	Arch *hexUint  `json:"arch"`
	IP   *hexUint  `json:"ip"`
	Args []hexUint `json:"args"`
}

// hexUint is a number that JSON writes as "0x1f".
type hexUint uint64

func (u hexUint) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(u), 16), nil
}

func (u *hexUint) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	value, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("number %.40q: want 0x and up to 16 hex digits", text)
	}
	*u = hexUint(value)
	return nil
}

// DataError is JSON that describes no system call.
type DataError struct {
	Field  string // "nr", "args", ...; "" if it is about the whole
	Reason string
}

func (e *DataError) Error() string {
	if e.Field == "" {
		return "system call: " + e.Reason
	}
	return "system call: " + e.Field + ": " + e.Reason
}

// MarshalJSON writes all fields.
func (d Data) MarshalJSON() ([]byte, error) {
	nr, arch, ip := int64(d.Nr), hexUint(d.Arch), hexUint(d.IP)
	text := dataText{Nr: &nr, Arch: &arch, IP: &ip}
	for _, arg := range d.Args {
		text.Args = append(text.Args, hexUint(arg))
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes; nr may also be negative, down to
// -1<<31. All fields have to be there and no others. Errors are *DataError.
func (d *Data) UnmarshalJSON(data []byte) error {
	var text dataText
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&text)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("there is more than one JSON value")
		}
	}
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return &DataError{kind.Field, "cannot be a " + kind.Value}
	case err != nil:
		return &DataError{"", strings.TrimPrefix(err.Error(), "json: ")}
	case text.Nr == nil:
		return &DataError{"nr", "is missing"}
	case *text.Nr < math.MinInt32 || *text.Nr > math.MaxUint32:
		return &DataError{"nr", fmt.Sprintf("%d does not fit in 32 bits", *text.Nr)}
	case text.Arch == nil:
		return &DataError{"arch", "is missing"}
	case *text.Arch > math.MaxUint32:
		return &DataError{"arch", fmt.Sprintf("%#x does not fit in 32 bits", uint64(*text.Arch))}
	case text.IP == nil:
		return &DataError{"ip", "is missing"}
	case len(text.Args) != len(d.Args):
		return &DataError{"args", fmt.Sprintf("%d arguments, want %d", len(text.Args), len(d.Args))}
	}
	*d = Data{Nr: uint32(*text.Nr), Arch: uint32(*text.Arch), IP: uint64(*text.IP)}
	for i, arg := range text.Args {
		d.Args[i] = uint64(arg)
	}
	return nil
}
