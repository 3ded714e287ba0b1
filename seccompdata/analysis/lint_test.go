package analysis

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/seccompdata"
)

// ids are the findings, those of a note in brackets.
func ids(found []Finding) []string {
	var out []string
	for _, f := range found {
		id := f.ID
		if f.Severity == Note {
			id = "(" + id + ")"
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func TestLint(t *testing.T) {
	// What a careful allow-list for x86_64 begins and ends with.
	const (
		head = "ld [4]; jne #0xc000003e, kill; ld [0]; jge #0x40000000, kill; jgt #470, nosys; "
		tail = "; jmp deny; nosys: ret #0x50026; deny: ret #0x50001; kill: ret #0x80000000; allow: ret #0x7fff0000"
	)
	const noNosys = "; jmp deny; deny: ret #0x50001; kill: ret #0x80000000; allow: ret #0x7fff0000"
	list := func(rules string) string { return head + rules + tail }
	for _, tt := range []struct {
		desc, filter string
		want         []string
		in           string // in the sentence of the first finding
		first        string // its first case
	}{
		{"A careful filter gives nothing to say.", list("jeq #1, allow; jeq #60, allow"), nil, "", ""},
		{"Numbers alone mean different calls on each architecture.",
			"ld [0]; jeq #101, deny; allow: ret #0x7fff0000; deny: ret #0x50001",
			[]string{"arch-unchecked", "x32-bypass"}, "number 101 is ptrace on x86_64 and ioperm on i386", "x86_64 ptrace(): ERRNO 1"},
		{"A deny-list that lets other architectures through can be gone around by int 0x80.",
			"ld [4]; jne #0xc000003e, allow; ld [0]; jge #0x40000000, deny; jeq #101, deny; allow: ret #0x7fff0000; deny: ret #0x50001",
			[]string{"arch-foreign"}, "i386", "i386 ptrace(): ALLOW"},
		{"A deny-list without a guard against x32 can be gone around by bit 30.",
			"ld [4]; jne #0xc000003e, deny; ld [0]; jeq #101, deny; allow: ret #0x7fff0000; deny: ret #0x50001",
			[]string{"x32-bypass"}, "ptrace", "x32 nr 0x40000065(): ALLOW"},
		{"With a guard it cannot.",
			"ld [4]; jne #0xc000003e, deny; ld [0]; jset #0x40000000, deny; jeq #101, deny; allow: ret #0x7fff0000; deny: ret #0x50001",
			nil, "", ""},
		{"socketcall is a way around a rule for socket.",
			"ld [4]; jne #0x40000003, deny; ld [0]; jeq #102, allow; jeq #359, sock; jgt #500, nosys; jmp deny; sock: ld [16]; jeq #1, allow; deny: ret #0x50001; nosys: ret #0x50026; allow: ret #0x7fff0000",
			[]string{"multiplexer-bypass", "unknown-errno"}, "socketcall", "i386 socketcall(0x1): ALLOW"},
		{"A deny-list on all bits of an int misses values with garbage above (TIOCSTI).",
			list("jeq #16, ioctl; jmp deny; ioctl: ld [28]; jne #0, allow; ld [24]; jeq #0x5412, deny; jmp allow"),
			[]string{"int-arg-bypass", "(unreachable)"}, "args[1] of ioctl", "x86_64 ioctl(0x0, 0x100005412): ALLOW"},
		{"Comparing the low word of an int is right.",
			list("jeq #16, ioctl; jmp deny; ioctl: ld [24]; jeq #0x5412, deny; jmp allow"),
			[]string{"(unreachable)"}, "", ""},
		{"personality(-1) may come sign-extended.",
			list("jeq #135, persona; jmp deny; persona: ld [20]; jne #0, deny; ld [16]; jeq #0xffffffff, allow"),
			[]string{"sign-extension"}, "args[0] of personality", "x86_64 personality(0xffffffffffffffff): ERRNO 1"},
		{"An allow-list on all bits of an int refuses garbage that the kernel ignores.",
			list("jeq #41, sock; jmp deny; sock: ld [20]; jne #0, deny; ld [16]; jeq #1, allow"),
			[]string{"(int-arg-garbage)"}, "args[0] of socket", "x86_64 socket(0x100000001): ERRNO 1"},
		{"Half of a 64-bit argument is not the argument.",
			list("jeq #157, prctl; jmp deny; prctl: ld [24]; jeq #5, allow"),
			[]string{"low-word-compare"}, "args[1] of prctl", "x86_64 prctl(0x0, 0x100000005): ALLOW"},
		{"Two orders of halves are no order of 64-bit numbers (seccomp/libseccomp#139).",
			list("jeq #9, map; jmp deny; map: ld [28]; jgt #1, deny; ld [24]; jgt #0x1000, deny; jmp allow"),
			[]string{"split-compare", "(unreachable)"}, "args[1] of mmap", "x86_64 mmap(0x0, 0x1001): ERRNO 1"},
		{"The low word counts where the upper halves are equal.",
			list("jeq #9, map; jmp deny; map: ld [28]; jgt #1, deny; jne #1, allow; ld [24]; jgt #0x1000, deny; jmp allow"),
			[]string{"(unreachable)"}, "", ""},
		{"It may as well be compared first.",
			list("jeq #9, map; jmp deny; map: ld [24]; jgt #0x1000, deny; ld [28]; jne #0, deny; jmp allow"),
			[]string{"(unreachable)"}, "", ""},
		{"An argument that is compared for all calls alike is one finding, not one for each of them.",
			"ld [4]; jne #0xc000003e, kill; ld [0]; jge #0x40000000, kill; jgt #470, kill; ld [16]; jeq #7, kill; allow: ret #0x7fff0000; kill: ret #0x50026",
			[]string{"pointer-compare", "low-word-compare", "(low-word-compare)"}, "args[0] of open, access, ", ""},
		{"A mask that has no bit of the upper half is right.",
			list("jeq #10, mprotect; jmp deny; mprotect: ld [32]; jset #4, deny; jmp allow"),
			[]string{"(unreachable)"}, "", ""},
		{"What a pointer points to cannot be seen.",
			list("jeq #2, open; jmp deny; open: ld [16]; jeq #0x1000, allow"),
			[]string{"pointer-compare"}, "args[0] of open", ""},
		{"Two inequalities joined by OR are always true.",
			list("jeq #41, sock; jmp deny; sock: ld [16]; jeq #38, other; jmp allow; other: ld [16]; jeq #40, deny; jmp allow"),
			[]string{"always-true", "(unreachable)", "(cache-lost)"}, "args[0] of socket", ""},
		{"New calls fail with EPERM.", strings.Replace(head, "jgt #470, nosys; ", "", 1) + "jeq #1, allow" + noNosys,
			[]string{"unknown-errno"}, "ENOSYS", "x86_64 nr 472(): ERRNO 1"},
		{"New calls kill.", "ld [4]; jne #0xc000003e, kill; ld [0]; jeq #1, allow; kill: ret #0; allow: ret #0x7fff0000",
			[]string{"(unknown-kill)"}, "cannot fall back", ""},
		{"Actions that kernels do not know kill.", list("jeq #1, odd; jeq #2, allow; jmp deny; odd: ret #0x7ffd0000"),
			[]string{"unknown-action", "(unreachable)"}, "0x7ffd0000", ""},
		{"Code behind a return is never executed.", list("jeq #1, allow; ret #0; ld [0]; ret a"),
			[]string{"(unreachable)"}, "", ""},
		{"The address of a call is no protection.", list("jeq #1, write; jmp deny; write: ld [12]; jeq #0x7fff, allow"),
			[]string{"(instruction-pointer)"}, "", ""},
		{"A division may be by 0.", list("jeq #1, write; jmp deny; write: ldx #0; ld [16]; tax; ld #7; div x; jeq #1, allow"),
			[]string{"division-by-zero", "(undecided)"}, "", ""},
		{"Registers that the kernel's cache does not follow lose it.", list("tax; txa; jeq #1, allow"),
			[]string{"(cache-lost)"}, "write", ""},
		{"A computed return value is left out.", list("jeq #1, write; jeq #2, allow; jmp deny; write: ld [16]; and #0xfff; or #0x50000; ret a"),
			[]string{"(unreachable)", "(computed-verdict)"}, "", ""},
		{"Two arguments compared with each other are not proved about.", list("jeq #1, write; jmp deny; write: ld [16]; tax; ld [32]; jeq x, allow"),
			[]string{"low-word-compare", "(undecided)"}, "", ""},
		{"A filter that looks at nothing says nothing.", "ret #0x7fff0000", nil, "", ""},
	} {
		f := assemble(t, tt.filter)
		found, err := Lint(one(f), nil)
		if err != nil {
			t.Errorf("%s %v", tt.desc, err)
			continue
		}
		if diff := cmp.Diff(tt.want, ids(found)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", tt.desc, found, diff)
			continue
		}
		if len(found) == 0 {
			continue
		}
		if !strings.Contains(found[0].Sentence, tt.in) {
			t.Errorf("%s got %q, want %q in it", tt.desc, found[0].Sentence, tt.in)
		}
		if tt.first != "" && (len(found[0].Cases) == 0 || found[0].Cases[0].String() != tt.first) {
			t.Errorf("%s got the cases %v, want %q first", tt.desc, found[0].Cases, tt.first)
		}
		for _, finding := range found {
			if !slices.ContainsFunc(checks, func(c Check) bool { return c.ID == finding.ID }) {
				t.Errorf("%s is no check in the list", finding.ID)
			}
			for _, c := range finding.Cases {
				if ret, _, _ := decide(one(f), &c.Call); ret != c.Ret {
					t.Errorf("%s case %s, the interpreter says %#x", tt.desc, c, ret)
				}
			}
		}
	}
}

// What is known of Docker's default profile (libseccomp 2.5.4 made the filters).
func TestLintOfDocker(t *testing.T) {
	for _, tt := range []struct {
		filter string
		want   []string
	}{
		{"docker-3arch-opt2", []string{"multiplexer-bypass", "sign-extension", "unknown-errno", "(int-arg-garbage)", "(unreachable)"}},
		{"docker-x64-opt1", []string{"sign-extension", "unknown-errno", "(int-arg-garbage)", "(unreachable)"}},
		{"docker-a64arm-opt1", []string{"sign-extension", "unknown-errno", "(int-arg-garbage)", "(unreachable)"}},
		{"lib306-opt1", []string{"(unreachable)"}},
		{"elastic-docker", []string{"unknown-errno"}},
		{"deny-no-x32-guard", []string{"x32-bypass"}},
		{"deny-x32-jset", nil},
		{"argcmp-ge-0", []string{"always-true", "unknown-errno", "(cache-lost)"}},
	} {
		found, err := Lint(one(readFilter(t, tt.filter)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, ids(found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.filter, diff)
		}
	}
}

// Whatever the filters, what is found holds: Lint itself runs every case through
// the interpreter and fails where that says otherwise.
func TestLintOfRandomFilters(t *testing.T) {
	r := seeded(t)
	seen := map[string]int{}
	for range 60 {
		filters := one(newFilter(t, randomFilter(r, 3+r.IntN(30))))
		if r.IntN(4) == 0 {
			filters = append(filters, newFilter(t, randomFilter(r, 4)))
		}
		found, err := Lint(filters, nil)
		if err != nil {
			t.Fatalf("%v\n%v", err, filters[0].Program())
		}
		for _, f := range found {
			seen[f.ID]++
		}
	}
	t.Log(seen)
}

// The rule of a profile is named where it is known.
func TestLintNamesRules(t *testing.T) {
	f := assemble(t, "ld [4]; jne #0xc000003e, kill; ld [0]; jge #0x40000000, kill; jgt #470, nosys; jeq #135, persona; jeq #135, allow; jmp nosys; persona: ld [20]; jne #0, deny; ld [16]; jeq #0xffffffff, allow; deny: ret #0x50001; allow: ret #0x7fff0000; nosys: ret #0x50026; kill: ret #0")
	rules := make([]int, f.Len())
	for pc := range rules {
		rules[pc] = -1
	}
	rules[5], rules[8], rules[9], rules[10], rules[11] = 0, 0, 0, 0, 0
	rules[6] = 1
	found, err := Lint(one(f), []*Origin{{Rules: rules, Names: []string{"the first", "the second"}, Warnings: []string{"odd"}}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, finding := range found {
		got[finding.ID] = finding.Rule
	}
	want := map[string]string{"sign-extension": "the first", "profile": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f = assemble(t, "ld [4]; jeq #1, first; jeq #1, second; first: ret #0; second: ret #0x7fff0000")
	found, err = Lint(one(f), []*Origin{{Rules: []int{-1, 0, 1, 0, 1}, Names: []string{"a", "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(found, func(f Finding) bool { return f.ID == "unreachable" }); i < 0 || found[i].Rule != "b" {
		t.Errorf("got %v, want an unreachable instruction of b", found)
	}
}

func TestEveryCheckIsListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.ID] || c.About == "" {
			t.Errorf("%s is listed twice or says nothing", c.ID)
		}
		seen[c.ID] = true
	}
}

// The table of arguments has calls that there are.
func TestArgumentTypes(t *testing.T) {
	for call, list := range widths() {
		_, x86 := seccompdata.X86_64.Number(call)
		_, arm := seccompdata.AARCH64.Number(call)
		if !x86 && !arm {
			t.Errorf("%s is no system call", call)
		}
		if len(list) == 0 || len(list) > 6 || slices.Contains(list, widthUnknown) {
			t.Errorf("%s has arguments %v", call, list)
		}
	}
}

// The checks are those that the documentation has.
func TestChecksAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/seccomp-lint.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, documented []string
	for _, c := range Checks() {
		listed = append(listed, c.ID)
	}
	for line := range strings.Lines(string(doc)) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			id, _, _ := strings.Cut(rest, "`")
			documented = append(documented, id)
		}
	}
	if diff := cmp.Diff(listed, documented); diff != "" {
		t.Errorf("(-listed +documented):\n%s", diff)
	}
}
