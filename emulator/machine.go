// Package emulator is an emulated kernel for the machine code that BPF JITs
// make: a processor in supervisor mode with real page tables, guard pages
// around code, stack and every part of a packet, the kernel's helper routines
// as guest code at the profile's addresses, and a driver in the guest that runs
// whole batches of inputs. It knows images and inputs, not what programs mean.
package emulator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kjit-project/kjit/emulator/internal/uc"
	"github.com/kjit-project/kjit/kernelabi"
)

const (
	tableFrames = 256 // for page tables
	maxImage    = 1 << 20
	arenaFrames = maxImage/pageSize + 3 // for the image and what surrounds it

	usedStack = 512 // bytes below the caller's frame that code and its helpers write to

	// renewal is after how many images the engine is replaced, which takes 1 ms
	// or so: it never forgets where it put a hook, some 40 bytes for each address
	// and size of a block that there was.
	renewal = 1 << 17
)

// defaultBudget is that of [WithBudget].
const defaultBudget = 1 << 20

// options are the tunables of a machine.
type options struct {
	budget   uint64
	timeout  time.Duration
	buffer   uint32
	userPage bool
	trace    bool
	accesses bool
	tailroom int

	coverage, attribution bool
}

// Option changes how a machine is made.
type Option func(*options)

// WithBudget sets how many translated blocks (straight runs of at most 512
// instructions) one input may execute before it ends with [Timeout]. This
// bound is the same on every host. The default is 1<<20.
func WithBudget(blocks uint64) Option { return func(o *options) { o.budget = blocks } }

// WithTimeout sets the wall-clock bound of one window of at most 64 inputs, a
// second line of defence behind the budget. The default is 30 s.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithBuffer sets the size in bytes of the engine's buffer for translated
// code, which is all touched sooner or later. The default is 16 MiB; sets of
// very large images want 32 MiB.
func WithBuffer(bytes uint32) Option { return func(o *options) { o.buffer = bytes } }

// WithTailroom puts so many readable zeros behind the linear part of every
// packet, at most 4096, in place of the guard page: kernels have some there, so
// that reading a few bytes too many gives a value and no fault.
func WithTailroom(bytes int) Option {
	return func(o *options) { o.tailroom = min(max(bytes, 0), pageSize) }
}

// WithAccessChecks makes a machine that looks at every memory access, for
// [BrokenAlignment], [BrokenFrame] and [Result.StackUnaligned]. It is many times
// slower. Processors that take unaligned accesses are not held to any alignment.
func WithAccessChecks() Option { return func(o *options) { o.accesses = true } }

// withUserPage maps a page of user space.
func withUserPage(o *options) { o.userPage = true }

// Machine is an emulated kernel with at most one image loaded. It belongs to
// one goroutine at a time; use from two at once is an error where it is
// noticed. Close frees it.
type Machine struct {
	profile *kernelabi.Profile
	opts    options
	arch    arch
	plan    *plan
	mem     *memory
	tables  tables
	engine  *uc.Engine
	regions []region // everything mapped but the image
	packets packets
	sites   []site
	routine *routines
	driver  *driver
	control []byte // the driver's control page
	stack   []byte
	cpu     []byte // the processor number
	end     int    // index of the descriptor that ends the window

	arena     uint64 // physical address of the frames for images
	loads     int    // images that this engine had
	image     *kernelabi.Image
	imagePage region // the image's pages; from the first frame of arena on
	imageCode span   // where in them its code is, and the only code that is no filling

	edges []byte   // the map of WithCoverage
	found []uint32 // where in it the n-th new edge is, at n modulo its length
	runs  runs

	edgesBefore, blocksBefore uint64 // what earlier engines have found and translated

	busy  atomic.Bool
	watch watchdog

	va      addresses
	initial []uint64 // control registers of the clean state
}

var (
	errBusy   = errors.New("the machine is in use by another goroutine: give each its own")
	errClosed = errors.New("the machine is closed")
	errEmpty  = errors.New("no image is loaded")
)

