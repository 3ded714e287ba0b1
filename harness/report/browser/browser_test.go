// Package browser_test opens reports in a real headless Chromium. It is a module
// of its own: kjit itself needs none of what drives a browser.
package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// root is the folder of kjit.
const root = "../../.."

// browsers are the commands that a Chromium may be.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell"}

// findBrowser returns the browser, that of KJIT_BROWSER first, or skips the test.
func findBrowser(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("KJIT_BROWSER"); name != "" {
		return name
	}
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("no browser: none of %s is installed (apt-get install chromium), and KJIT_BROWSER names none", strings.Join(browsers, ", "))
	return ""
}

// makeReports builds kjit and has it write a report of everything that it reports
// on, and one of nothing bad.
func makeReports(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	kjit := filepath.Join(dir, "kjit")
	run := func(codes string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if name == "go" {
			cmd.Dir = root
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code, err = exit.ExitCode(), nil
		}
		if err != nil || !strings.Contains(codes, fmt.Sprint(code)) {
			t.Fatalf("%s %s: exit %d, %v\n%s", name, strings.Join(args, " "), code, err, stderr.String())
		}
		return string(out)
	}
	save := func(file, text string) string {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	run("0", "go", "build", "-o", kjit, "./cmd/kjit")
	// Whatever the program's author writes is text.
	save("hostile.txt", "; <script>console.error('run')</script><img src=x onerror=console.error(1)>\nld [0]\ndiv #1\nret a\n")
	run("1", kjit, "fuzz", "--state", "state", "--runs", "4000", "--range", "64", "--jit", "mutant:x86-and-imm16,linux-3.10-x86_64,kjit-armv5,mutant:arm-rsh0@kjit-armv7")
	save("diverges.jsonl", run("1", kjit, "--json", "replay", "hostile.txt", "--hex", strings.Repeat("00010203", 200), "--hex", "ffffffff"))
	save("agrees.jsonl", run("0", kjit, "--json", "replay", "corpus:posting2011", "corpus:packets"))
	save("mutants.jsonl", run("01", kjit, "--json", "mutants", "--only", "x86-and-imm16,arm-rsh0", "--programs", "500"))
	save("facts.jsonl", `{"name":"divk_1","type":"mutant","mutant":"x86-divk-reciprocal","arch":"x86_64","program":[[32,0,0,0],[52,0,0,1],[22,0,0,0]],"packet":"00010203","want":"0x10203","measured":{"linux-3.0.1":{"x86_64":{"outcome":"value","value":"0x1"}}},"evidence":"measured"}`)
	save("checks.jsonl", run("1", kjit, "--json", "verify", "facts.jsonl"))
	findings, err := filepath.Abs(filepath.Join(root, "corpus/findings"))
	if err != nil {
		t.Fatal(err)
	}
	run("0", kjit, "report", "--paper", "-o", "all.html", "state", "diverges.jsonl", "agrees.jsonl", "mutants.jsonl", "checks.jsonl",
		filepath.Join(findings, "mutant-arm-hs-wrap.ld-abs.fault.txtar"), filepath.Join(findings, "mutant-x86-pass0-seen.ret-k.fault.txtar"))
	run("0", kjit, "report", "-o", "calm.html", "agrees.jsonl")
	return map[string]string{"all": filepath.Join(dir, "all.html"), "calm": filepath.Join(dir, "calm.html")}
}

// complaints are what a page gives its console, and what it wants from a network.
type complaints struct {
	sync.Mutex
	texts []string
}

func (c *complaints) add(format string, args ...any) {
	c.Lock()
	defer c.Unlock()
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

func (c *complaints) listen(page string) func(any) {
	return func(event any) {
		switch e := event.(type) {
		case *cdpruntime.EventExceptionThrown:
			c.add("exception: %s", e.ExceptionDetails.Text)
		case *cdpruntime.EventConsoleAPICalled:
			c.add("console.%s: %v", e.Type, e.Args)
		case *log.EventEntryAdded:
			c.add("%s: %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if e.Request.URL != page {
				c.add("request of %s", e.Request.URL)
			}
		}
	}
}

// layout is what the page says of itself.
type layout struct {
	ScrollWidth, InnerWidth int
	Outside                 []string // elements that stick out, and are in no container that scrolls, or whose text does
	Scripts                 int
	Headings                string
	Nameless                []string // pictures without a name, regions without a label, tables without a caption
	Ids                     []string // that are there twice
	Dangling                []string // links into the page that lead nowhere
	Dim                     []string // texts without enough contrast
	Silent                  []string // what scrolls sideways and does not say so, or says so and does not
	Cut                     []string // charts that are cut at the side of a phone
}

const measure = `(() => {
  const all = [...document.querySelectorAll('*')]
  const scrolls = e => { for (let p = e.parentElement; p; p = p.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX)) return true; return false }
  const name = e => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + ' ' + (e.textContent || '').trim().slice(0, 40)
  const outside = all.filter(e => !e.closest('svg *') && e.getBoundingClientRect().width && !e.matches('.skip, .hidden') && e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e)).map(name)
  // What a cell, or a heading, is too narrow for lies over what is beside it.
  outside.push(...[...document.querySelectorAll('td, th, h1, h2, h3, p, dd')].filter(e => e.clientWidth && !e.matches('.hidden') && e.scrollWidth > e.clientWidth + 1).map(name))
  const nameless = [
    ...[...document.querySelectorAll('svg[role=img]')].filter(e => !e.querySelector('title') || !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))),
    ...[...document.querySelectorAll('svg')].filter(e => !e.querySelector('desc')),
    ...[...document.querySelectorAll('[role=region]')].filter(e => !e.getAttribute('aria-label')),
    ...[...document.querySelectorAll('[aria-labelledby]')].filter(e => e.getAttribute('aria-labelledby').split(' ').some(id => !document.getElementById(id))),
    ...[...document.querySelectorAll('table')].filter(e => !e.caption),
    ...[...document.querySelectorAll('th')].filter(e => !e.scope),
    ...[...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex < 0),
  ].map(name)
  const seen = new Set(), ids = []
  for (const e of document.querySelectorAll('[id]')) { if (seen.has(e.id)) ids.push(e.id); seen.add(e.id) }
  const dangling = [...document.querySelectorAll('a[href^="#"]')].filter(a => !document.getElementById(a.hash.slice(1))).map(name)
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m }
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1)
  const light = c => { const [r, g, b] = c.map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const ground = e => { let stack = []; for (let p = e; p; p = p.parentElement) { stack.push(parse(getComputedStyle(p).backgroundColor)); if (stack.at(-1)[3] === 1) break }
    return stack.reverse().reduce((below, c) => over(c, below), [255, 255, 255, 1]) }
  const dim = []
  for (const e of all) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
    if (!own || ['STYLE', 'TITLE', 'DESC'].includes(e.tagName.toUpperCase()) || e.closest('title, desc, style, head')) continue
    const s = getComputedStyle(e)
    let front = parse(e instanceof SVGElement ? s.fill : s.color), back = ground(e instanceof SVGElement ? e.closest('svg').parentElement : e)
    const rect = e instanceof SVGElement && e.parentElement.tagName === 'g' && e.parentElement.querySelector('rect')
    if (rect && getComputedStyle(rect).fill !== 'none') { const f = parse(getComputedStyle(rect).fill); back = over([f[0], f[1], f[2], f[3] * Number(getComputedStyle(rect).fillOpacity)], back) }
    const [a, b] = [light(over(front, back)), light(back)].sort((x, y) => y - x)
    if ((a + 0.05) / (b + 0.05) < 4.5) dim.push(((a + 0.05) / (b + 0.05)).toFixed(2) + ' ' + name(e))
  }
  const says = e => parseFloat(getComputedStyle(e, '::after').maxHeight) > 0
  const silent = !CSS.supports('animation-timeline: scroll(self inline)') ? [] :
    [...document.querySelectorAll('.scroll, pre')].filter(e => e.checkVisibility() && (e.scrollWidth > e.clientWidth) !== says(e)).map(e => e.scrollWidth + ' of ' + e.clientWidth + ' ' + name(e))
  const cut = [...document.querySelectorAll('.growth .scroll, pre.command')].filter(e => e.scrollWidth > e.clientWidth).map(name)
  return {
    Silent: silent, Cut: cut, ScrollWidth: document.documentElement.scrollWidth, InnerWidth: innerWidth, Outside: outside,
    Scripts: document.scripts.length + all.filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
    Headings: [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => h.tagName[1]).join(''), Nameless: nameless, Ids: ids, Dangling: dangling, Dim: dim,
  }
})()`

// A report loads without a complaint, fits phones and desks, and can be used
// without eyes, without a mouse and in the dark.
func TestReportInBrowser(t *testing.T) {
	path := findBrowser(t)
	reports := makeReports(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start on %s: %v", path, runtime.GOOS, err)
	}
	for _, tt := range []struct {
		report        string
		width, height int64
		scheme        string
	}{
		{"all", 1280, 900, "light"}, {"all", 1280, 900, "dark"}, {"all", 390, 844, "light"}, {"all", 390, 844, "dark"},
		{"calm", 1280, 900, "light"}, {"calm", 390, 844, "light"},
	} {
		name := fmt.Sprintf("%s-%d-%s", tt.report, tt.width, tt.scheme)
		t.Run(name, func(t *testing.T) {
			ctx, cancel := chromedp.NewContext(ctx)
			defer cancel()
			page := (&url.URL{Scheme: "file", Path: reports[tt.report]}).String()
			var bad complaints
			if err := chromedp.Listen(ctx, bad.listen(page)); err != nil {
				t.Fatal(err)
			}
			if err := open(ctx, page, tt.width, tt.height, tt.scheme); err != nil {
				t.Fatal(err)
			}
			closed, err := chromedp.Run(ctx, chromedp.Evaluate[layout](measure))
			if err != nil {
				t.Fatal(err)
			}
			shoot(t, ctx, name)
			// Everything that can be opened is open.
			if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelectorAll('details').forEach(d => { d.open = true }); true`)); err != nil {
				t.Fatal(err)
			}
			shoot(t, ctx, name+"-opened") // and a frame for what depends on scrolling
			opened, err := chromedp.Run(ctx, chromedp.Evaluate[layout](measure))
			if err != nil {
				t.Fatal(err)
			}
			for what, l := range map[string]layout{"closed": closed, "opened": opened} {
				if l.ScrollWidth > l.InnerWidth || len(l.Outside) > 0 {
					t.Errorf("%s: %d pixels wide in a window of %d: %q", what, l.ScrollWidth, l.InnerWidth, l.Outside)
				}
				if l.Scripts > 0 {
					t.Errorf("%s: %d scripts", what, l.Scripts)
				}
				if len(l.Headings) == 0 || l.Headings[0] != '1' || strings.Count(l.Headings, "1") != 1 {
					t.Errorf("%s: headings %s", what, l.Headings)
				}
				for i := 1; i < len(l.Headings); i++ {
					if l.Headings[i] > l.Headings[i-1]+1 {
						t.Errorf("%s: headings %s: a level is left out", what, l.Headings)
						break
					}
				}
				for problem, list := range map[string][]string{"without a name": l.Nameless, "twice": l.Ids, "leads nowhere": l.Dangling, "contrast below 4.5": l.Dim, "scrolls and does not say so": l.Silent, "cut": l.Cut} {
					if len(list) > 0 {
						t.Errorf("%s: %s: %d: %q", what, problem, len(list), list[:min(len(list), 8)])
					}
				}
			}
			if err := keyboard(ctx); err != nil {
				t.Error(err)
			}
			bad.Lock()
			defer bad.Unlock()
			for _, text := range bad.texts {
				t.Errorf("the page complains: %s", text)
			}
		})
	}
}

// open loads a page as a window of that size sees it.
func open(ctx context.Context, page string, width, height int64, scheme string) error {
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	if err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.Navigate(page))
}

// keyboard opens the first thing that is closed without a mouse.
func keyboard(ctx context.Context) error {
	before, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`(() => { const d = document.querySelector('details'); if (!d) return false; d.open = false; d.querySelector('summary').focus(); return d.open })()`))
	if err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent("\r")); err != nil {
		return err
	}
	after, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelector('details')?.open ?? true`))
	if err == nil && (before || !after) {
		err = errors.New("the return key does not open what is closed")
	}
	return err
}

// shoot takes a picture of the whole page. One that is of one colour shows
// nothing; KJIT_SCREENSHOTS names a folder to keep them in.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := lively(picture); err != nil {
		t.Errorf("screenshot: %v", err)
	}
	dir := os.Getenv("KJIT_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o666); err != nil {
		t.Fatal(err)
	}
}
