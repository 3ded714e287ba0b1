package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
)

var updateDocs = flag.Bool("update-docs", false, "rewrite the outputs in docs/*.md")

// notRun are the commands of the pages that no test of the pages runs, by how
// they begin, each with the reason. Those of kjit are parsed all the same.
var notRun = map[string]string{
	"kjit replay 'tcp port 80'":              "needs tcpdump; TestScript/replay has one of its own",
	"kjit debug subnet.txt packets.txt":      "opens a screen; the page has the same with --repl",
	"kjit replay filter.txt trace.pcap --im": "needs what a kernel logged: TestScript/image",
	"kjit replay filter.txt trace.pcap --ru": "needs a kernel: TestScript/capture, TestScript/qemu",
	"kjit replay filter.txt trace.pcap --ji": "takes a JIT of the reader's: TestScript/plugin",
	"kjit jit filter.txt --jit exec:":        "takes a JIT of the reader's: TestScript/plugin",
	"kjit fuzz --runs 5000 --jit exec:":      "takes a JIT of the reader's: TestScript/plugin",
	"kjit fuzz --time":                       "takes too long: TestScript/fuzz",
	"kjit capture":                           "needs a kernel: TestScript/capture",
	"kjit campaign":                          "needs more than one process: the tests of harness/cluster",
	"kjit mutants":                           "takes too long: TestScript/mutants",
	"kjit report":                            "TestScript/report",
	"kjit bench":                             "takes too long: TestScript/bench_paper, bench_scaling, bench_seccomp",
	"apt-get ":                               "installs something",
	"printf ":                                "speaks to a JIT of the reader's",
}

// ownTests are the pages whose commands a test of their own runs.
var ownTests = map[string]string{
	"campaigns.md": "TestCampaignWalkthrough, with a shell",
	"seccomp.md":   "TestSeccompDocs, by a script",
}

// shell is what a command in a page begins with.
var shell = regexp.MustCompile(`^(?:\$ )?((?:[A-Z_]+=\S* )*(?:kjit|make|go|cc|apt-get|sudo|brew|git|printf|docker|kubectl|nats|nats-server|curl|openssl|ci/\S+) .*|ci/\S+)$`)

// TestDocs runs what README.md and docs/*.md show. In their blocks of console
// "$ cat FILE" makes the file of what is shown, and "$ kjit ..." has to print what
// is shown, of which the lines that begin with > are what it reads; "; echo $?"
// behind a command shows its exit code, which is 0 elsewhere. Of a block "go FILE"
// every line but ... has to be in that file, in the same order; so have the lines
// below an indented "$ kjit ..." in its output. Other commands, in blocks of sh or
// indented, have to end with 0 or 1, or be in notRun.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 8 {
		t.Fatal(pages, err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		if ownTests[filepath.Base(page)] != "" {
			continue
		}
		page, err := filepath.Abs(page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			checkLinks(t, page)
			commands += runPage(t, root, page)
		})
	}
	if commands < 40 {
		t.Errorf("only %d commands are shown", commands)
	}
}

// README.md has the number of mutants, which grows.
func TestDocsCountMutants(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	counts := regexp.MustCompile(`(\d+) planted faults|faults found, of (\d+)`).FindAllStringSubmatch(string(text), -1)
	if len(counts) != 2 {
		t.Errorf("README.md has %d numbers of mutants, want 2: %q", len(counts), counts)
	}
	want := strconv.Itoa(len(harness.AllMutants()))
	for _, m := range counts {
		if got := m[1] + m[2]; got != want {
			t.Errorf("README.md: %q: there are %s mutants; kjit mutants gives the other numbers of its table too", m[0], want)
		}
	}
}

// checkLinks reports links of a page to files that are not there.
func checkLinks(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\(([^):#]+)[^):]*\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
			t.Errorf("a link to %s: %v", m[1], err)
		}
	}
}