// New makes a machine for the profile: its layout, its symbols.
func New(p *kernelabi.Profile, opts ...Option) (*Machine, error) {
	if p == nil {
		return nil, errors.New("no profile")
	}
	a, err := newArch(p)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	m := &Machine{profile: p, arch: a, plan: a.plan(), opts: options{budget: defaultBudget, timeout: 30 * time.Second, buffer: 16 << 20}}
	for _, o := range opts {
		o(&m.opts)
	}
	m.watch.limit = m.opts.timeout
	if err := m.build(); err != nil {
		m.free()
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return m, nil
}

// Profile returns what the machine was made for.
func (m *Machine) Profile() *kernelabi.Profile { return m.profile }

// Translated returns how many blocks of code the machine has translated so far,
// which takes most of the time of a program that is run on few inputs.
func (m *Machine) Translated() uint64 {
	if m.engine == nil {
		return m.blocksBefore
	}
	return m.blocksBefore + m.engine.Translated()
}

// enter claims the machine for a method.
func (m *Machine) enter() error {
	if !m.busy.CompareAndSwap(false, true) {
		return errBusy
	}
	if m.engine == nil {
		m.busy.Store(false)
		return errClosed
	}
	return nil
}

func (m *Machine) leave() { m.busy.Store(false) }

// Close frees the machine. It may be called twice.
func (m *Machine) Close() error {
	if !m.busy.CompareAndSwap(false, true) {
		return errBusy
	}
	defer m.leave()
	return m.free()
}

func (m *Machine) free() error {
	m.watch.close()
	if m.engine != nil {
		m.engine.Close()
		m.engine = nil
	}
	if m.mem == nil {
		return nil
	}
	return m.mem.close()
}

// addRegion maps size bytes at va and returns their memory.
func (m *Machine) addRegion(name string, va, size uint64, p prot) ([]byte, error) {
	size = (size + pageMask) &^ pageMask
	if err := m.overlap(name, va, size); err != nil {
		return nil, err
	}
	pa, err := m.mem.take(int(size / pageSize))
	if err != nil {
		return nil, err
	}
	r := region{name: name, va: va, size: size, pa: pa, prot: p}
	if err := m.tables.apply(&r); err != nil {
		return nil, err
	}
	m.regions = append(m.regions, r)
	return m.mem.bytes(pa, size), nil
}

// region returns the one that starts at va.
func (m *Machine) region(va uint64) *region {
	i := slices.IndexFunc(m.regions, func(r region) bool { return r.va == va })
	return &m.regions[i]
}

// overlap reports a region that [va, va+size) touches. Adjoining regions of
// the machine itself are all right.
func (m *Machine) overlap(name string, va, size uint64) error {
	for i := range m.regions {
		r := &m.regions[i]
		if va-r.va < r.size || r.va-va < size {
			return fmt.Errorf("%s at %#x..%#x overlaps %s at %#x..%#x", name, va, va+size-1, r.name, r.va, r.end()-1)
		}
	}
	return nil
}

// Load makes img the image that Run executes. The image is kept, not copied;
// its bytes are. Errors: an image that is empty or too large, and a base that
// is no address for code or where something else lies.
func (m *Machine) Load(img *kernelabi.Image) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	return m.load(img)
}

// load replaces the code in the image's frames. Nothing else changes if the new
// image takes the same pages, and page tables and the engine's TLB need not be
// touched. After it, all around the code is filling again and there are no
// translations of what was there before.
func (m *Machine) load(img *kernelabi.Image) error {
	if img == nil || len(img.Code) == 0 {
		return errors.New("the image is empty")
	}
	if img.Profile != nil && img.Profile.Arch != m.profile.Arch {
		return fmt.Errorf("the image is for %s, the machine is %s", img.Profile.Arch, m.profile.Arch)
	}
	if len(img.Code) > maxImage {
		return fmt.Errorf("the image has %d bytes, at most %d can be loaded", len(img.Code), maxImage)
	}
	r, err := m.imageRegion(img.Base, uint64(len(img.Code)))
	if err != nil {
		return err
	}
	if m.loads++; m.loads > renewal {
		if err := m.restartEngine(); err != nil {
			return err
		}
	}
	code := span{img.Base - r.va, img.Base - r.va + uint64(len(img.Code))}
	old, oldCode := m.imagePage, m.imageCode
	stale := code // where in the new region translations are of no use any more
	switch {
	case old.size == 0:
	case old.va != r.va:
		if err := m.unmap(old); err != nil {
			return err
		}
	default:
		stale = span{min(code.lo, oldCode.lo), min(max(code.hi, oldCode.hi), r.size)}
		if old.size > r.size {
			if err := m.unmap(region{va: r.end(), size: old.size - r.size}); err != nil {
				return err
			}
		}
	}

	mem := m.mem.bytes(m.arena, arenaFrames*pageSize)
	fillCode(mem[oldCode.lo:oldCode.hi], int(oldCode.lo), m.plan.filling)
	copy(mem[code.lo:code.hi], img.Code)
	m.image, m.imagePage, m.imageCode = nil, r, code

	if r.va != old.va || r.size != old.size {
		if err := m.tables.apply(&m.imagePage); err != nil {
			if err := m.rebuildTables(&m.imagePage); err != nil {
				return err
			}
		}
		if err := m.engine.SetRegion(0, r.va, r.size, arenaFrames*pageSize); err != nil {
			return err
		}
	}
	if err := m.engine.Forget(r.va+stale.lo, r.va+stale.hi); err != nil {
		return fmt.Errorf("drop translations: %w", err)
	}
	m.forgetRuns(max(r.size, old.size))
	put64(m.control[ctlEntry:], img.Base)
	// What the image before saved on the stack must not be there for one that
	// restores it and has saved nothing.
	fill(m.stack[len(m.stack)-usedStack:], poisonByte)
	m.image = img
	return m.setRules()
}

