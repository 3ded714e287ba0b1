// Command gen writes the packets of the corpus: run `go run ./corpus/gen` in
// the root of the module after a change of the table in packets.go. The file is
// the same on every machine; a test compares it with what gen makes.
package main

import (
	"fmt"
	"os"
)

const target = "corpus/packets.pcapng"

func main() {
	data, err := capture(packets())
	if err == nil {
		err = os.WriteFile(target, data, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}
