package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
)

// TestCampaignWalkthrough does what docs/campaigns.md says, word by word.
func TestCampaignWalkthrough(t *testing.T) {
	if testing.Short() {
		t.Skip("does the whole walk-through: half a minute")
	}
	text, err := os.ReadFile("../../docs/campaigns.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	script := "set -eux\n"
	for _, b := range blocks {
		script += b[1]
	}
	file := filepath.Join(t.TempDir(), "walkthrough.txtar")
	if err := os.WriteFile(file, []byte("exec bash walk.sh\n-- walk.sh --\n"+script), 0o666); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}})
}

// parses reports whether kjit takes a command line.
func parses(t *testing.T, args []string) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Vars{"version": "", "forms": "", "rules": "", "kinds": ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("kjit %s: %v", strings.Join(args, " "), err)
	}
}

// decodeStrict decodes every document of a YAML file: a field that is not known is
// an error.
func decodeStrict[T any](t *testing.T, file string) (out []T) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	for {
		var v T
		if err := dec.Decode(&v); err != nil {
			if err.Error() == "EOF" {
				return out
			}
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
}

// deployment is as much of a Deployment of apps/v1 as ours have, spelled as the
// Kubernetes API does.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   objectMeta
	Spec       struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata objectMeta
			Spec     struct {
				AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
				TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
				SecurityContext               struct {
					RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
					RunAsUser      int                   `yaml:"runAsUser"`
					RunAsGroup     int                   `yaml:"runAsGroup"`
					SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Containers []struct {
					Name, Image string
					PullPolicy  string `yaml:"imagePullPolicy"`
					Args        []string
					Env         []struct {
						Name      string
						ValueFrom struct {
							SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
						} `yaml:"valueFrom"`
					}
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					ReadinessProbe struct {
						HTTPGet       struct{ Path, Port string } `yaml:"httpGet"`
						PeriodSeconds int                         `yaml:"periodSeconds"`
					} `yaml:"readinessProbe"`
					Resources       struct{ Requests, Limits map[string]string }
					SecurityContext struct {
						AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						Capabilities             struct{ Drop []string }
					} `yaml:"securityContext"`
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name     string
					EmptyDir *struct{} `yaml:"emptyDir"`
				}
			}
		}
	}
}

type objectMeta struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// TestKubernetes checks the manifests as far as that goes without a cluster: their
// fields, what belongs together, that nothing is allowed that is not needed, and
// that kjit takes the commands.
func TestKubernetes(t *testing.T) {
	all := decodeStrict[deployment](t, "../../ci/deploy/kubernetes/kjit.yaml")
	if len(all) != 2 {
		t.Fatalf("%d manifests", len(all))
	}
	for _, d := range all {
		if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || d.Metadata.Namespace != "kjit" || d.Spec.Replicas < 1 {
			t.Errorf("%+v", d.Metadata)
		}
		pod := d.Spec.Template
		for k, v := range d.Spec.Selector.MatchLabels {
			if pod.Metadata.Labels[k] != v {
				t.Errorf("%s: the selector asks for %s=%s", d.Metadata.Name, k, v)
			}
		}
		c := pod.Spec.Containers[0]
		if len(d.Spec.Selector.MatchLabels) != 2 || len(pod.Spec.Containers) != 1 || c.Image == "" || c.Env[0].Name != "KJIT_NATS" || c.Env[0].ValueFrom.SecretKeyRef.Name != "kjit-nats" {
			t.Errorf("%s: %+v", d.Metadata.Name, c)
		}
		s := c.SecurityContext
		if !pod.Spec.SecurityContext.RunAsNonRoot || pod.Spec.SecurityContext.RunAsUser == 0 || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			!s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s may do more than it needs: %+v", d.Metadata.Name, s)
		}
		if len(c.VolumeMounts) != 1 || len(pod.Spec.Volumes) != 1 || c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name {
			t.Errorf("%s: %+v", d.Metadata.Name, c.VolumeMounts)
		}
		// One image that does not change under its name, and starts that undo nothing.
		if _, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "latest" || c.Image != all[0].Spec.Template.Spec.Containers[0].Image || c.PullPolicy != "IfNotPresent" {
			t.Errorf("%s: image %s, pull policy %q", d.Metadata.Name, c.Image, c.PullPolicy)
		}
		if !slices.Contains(c.Args, "--stay") {
			t.Errorf("%s does not stay: %v", d.Metadata.Name, c.Args)
		}
		parses(t, c.Args)
	}
	values := decodeStrict[map[string]any](t, "../../ci/deploy/kubernetes/nats-values.yaml")
	config, _ := values[0]["config"].(map[string]any)
	cluster, _ := config["cluster"].(map[string]any)
	jetstream, _ := config["jetstream"].(map[string]any)
	if cluster["replicas"] != 3 || cluster["enabled"] != true || jetstream["enabled"] != true {
		t.Errorf("%+v", config)
	}
}

// TestCompose checks the compose file in the same way.
func TestCompose(t *testing.T) {
	type service struct {
		Image string
		Build struct {
			Context, Dockerfile string
			Args                map[string]string
		}
		Command     []string
		Environment map[string]string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		Tmpfs       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Volumes     []string
		Ports       []string
		Profiles    []string
		Restart     string
		Grace       string `yaml:"stop_grace_period"`
		Healthcheck struct {
			Test              []string
			Interval, Timeout string
			Retries           int
		}
	}
	type compose struct {
		Name     string
		Kjit     service `yaml:"x-kjit"`
		Services map[string]service
		Volumes  map[string]*struct{}
	}
	c := decodeStrict[compose](t, "../../ci/deploy/compose.yaml")[0]
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s opens port %s to others", name, port)
			}
		}
		if name == "nats" {
			continue
		}
		if s.Image != "kjit" || !s.ReadOnly || s.DependsOn["nats"].Condition != "service_healthy" || s.Environment["KJIT_NATS"] == "" {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Restart != "" && !slices.Contains(s.Command, "--stay") {
			t.Errorf("%s is restarted and does not stay: %v", name, s.Command)
		}
		parses(t, s.Command)
	}
	docker, err := os.ReadFile("../../ci/deploy/" + filepath.Base(c.Kjit.Build.Dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"FROM golang:1.26", "-extldflags -static", "FROM scratch", "USER 65532:65532", "-X main.stamped=$VERSION", "/etc/ssl/certs/ca-certificates.crt", `ENTRYPOINT ["/kjit"]`} {
		if !strings.Contains(string(docker), line) {
			t.Errorf("the Dockerfile has no %s", line)
		}
	}
}
