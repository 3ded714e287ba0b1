package main

import (
	"context"
	"os"

	"github.com/kjit-project/kjit/harness/debug"
	"github.com/kjit-project/kjit/harness/debug/screen"
)

// debugScreen shows the session on a terminal, in colours unless NO_COLOR is set.
func debugScreen(ctx context.Context, s *debug.Session, in, out *os.File) error {
	return screen.Run(ctx, s, in, out, os.Getenv("NO_COLOR") == "")
}
