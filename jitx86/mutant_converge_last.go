package jitx86

// convergeLast: sizes that agree first in the last pass allowed leave an image
// that was allocated and never written, and is used.
func convergeLast() *Emitter {
	t := linux310()
	t.passes.extraPass = false
	return &Emitter{
		Name:    "x86-converge-last",
		Summary: "sizes that agree in the last pass leave an unwritten image",
		Fault: &Fault{
			Base:     "linux-3.10",
			Versions: "3.0 to 3.15 before stable fixes",
			Fixed:    "stable trees, 3.4.113 and 3.10.99 among them (3f7352bf21f8)",
			Rules:    []string{"unwritten-image"},
		},
		rules: t,
	}
}
