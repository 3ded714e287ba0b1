package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness/campaign"
	"github.com/kjit-project/kjit/harness/engine"
	"github.com/kjit-project/kjit/harness/judge"
	"github.com/kjit-project/kjit/harness/paper"
	"github.com/kjit-project/kjit/harness/repro"
	"github.com/kjit-project/kjit/kernelabi"
	"github.com/kjit-project/kjit/seccompdata"
)

func write(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// words are the text of a page as a reader sees it, blanks made one.
func words(t testing.TB, page string) string {
	t.Helper()
	var b strings.Builder
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
		if n.Data == "style" {
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	return strings.Join(strings.Fields(b.String()), " ")
}

// faulty does a short campaign that finds something.
func faulty(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	s := campaign.Default()
	s.Version, s.Size, s.JITs = "kjit v9", 12, []string{"mutant:x86-and-imm16", "linux-3.10-x86_64", "kjit-armv7"}
	cfg, err := campaign.NewConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := campaign.OpenFolder(dir, &s)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := campaign.Run(t.Context(), cfg, campaign.Options{Jobs: 2, Programs: 30 * 12, Folder: f}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A campaign is told from its folder: its counts, its finding with the story, the
// maps, and how to run it again. The page is the same each time.
func TestCampaign(t *testing.T) {
	dir := faulty(t)
	make := func() string {
		r := New(Options{Versions: []string{"kjit v9", "Unicorn 2"}})
		if err := r.Add(dir); err != nil {
			t.Fatal(err)
		}
		if r.Wrong().Divergences != 1 || !r.Bad() {
			t.Errorf("%d findings, bad %v", r.Wrong().Divergences, r.Bad())
		}
		return write(t, r)
	}
	page := make()
	if diff := cmp.Diff(page, make()); diff != "" {
		t.Errorf("the same campaign is another page:\n%s", diff)
	}
	text := words(t, page)
	for _, want := range []string{
		"1 divergence: machine code does not do what its program says.",
		"mutant-x86-and-imm16.and-k.value", "at instruction 1: after it A is 0x", "here they part", "an empty packet",
		"kjit replay " + filepath.ToSlash(dir) + "/findings/mutant-x86-and-imm16.and-k.value.txtar",
		"and $0x200,%ax", "Registers where they part", "360 of", "ran in", "Native edges seen, by programs run", "left to the interpreter",
		"kjit v9 · Unicorn 2", "found kjit fuzz, seed 1, case",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	check(t, page)
}

// check holds a page to what all pages have.
func check(t testing.TB, page string) {
	t.Helper()
	if !strings.HasPrefix(page, "<!DOCTYPE html>\n<html lang=\"en\">") {
		t.Errorf("it begins %.60q", page)
	}
	if strings.Contains(page, "ZgotmplZ") {
		t.Error("a template did not trust something")
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	inert(t, doc)
	// All that is opened is closed: a page whose parts are out of step is no XML.
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	var open []string
	last := byte('1')
	ids := map[string]bool{}
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			if name != "meta" && name != "br" {
				open = append(open, name)
			}
			if len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6' {
				if name[1] > last+1 {
					t.Errorf("a heading %s behind one of level %c", name, last)
				}
				last = name[1]
			}
			for _, a := range token.Attr {
				if a.Name.Local == "id" {
					if ids[a.Value] {
						t.Errorf("id %s is there twice", a.Value)
					}
					ids[a.Value] = true
				}
			}
		case xml.EndElement:
			if name := token.Name.Local; name == "meta" || name == "br" {
				break
			} else if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("</%s> in %v", name, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%v are not closed", open)
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !ids[m[1]] {
			t.Errorf("a link to #%s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<table.*?</table>`).FindAllString(page, -1) {
		if !strings.Contains(m, "<caption>") || regexp.MustCompile(`<th( class="[^"]*")?>`).MatchString(m) {
			t.Errorf("a table without caption, or with headings that head nothing: %.200q", m)
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		if !strings.Contains(m, "<title") || !strings.Contains(m, "<desc") || !strings.Contains(m, `role="img"`) {
			t.Errorf("a picture without words: %.200q", m)
		}
	}
}

// inert reports what runs, loads or leads out of the page.
func inert(t testing.TB, n *html.Node) {
	switch n.Data {
	case "script", "img", "link", "iframe", "object", "embed", "base", "form", "audio", "video", "use", "image", "foreignObject":
		if n.Type == html.ElementNode {
			t.Errorf("the page has an element %s", n.Data)
		}
	}
	if n.Type == html.TextNode && n.Parent.Data == "style" && regexp.MustCompile(`url\(|@import|</`).MatchString(n.Data) {
		t.Errorf("a style that loads something: %.200q", n.Data)
	}
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "srcset", a.Key == "action", a.Key == "style",
			strings.HasSuffix(a.Key, "href") && !strings.HasPrefix(a.Val, "#"):
			t.Errorf("<%s %s=%.100q>", n.Data, a.Key, a.Val)
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		inert(t, c)
	}
}

// Every past finding of the corpus can be told.
func TestFindingsOfTheCorpus(t *testing.T) {
	findings, err := corpus.Findings()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range findings {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r := New(Options{Limit: 1000})
	if err := r.Add(dir); err != nil {
		t.Fatal(err)
	}
	if r.Wrong().Divergences != len(findings) {
		t.Errorf("%d of %d findings", r.Wrong().Divergences, len(findings))
	}
	page := write(t, r)
	check(t, page)
	if n := strings.Count(page, "here they part"); n < len(findings)/2 {
		t.Errorf("%d of %d findings say where both sides part", n, len(findings))
	}
	for _, f := range r.findings {
		if f.Plain != "" {
			t.Errorf("%s: its listing is not understood:\n%s", f.Signature, f.Plain)
		}
	}
}

const hostile = `</title></style></pre>--><script>alert(1)</script><img src=x onerror=alert(2)>" onload="alert(3)`

// Whatever the texts in records say, they stay texts.
func TestHostileTexts(t *testing.T) {
	quote := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	found := &repro.Repro{
		JIT: "exec:" + hostile, Expect: repro.Diverge, Divergence: judge.Value, Rule: hostile, Want: hostile, Got: hostile, How: "at instruction 0: " + hostile,
		Found: hostile, Comments: []string{hostile}, Program: bpf.Program{{Code: bpf.RetK}}, Input: kernelabi.NewSkb([]byte(hostile)), Place: hostile, Listing: hostile,
	}
	file, err := found.Format()
	if err != nil {
		t.Fatal(err)
	}
	found.Listing = "(000) ret      #0\n=>     0:  c3                        " + hostile + "\n"
	found.Rule = "ret-k" // another signature
	other, err := found.Format()
	if err != nil {
		t.Fatal(err)
	}
	h := quote(hostile)
	lines := []string{
		`{"type":"packet","packet":1,"file":` + h + `,"len":1,"runners":{` + h + `:{"want":{"kind":` + h + `},"got":{"kind":` + h + `,"broken":` + h + `},"verdict":` + h + `}}}`,
		`{"type":"divergence","packet":1,"runner":` + h + `,"how":` + h + `,"repro":` + quote(string(file)) + `}`,
		`{"type":"divergence","packet":1,"runner":` + h + `,"how":` + h + `,"repro":` + quote(string(other)) + `}`,
		`{"type":"divergence","packet":2,"runner":` + h + `,"how":` + h + `}`,
		`{"type":"summary","runner":` + h + `,"diverge":1,"why":` + h + `}`,
		`{"type":"repro","file":` + h + `,"signature":` + h + `,"status":` + h + `,"why":` + h + `}`,
		`{"type":"check","file":` + h + `,"kind":` + h + `,"name":` + h + `,"outcome":"failed","reason":` + h + `}`,
		`{"type":"check","file":` + h + `,"kind":` + h + `,"name":` + h + `,"outcome":"skipped","reason":` + h + `}`,
		`{"type":"mutant","name":` + h + `,"summary":` + h + `,"versions":` + h + `,"found":true,"check":` + h + `,"rule":` + h + `,"right":` + h + `,"program":[[6,0,0,0]],"input":{"packet":` + h + `}}`,
		`{"type":"summary","mutants":1,"invisible":[{"name":` + h + `,"versions":` + h + `,"why":` + h + `}]}`,
		`{"type":"error","message":` + h + `}`,
		`{"type":"fuzz","state":` + h + `,"targets":[{"jit":` + h + `,"why":` + h + `}],"findings":[{"signature":` + h + `}]}`,
		`{"name":` + h + `,"title":` + h + `,"source":` + h + `,"columns":[{"name":` + h + `,"unit":` + h + `,"origin":` + h + `}],"rows":[{"label":` + h + `,"cells":[1]}],"checks":[{"check":` + h + `,"why":` + h + `}],"notes":[` + h + `],"plot":{"columns":[0]}}`,
	}
	r := New(Options{Title: hostile, Versions: []string{hostile}})
	if err := r.AddJSON(hostile, strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	page := write(t, r)
	if n := strings.Count(page, "alert(1)"); n < 40 {
		t.Errorf("the text is there %d times: this test sees little", n)
	}
	check(t, page)
}

// Huge input makes no huge page, and what is left out is counted.
func TestBounds(t *testing.T) {
	prog := bpf.Program{}
	for range bpf.MaxInsns - 1 {
		prog = append(prog, bpf.Instruction{Code: bpf.LdImm, K: 0xffffffff})
	}
	prog = append(prog, bpf.Instruction{Code: bpf.RetK})
	var listing strings.Builder
	for pc := range prog {
		fmt.Fprintf(&listing, "(%03d) ld       #0xffffffff\n   %5x:  %s  nop\n", pc, pc, strings.Repeat("00", 10))
	}
	dir := t.TempDir()
	for n := range 30 {
		data, err := (&repro.Repro{
			JIT: "linux-3.10-x86_64", Expect: repro.Diverge, Divergence: judge.Value, Rule: fmt.Sprint("rule-", n), How: "at instruction 3000: " + strings.Repeat("x", 1<<16),
			Program: prog, Input: kernelabi.NewSkb(make([]byte, 60000)), Place: strings.Repeat("y\n", 1<<18), Listing: listing.String(),
		}).Format()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.txtar", n)), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r := New(Options{Limit: 10})
	if err := r.Add(dir); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for n := range 5000 {
		verdict := "agree"
		if n > 4990 {
			verdict = "diverge"
		}
		fmt.Fprintf(&rows, `{"type":"packet","packet":%d,"file":"a","len":60,"runners":{"jit":{"want":{"kind":"value","value":1},"got":{"kind":"value","value":1},"verdict":%q}}}`+"\n", n+1, verdict)
	}
	for n := range 5000 {
		fmt.Fprintf(&rows, `{"type":"check","file":"f%d","line":%d,"kind":"k","name":"n","outcome":"failed","reason":"r"}`+"\n", n, n)
	}
	if err := r.AddJSON("rows", strings.NewReader(rows.String())); err != nil {
		t.Fatal(err)
	}
	page := write(t, r)
	check(t, page)
	if len(page) > 4<<20 {
		t.Errorf("a page of %d kB", len(page)>>10)
	}
	text := words(t, page)
	for _, want := range []string{
		"20 divergences more are not told here", "200 shown, 4,800 left out", "4,800 more are left out", "3,696 instructions left out", "3,696 rows left out",
		"57,952 bytes left out", "bytes more)", "(3000) ld #0xffffffff ← here they part", "4992", "5000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Tables are plotted from the counts themselves, and from what was printed.
func TestPublishedTables(t *testing.T) {
	tables, err := paper.Tables("dumazet-2011", "cook-2020")
	if err != nil {
		t.Fatal(err)
	}
	own := New(Options{})
	own.AddTables("tables", tables...)
	var printed bytes.Buffer
	for _, table := range tables {
		if err := json.NewEncoder(&printed).Encode(table); err != nil {
			t.Fatal(err)
		}
	}
	read := New(Options{})
	if err := read.AddJSON("tables", &printed); err != nil {
		t.Fatal(err)
	}
	page := write(t, own)
	if diff := cmp.Diff(page, write(t, read)); diff != "" {
		t.Errorf("what was printed gives another page:\n%s", diff)
	}
	check(t, page)
	if n := strings.Count(page, "<svg"); n != 2 {
		t.Errorf("%d pictures of 2 tables", n)
	}
	if own.Bad() {
		t.Error("tables are bad")
	}
}

// A system call is told by its name.
func TestSystemCall(t *testing.T) {
	in := newInput(&kernelabi.Syscall{Data: seccompdata.Data{Nr: 59, Arch: seccompdata.ArchX86_64, IP: 0x1234}})
	if diff := cmp.Diff(Fact{"that is", "x86_64: execve"}, in.Facts[3]); diff != "" {
		t.Error(diff)
	}
	if len(in.Dump) != seccompdata.Size/16 || !strings.HasPrefix(in.Dump[0].Hex, "3b 00 00 00 3e 00 00 c0") {
		t.Errorf("%+v", in.Dump)
	}
}

// Input that is nothing to report on names the place, and never panics.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ desc, text, want string }{
		{"Nothing.", "", "x: there is nothing in it"},
		{"No JSON.", "hello\n", "x:1: no record: invalid character"},
		{"A record of something else.", `{"type":"check","outcome":"passed"}` + "\n" + `{"type":"moon"}`, `x:2: nothing is known of records of type "moon"`},
		{"No type and no table.", `{}`, "x:1: no record: neither a record with a type nor a published table"},
		{"A table with a short row.", `{"name":"a","columns":[{"name":"b"}],"rows":[{"label":"c","cells":[]}]}`, "row 0 has 0 cells, and the table 1 columns"},
		{"A table that plots what it has not.", `{"name":"a","columns":[{"name":"b"}],"plot":{"columns":[-1]}}`, "there is no column -1"},
		{"A repro that is none.", `{"type":"divergence","repro":"hello"}`, "x:1: no record: repro"},
		{"A list.", `[1]`, "x:1: no record: json"},
		{"A check with no outcome.", `{"type":"check"}`, "a check that"},
		{"A summary of nothing.", `{"type":"summary"}`, "a summary of something unknown"},
	} {
		err := New(Options{}).AddJSON("x", strings.NewReader(tt.text))
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v, want %s", tt.desc, err, tt.want)
		}
	}
	dir := t.TempDir()
	for path, want := range map[string]string{dir: "neither the folder of a campaign nor one of findings", filepath.Join(dir, "no"): "no such file"} {
		if err := New(Options{}).Add(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "campaign.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{}).Add(dir); err == nil || !strings.Contains(err.Error(), "campaign.json") {
		t.Errorf("half a campaign: %v", err)
	}
}

// What is counted is what the page shows, once, whatever told of it.
func TestWrong(t *testing.T) {
	const (
		fuzz = `{"type":"fuzz","state":"st","programs":9,"targets":[{"jit":"a","diverge":1}],"findings":[` +
			`{"signature":"a.and-k.value","jit":"a","rule":"and-k","kind":"value","programs":3,"instructions":3,"want":"70000","got":"0"}]}`
		calm    = `{"type":"fuzz","state":"st","programs":9,"targets":[{"jit":"a"}],"findings":[]}`
		failed  = `{"type":"check","file":"f","line":1,"kind":"k","name":"n","outcome":"failed","reason":"input 1: no\ninput 2: no"}` + "\n"
		checks  = failed + failed + `{"type":"summary","passed":0,"failed":2,"skipped":0}`
		mutants = `{"type":"mutant","name":"m","found":false}` + "\n" + `{"type":"summary","mutants":1}`
		replay  = `{"type":"summary","runner":"a","agree":1,"diverge":1}`
	)
	found, err := (&repro.Repro{JIT: "a", Expect: repro.Diverge, Divergence: judge.Value, Rule: "and-k", Program: bpf.Program{{Code: bpf.RetK}}, Input: kernelabi.NewSkb(nil)}).Format()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(found))
	if err != nil {
		t.Fatal(err)
	}
	told := `{"type":"divergence","packet":1,"runner":"a","repro":` + string(text) + "}\n" + replay
	for _, tt := range []struct {
		desc          string
		from          []string
		want, verdict string
	}{
		{"Nothing is wrong.", []string{calm}, "0 divergences", "Everything that was compared agrees."},
		{"A campaign is known by what it printed.", []string{fuzz}, "1 divergence", "1 divergence: machine code does not do what its program says."},
		{"It is printed twice.", []string{fuzz, fuzz}, "1 divergence", "1 divergence: machine code does not do what its program says."},
		{"The same is told in full.", []string{fuzz, told}, "1 divergence", "1 divergence: machine code does not do what its program says."},
		{"Facts are wrong besides.", []string{fuzz, checks}, "1 divergence, 2 wrong facts", "1 divergence: machine code does not do what its program says. Besides: 2 wrong facts."},
		{"Facts alone are wrong.", []string{calm, checks}, "2 wrong facts", "Not all is as it should be: 2 wrong facts."},
		{"Checks have no end.", []string{failed}, "1 wrong fact", "Not all is as it should be: 1 wrong fact."},
		{"A mutant is not found.", []string{mutants}, "1 mutant not found", "Not all is as it should be: 1 mutant not found."},
		{"Replays diverge and do not tell where.", []string{replay, replay}, "2 replays that diverge", "Not all is as it should be: 2 replays that diverge."},
		{"A command fails.", []string{`{"type":"error","message":"m"}`}, "1 error", "Not all is as it should be: 1 error."},
	} {
		r := New(Options{})
		for _, text := range tt.from {
			if err := r.AddJSON("x", strings.NewReader(text)); err != nil {
				t.Fatalf("%s %v", tt.desc, err)
			}
		}
		if got := r.Wrong().String(); got != tt.want {
			t.Errorf("%s %q, want %q", tt.desc, got, tt.want)
		}
		page := write(t, r)
		check(t, page)
		if text := words(t, page); !strings.Contains(text, tt.verdict+" Summary") {
			t.Errorf("%s The page does not say %q: %.200s", tt.desc, tt.verdict, text)
		}
		rows := regexp.MustCompile(`<th scope="row" class="nowrap">(<a [^>]*>)?<code>a\.and-k\.value</code>`).FindAllString(page, -1)
		if slices.Contains(tt.from, fuzz) != (len(rows) == 1) {
			t.Errorf("%s The finding is %d times in the list", tt.desc, len(rows))
		}
	}
}

// Whoever copies the command runs the finding again.
func TestRerun(t *testing.T) {
	for _, tt := range []struct{ desc, jit, file, profile, want string }{
		{"A JIT of kjit's.", "linux-3.0-x86_64", "st/f.txtar", "", "kjit replay st/f.txtar"},
		{"A command is named.", "exec:./myjit", "st/f.txtar", "", "kjit replay st/f.txtar --jit exec:./myjit"},
		{"It emits for a kernel.", "exec:./myjit", "st/f.txtar", "linux-3.0-x86_64", "kjit replay st/f.txtar --jit exec:./myjit --profile linux-3.0-x86_64"},
		{"It has arguments, a comma and quotes.", `exec:./my jit -x a,b 'c d'`, "f.txtar", "", `kjit replay f.txtar --jit 'exec:./my jit -x a\,b '\''c d'\'''`},
		{"A shell would do something.", "exec:x;reboot $(y)", "-f.txtar", "", `kjit replay ./-f.txtar --jit 'exec:x;reboot $(y)'`},
	} {
		f := newFinding(&repro.Repro{JIT: tt.jit, Rule: "and-k", Divergence: judge.Value, Want: "4294901760", Got: "7"}, "x", tt.file, tt.profile)
		if diff := cmp.Diff([]string{tt.want}, f.Rerun); diff != "" {
			t.Errorf("%s %s", tt.desc, diff)
		}
		if trusts := f.Trust != ""; trusts != strings.HasPrefix(tt.jit, "exec:") {
			t.Errorf("%s It says that %q is started", tt.desc, f.Trust)
		}
		if f.Want != "4294901760 = 0xffff0000" || f.Got != "7" {
			t.Errorf("%s want %q, got %q", tt.desc, f.Want, f.Got)
		}
	}
}

// What a JIT that is not here refused is left to the interpreter; of what it was
// not asked for nobody has seen anything.
func TestRefused(t *testing.T) {
	s := campaign.NewState(&campaign.Settings{JITs: []string{"exec:./myjit"}})
	ins := bpf.Instruction{Code: bpf.LdxMsh}
	for _, tt := range []struct {
		desc           string
		shown, refused []uint32
		want           string
	}{
		{"It refuses this opcode.", nil, []uint32{bpf.LdxMsh, 256}, stateNone},
		{"It refuses another one.", nil, []uint32{bpf.LdxLen}, stateUnseen},
		{"It refuses none.", nil, []uint32{}, stateUnseen},
		{"Nobody knows.", nil, nil, stateUnseen},
		{"Another build of it took the opcode.", []uint32{bpf.LdxMsh}, []uint32{bpf.LdxMsh}, stateSeen},
	} {
		c := newCovered("exec:./myjit", engine.TargetFeatures{Entries: tt.shown}, s, tt.refused)
		if got := c.cell(ins); got.State != tt.want {
			t.Errorf("%s It is %s, want %s", tt.desc, got.State, tt.want)
		}
	}
}