// unmap takes pages away from an image.
func (m *Machine) unmap(r region) error {
	// Translations are kept by frame, and can be dropped only while the pages
	// are mapped: pages that come later have the same frames.
	if err := m.engine.Forget(r.va, r.end()); err != nil {
		return fmt.Errorf("drop translations: %w", err)
	}
	m.tables.remove(&r)
	if err := m.engine.FlushTLB(); err != nil {
		return fmt.Errorf("flush the TLB: %w", err)
	}
	return nil
}

// imageRegion finds the pages of an image, with room for fill bytes behind it.
func (m *Machine) imageRegion(base, size uint64) (region, error) {
	lo := base &^ uint64(pageMask)
	hi := (base + size + m.plan.longest + pageMask) &^ uint64(pageMask)
	if valid := m.plan.valid; !valid(base) || !valid(hi-1) || hi <= lo || hi+pageSize < hi {
		return region{}, fmt.Errorf("image base %#x: %d bytes from there on are not all %s addresses", base, size, m.plan.kind)
	}
	if base%m.plan.align != 0 {
		return region{}, fmt.Errorf("image base %#x: instructions are at multiples of %d", base, m.plan.align)
	}
	if lo < 1<<16 {
		return region{}, fmt.Errorf("image base %#x: the first 64 KiB are never mapped, so that null pointers fault", base)
	}
	r := region{name: "the image", va: lo, size: hi - lo, pa: m.arena, prot: executable}
	if r.va == m.imagePage.va && r.size <= m.imagePage.size {
		return r, nil // there was one before
	}
	for i := range m.regions {
		if other := &m.regions[i]; other.overlaps(r.va, r.size) {
			return region{}, fmt.Errorf("image at %#x..%#x, with its guard pages, overlaps %s at %#x..%#x: load it elsewhere",
				base, base+size-1, other.name, other.va, other.end()-1)
		}
	}
	return r, nil
}

// rebuildTables starts over with the page tables: images at ever new addresses
// leave empty tables behind.
func (m *Machine) rebuildTables(image *region) error {
	m.tables.reset()
	for i := range m.regions {
		if err := m.tables.apply(&m.regions[i]); err != nil {
			return err
		}
	}
	return m.tables.apply(image)
}

// watchdog stops an engine that runs too long in one window. Its timer costs
// nothing until it fires.
type watchdog struct {
	limit   time.Duration
	windows atomic.Uint64 // windows begun, so that bark sees progress
	expired atomic.Bool

	mu      sync.Mutex
	timer   *time.Timer
	engine  *uc.Engine
	running bool
	armed   bool // the timer is set
	seen    uint64
}

// start arms the watchdog for a call of Run.
func (w *watchdog) start(e *uc.Engine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engine, w.running = e, true
	now := w.windows.Add(1)
	w.expired.Store(false)
	if w.armed {
		return // it will see that this is another window
	}
	w.armed, w.seen = true, now
	if w.timer == nil {
		w.timer = time.AfterFunc(w.limit, w.bark)
		return
	}
	w.timer.Reset(w.limit)
}

// window tells that the next window begins.
func (w *watchdog) window() {
	w.windows.Add(1)
	w.expired.Store(false)
}

// bark stops the engine if it is still in the window that it was in when the
// timer was set; again and again, since a stop that comes before the engine
// has started is lost.
func (w *watchdog) bark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running || w.engine == nil {
		w.armed = false
		return
	}
	if now := w.windows.Load(); now != w.seen {
		w.seen = now
		w.timer.Reset(w.limit)
		return
	}
	w.expired.Store(true)
	w.engine.Stop()
	w.timer.Reset(10 * time.Millisecond)
}

// stop disarms it. The timer, which would cost more than many a run if it were
// set and stopped for each, goes on and finds nothing to do.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
}

func (w *watchdog) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.engine = false, nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
