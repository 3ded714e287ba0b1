package jitx86

// pass0Seen: pass 0 is made without a prologue, and returns go by what has been
// seen up to them. Two passes can have the same size by accident while places
// have moved; the image is used in spite of its size changing once more.
func pass0Seen() *Emitter {
	t := linux310()
	t.passes = passes{liveFrame: true, extraPass: true}
	return &Emitter{
		Name:    "x86-pass0-seen",
		Summary: "the first pass knows no frame, so sizes can agree by accident",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.2",
			Fixed:    "3.3 (d00a9dd21bdf)",
		},
		rules: t,
	}
}
