package main

import (
	"os"
	"runtime"
)

// processors is how many this process may use, as Go sees it.
var processors = runtime.GOMAXPROCS(0)

// spareThreads makes the most of jobs at a time that run emulators. They are in C
// most of the time, for longer than Go lets a goroutine keep its thread's place
// there, and coming back they wait for another place. With two to spare they seldom
// do, which with two jobs on two processors makes up for an eighth.
func spareThreads() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + 2)
	}
}
