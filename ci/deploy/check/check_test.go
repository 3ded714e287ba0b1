// Package check holds the deployment files against what will read them: the types
// of the Kubernetes API, the schema of compose files, and the parser and linter of
// BuildKit. It is a module of its own, as kjit needs none of these.
package check

import (
	"bytes"
	"os"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKubernetes: every field is one of the API, and has its type.
func TestKubernetes(t *testing.T) {
	manifests := bytes.Split(read(t, "../kubernetes/kjit.yaml"), []byte("\n---\n"))
	if len(manifests) != 2 {
		t.Fatalf("%d manifests, want 2", len(manifests))
	}
	for _, m := range manifests {
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict(m, &d); err != nil {
			t.Error(err)
		}
		if d.Kind != "Deployment" || d.APIVersion != appsv1.SchemeGroupVersion.String() || len(d.Spec.Template.Spec.Containers) != 1 {
			t.Errorf("%s: not one container of a Deployment of apps/v1: %+v", d.Name, d)
		}
	}
}

// TestCompose: the file is as the schema has it, with and without what it asks for.
func TestCompose(t *testing.T) {
	load := func(env ...string) error {
		options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithEnv(env), cli.WithProfiles([]string{"tools"}))
		if err != nil {
			t.Fatal(err)
		}
		p, err := options.LoadProject(t.Context())
		if err != nil {
			return err
		}
		for _, name := range []string{"nats", "coordinator", "worker", "status"} {
			if _, err := p.GetService(name); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	if err := load("KJIT_PASSWORD=secret"); err != nil {
		t.Error(err)
	}
	if err := load(); err == nil {
		t.Error("no password is asked for")
	}
}

// TestDockerfile: BuildKit parses it and has nothing to complain of.
func TestDockerfile(t *testing.T) {
	const file = "../Dockerfile"
	ast, err := parser.Parse(bytes.NewReader(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ast.Warnings {
		t.Errorf("%s: %s", file, w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, at []parser.Range) {
		t.Errorf("%s: %s: %s (%v)", file, rule, message, at)
	}})
	stages, _, err := instructions.Parse(ast.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || stages[1].BaseName != "scratch" {
		t.Errorf("%s: %d stages, want two, the second from scratch", file, len(stages))
	}
}
