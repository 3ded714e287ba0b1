// Package kjit_test holds what is true of the module as a whole.
package kjit_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/kjit-project/kjit/"

// layers says what each package tree may import of this module, itself apart.
// "std" alone means that it imports nothing from outside the standard library.
var layers = map[string][]string{
	"bpf":          {"std"},
	"seccompdata":  {"bpf"},
	"kernelabi":    {"bpf", "seccompdata"},
	"internal/x86": {"std"},
	"internal/arm": {"std"},
	"internal/jit": {"bpf", "kernelabi"},
	"jitx86":       {"bpf", "kernelabi", "internal"},
	"jitarm":       {"bpf", "kernelabi", "internal"},
	"emulator":     {"kernelabi", "seccompdata", "internal"},
	"corpus":       {"bpf", "kernelabi", "seccompdata"},
	"harness":      {"bpf", "seccompdata", "kernelabi", "internal", "jitx86", "jitarm", "emulator", "corpus"},
	"docs":         {"std"},
	"cmd":          {"bpf", "seccompdata", "kernelabi", "internal", "jitx86", "jitarm", "emulator", "corpus", "harness"},
}

// pureGo are the trees that work without cgo, and so without Unicorn.
var pureGo = []string{"bpf", "seccompdata", "kernelabi", "internal", "jitx86", "jitarm", "corpus", "harness/livekernel/probe", "harness/qemu/wire", "harness/qemu/guest"}

type goPackage struct {
	ImportPath string
	Imports    []string
	CgoFiles   []string
	Standard   bool
}

func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,CgoFiles,Standard", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]goPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	checked := 0
	for path, p := range packages {
		rel, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		checked++
		tree, may := layerOf(rel)
		if may == nil {
			t.Errorf("%s belongs to no layer: add it to the table", rel)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module)
			switch {
			case ours && !under(dep, tree) && !underAny(dep, may):
				t.Errorf("%s imports %s, which is not below it", rel, dep)
			case !ours && may[0] == "std" && imp != "C" && !packages[imp].Standard:
				t.Errorf("%s imports %s: it may use the standard library only", rel, imp)
			}
		}
		if underAny(rel, pureGo) && reaches(packages, path, usesCgo, map[string]bool{}) {
			t.Errorf("%s needs cgo", rel)
		}
	}
	if checked < len(layers) {
		t.Errorf("only %d packages were seen", checked)
	}
}

// layerOf finds the longest entry of layers that rel lies in.
func layerOf(rel string) (tree string, may []string) {
	for prefix, m := range layers {
		if under(rel, prefix) && len(prefix) > len(tree) {
			tree, may = prefix, m
		}
	}
	return tree, may
}

func under(rel, tree string) bool { return rel == tree || strings.HasPrefix(rel, tree+"/") }

func underAny(rel string, trees []string) bool {
	for _, tree := range trees {
		if under(rel, tree) {
			return true
		}
	}
	return false
}

// usesCgo looks outside the standard library, whose cgo is optional.
func usesCgo(p goPackage) bool { return !p.Standard && len(p.CgoFiles) > 0 }

func reaches(packages map[string]goPackage, path string, is func(goPackage) bool, seen map[string]bool) bool {
	if seen[path] {
		return false
	}
	seen[path] = true
	if is(packages[path]) {
		return true
	}
	for _, imp := range packages[path].Imports {
		if reaches(packages, imp, is, seen) {
			return true
		}
	}
	return false
}
