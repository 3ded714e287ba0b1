package paper

import "fmt"

// check states something with the numbers it rests on.
func check(text string, ok bool, format string, numbers ...Value) Check {
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = float64(n)
	}
	return Check{Text: text, OK: ok, Why: fmt.Sprintf(format, args...)}
}