// runPage runs a page's commands in a folder of their own, and returns how many
// there are.
func runPage(t *testing.T, root, page string) (commands int) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeDocsFiles(t)
	if strings.Contains(string(text), "\n$ kjit replay tcp.txt corpus:packets --jit exec:./tinyjit") {
		if out, err := exec.Command("cc", "-o", "tinyjit", filepath.Join(root, "docs/plugin/c/tinyjit.c")).CombinedOutput(); err != nil {
			t.Fatalf("the page's plugin cannot be built: %v\n%s", err, out)
		}
	}
	var out []string
	block := "" // of which kind we are inside; "": none
	lines := strings.Split(string(text), "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		out = append(out, line)
		switch kind, fence := strings.CutPrefix(line, "```"); {
		case fence && block == "":
			block = "block " + kind
			if file, ok := strings.CutPrefix(kind, "go "); ok {
				end := slices.Index(lines, "```")
				checkExcerpt(t, filepath.Join(root, file), lines[:max(end, 0)])
			}
			continue
		case fence:
			block = ""
			continue
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if block == "block console" && ok {
			commands++
			end := slices.IndexFunc(lines, func(line string) bool { return line == "```" || strings.HasPrefix(line, "$ ") })
			want := lines[:end]
			got := runShown(t, command, want)
			if diff := cmp.Diff(want, got); diff != "" && !*updateDocs {
				t.Errorf("%s (-want +got):\n%s", command, diff)
			}
			lines = lines[end:]
			out = append(out, got...)
			continue
		}
		text, indented := strings.CutPrefix(line, "    ")
		if command, ok := strings.CutPrefix(text, "$ "); ok && indented && block == "" {
			commands++
			runScreen(t, command, lines)
		} else if block == "block sh" || block == "" && indented {
			if m := shell.FindStringSubmatch(text); m != nil {
				commands++
				runBlind(t, root, m[1])
			}
		}
	}
	if *updateDocs {
		if err := os.WriteFile(page, []byte(strings.Join(out, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return commands
}

// writeDocsFiles makes the files that pages name without showing them.
func writeDocsFiles(t *testing.T) {
	packets, err := corpus.Open("packets.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	trace, err := io.ReadAll(packets)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"trace.pcap", "trace.pcapng"} {
		if err := os.WriteFile(file, trace, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	profile := `{"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [{"names": ["read", "write", "exit_group"], "action": "SCMP_ACT_ALLOW"}]}`
	if err := os.WriteFile("profile.json", []byte(profile), 0o666); err != nil {
		t.Fatal(err)
	}
	findings, err := corpus.Findings()
	if err == nil {
		err = os.WriteFile("finding.txtar", findings[0].Data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := corpus.ProgramByName("posting2011")
	if err != nil {
		t.Fatal(err)
	}
	for file, form := range map[string]bpftext.Form{"listing.txt": bpftext.D, "filter.txt": bpftext.Asm, "filter.asm": bpftext.Asm} {
		text, err := bpftext.Format(form, p.Program)
		if err == nil {
			err = os.WriteFile(file, text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, code := runLine(t, "kjit --json jit filter.txt >golden.jsonl", ""); code != exitOK {
		t.Fatalf("golden.jsonl cannot be made: exit code %d", code)
	}
}

// checkExcerpt reports lines that are not in a file, or not in that order.
func checkExcerpt(t *testing.T, file string, lines []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	checkLines(t, file, string(text), lines)
}

func checkLines(t *testing.T, from, text string, lines []string) {
	rest := strings.Split(text, "\n")
	for _, line := range lines {
		if strings.TrimSpace(line) == "..." {
			continue
		}
		at := slices.Index(rest, line)
		if at < 0 {
			t.Errorf("%s does not have, or not here: %s", from, line)
			return
		}
		rest = rest[at+1:]
	}
}

// runScreen runs a command of an indented block and compares the lines below it,
// up to the block's end: the output has to have them, or what ... leaves out.
func runScreen(t *testing.T, command string, below []string) {
	var want []string
	for _, line := range below {
		text, ok := strings.CutPrefix(line, "    ")
		if !ok && line != "" || strings.HasPrefix(text, "$ ") {
			break
		}
		if rest, more := strings.CutSuffix(command, "\\"); more {
			command = rest + text
		} else if text != "" {
			want = append(want, text)
		}
	}
	out, code := runLine(t, command, "")
	if code > exitDiverged {
		t.Errorf("%s: exit code %d", command, code)
	}
	checkLines(t, command, out, want)
}

// runBlind runs a command whose output is not shown.
func runBlind(t *testing.T, root, command string) {
	command, _, _ = strings.Cut(command, "  #")
	command = strings.TrimSpace(command)
	if strings.HasPrefix(command, "kjit asm, ") {
		return // a list of names, in a table
	}
	for _, kjit := range kjitCommands(command) {
		if _, err := model(t).Parse(words(kjit)[1:]); err != nil {
			t.Errorf("%s: %v", kjit, err)
		}
	}
	for begin := range notRun {
		if strings.HasPrefix(command, begin) {
			return
		}
	}
	args := words(command)
	switch {
	case args[0] == "make":
		makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
		if err != nil || !strings.Contains(string(makefile), "\n"+args[1]+":") {
			t.Errorf("%s: no such target: %v", command, err)
		}
	case strings.HasPrefix(args[0], "ci/"):
		if info, err := os.Stat(filepath.Join(root, args[0])); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: cannot be executed: %v", command, err)
		}
	case args[0] == "go":
		for _, arg := range args {
			if path, ok := strings.CutPrefix(arg, "./"); ok {
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(path, "..."))); err != nil {
					t.Errorf("%s: %v", command, err)
				}
			}
		}
	default:
		if _, code := runLine(t, command, ""); code > exitDiverged {
			t.Errorf("%s: exit code %d; a command that no test can run is listed in notRun", command, code)
		}
	}
}

// runShown runs a command on the input among its shown lines and returns the
// lines that it gives. Of cat, all that is shown is the file.
func runShown(t *testing.T, command string, shown []string) []string {
	if file, ok := strings.CutPrefix(command, "cat "); ok {
		if err := os.WriteFile(file, []byte(strings.Join(shown, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		return shown
	}
	var input strings.Builder
	for _, line := range shown {
		if typed, ok := strings.CutPrefix(line, "> "); ok {
			input.WriteString(typed + "\n")
		}
	}
	plain, echo := strings.CutSuffix(command, "; echo $?")
	out, code := runLine(t, plain, input.String())
	if echo {
		out += string('0'+rune(code)) + "\n"
	} else if code != exitOK {
		t.Errorf("%s: exit code %d", command, code)
	}
	if out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// runLine runs commands of kjit, of which each reads what the one before has
// written, and returns what a terminal shows in the end, and the last exit code.
func runLine(t *testing.T, line, input string) (output string, code int) {
	var args []string
	for _, word := range append(words(line), "|") {
		if word != "|" {
			args = append(args, word)
			continue
		}
		file, toFile := strings.CutPrefix(args[len(args)-1], ">")
		if toFile {
			args = args[:len(args)-1]
		}
		if args[0] != "kjit" {
			t.Fatalf("%s is not run", line)
		}
		var out, errs bytes.Buffer
		code = run(args[1:], streams{strings.NewReader(input), &out, &errs})
		input, args = out.String(), nil
		if toFile {
			if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			input = ""
		}
		output += errs.String()
	}
	return input + output, code
}

// words splits a command at blanks outside of single quotes.
func words(command string) []string {
	var all []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
