package seccompdata

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTables compares all tables with those of golang.org/x/sys, which is
// generated from other versions of the same headers.
func TestTables(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil || len(strings.TrimSpace(string(dir))) == 0 {
		t.Skip("the module golang.org/x/sys is not here")
	}
	constant := regexp.MustCompile(`(?m)^\s*SYS_(\w+)\s*= (\d+)$`)
	// What x/sys has and is no call, and what it has not.
	none := []string{"syscall_mask", "arch_specific_syscall"}
	private := []string{"breakpoint", "cacheflush", "usr26", "usr32", "set_tls", "get_tls"}
	for abi, goarch := range map[*ABI]string{X86_64: "amd64", I386: "386", ARM: "arm", AARCH64: "arm64"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+goarch+".go"))
		if err != nil {
			t.Fatal(err)
		}
		theirs := map[string]bool{}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			name := strings.ToLower(m[1])
			theirs[name] = true
			want, _ := strconv.Atoi(m[2])
			if got, ok := abi.Number(name); (!ok || int(got) != want) && !slices.Contains(none, name) {
				t.Errorf("%s: %s is %d, %v; x/sys has %d", abi, name, got, ok, want)
			}
		}
		for _, nr := range abi.Numbers() {
			name, _ := abi.Call(nr)
			if isPrivate := abi == ARM && slices.Contains(private, name); !theirs[name] != isPrivate {
				t.Errorf("%s: %s is %d, x/sys has none", abi, name, nr)
			}
		}
	}
}

// TestX32Header compares x32 with the header of the system, where there is one.
func TestX32Header(t *testing.T) {
	text, err := os.ReadFile("/usr/include/x86_64-linux-gnu/asm/unistd_x32.h")
	if err != nil {
		t.Skip("there is no asm/unistd_x32.h here")
	}
	theirs := map[string]bool{}
	for _, m := range regexp.MustCompile(`#define __NR_(\w+) \(__X32_SYSCALL_BIT \+ (\d+)\)`).FindAllStringSubmatch(string(text), -1) {
		theirs[m[1]] = true
		want, _ := strconv.Atoi(m[2])
		if got, ok := X32.Number(m[1]); !ok || got != uint32(want)|X32Bit {
			t.Errorf("%s is %#x, %v; the header has %d", m[1], got, ok, want)
		}
	}
	newest := 0
	for name := range theirs {
		nr, _ := X32.Number(name)
		if nr &^= X32Bit; nr < firstOfX32 {
			newest = max(newest, int(nr))
		}
	}
	for _, nr := range X32.Numbers() {
		name, _ := X32.Call(nr)
		plain := int(nr &^ X32Bit)
		if !theirs[name] && (plain < newest && plain != 335 && plain != 336 || plain >= firstOfX32) {
			t.Errorf("%s is %d, the header has none", name, plain)
		}
	}
}

func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		desc string
		abi  *ABI
		nr   uint32
		name string // "": there is none
	}{
		{"x32 has its own number for calls whose arguments differ.", X32, X32Bit | 514, "ioctl"},
		{"The number that such a call has on x86_64 is none of x32.", X32, X32Bit | 16, ""},
		{"The last of x32's own numbers is there.", X32, X32Bit | 547, "pwritev2"},
		{"Numbers of x32 have its bit.", X32, 0, ""},
		{"x86_64 has no number with the bit.", X86_64, X32Bit, ""},
		{"Calls for shadow stacks are not on x32.", X32, X32Bit | 453, ""},
		{"uretprobe is a call of x86_64.", X86_64, 335, "uretprobe"},
		{"uprobe is a call of x86_64.", X86_64, 336, "uprobe"},
		{"The same numbers are others on i386.", I386, 336, "perf_event_open"},
		{"ARM has private calls.", ARM, 0x0f0002, "cacheflush"},
		{"The last private call of ARM is there.", ARM, 0x0f0006, "get_tls"},
		{"AARCH64 has no calls with 64-bit times.", AARCH64, 403, ""},
		{"Calls for 64-bit times are on 32-bit machines.", ARM, 403, "clock_gettime64"},
		{"AARCH64 calls fstatat by the name of 64-bit machines.", AARCH64, 79, "newfstatat"},
		{"A place in the generic table is no call.", AARCH64, 244, ""},
		{"The newest calls are there.", ARM, 470, "listns"},
	} {
		name, ok := tt.abi.Call(tt.nr)
		if name != tt.name || ok != (tt.name != "") {
			t.Errorf("%s got %q", tt.desc, name)
		}
		if nr, ok := tt.abi.Number(tt.name); tt.name != "" && (nr != tt.nr || !ok) {
			t.Errorf("%s the name has %#x", tt.desc, nr)
		}
	}
}

// x32's own calls are a block without holes.
func TestOwnOfX32(t *testing.T) {
	for nr := uint32(512); nr <= 547; nr++ {
		name, ok := X32.Call(nr | X32Bit)
		if !ok {
			t.Errorf("%d has no name", nr)
		}
		if on64, ok := X86_64.Number(name); !ok || on64 >= 512 {
			t.Errorf("%s is %d on x86_64", name, on64)
		}
	}
}

// Every name has one number and every number one name.
func TestTablesAreOneToOne(t *testing.T) {
	for _, abi := range ABIs() {
		numbers := abi.Numbers()
		if !slices.IsSorted(numbers) || len(numbers) != len(abi.table().numbers) {
			t.Errorf("%s: %d numbers, %d names", abi, len(numbers), len(abi.table().numbers))
		}
		for _, nr := range numbers {
			name, _ := abi.Call(nr)
			if again, _ := abi.Number(name); again != nr || ABIOf(abi.Arch, nr) != abi {
				t.Errorf("%s: %s is %d and %d", abi, name, nr, again)
			}
		}
	}
}

// Counts of calls and sizes of tables. The counts for 6.7 are those of the
// libseccomp of that time.
func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		abi         *ABI
		kernel      Kernel
		calls, size int
	}{
		{X86_64, Kernel{5, 11}, 353, 442},
		{X86_64, Kernel{6, 7}, 368, 457},
		{X86_64, Kernel{6, 18}, 383, 470},
		{I386, Kernel{6, 7}, 446, 457},
		{X32, Kernel{6, 7}, 356, 0},
		{ARM, Kernel{6, 7}, 415, 460}, // six are private; 457 is rounded up
		{AARCH64, Kernel{6, 7}, 312, 457},
	} {
		calls, size := len(tt.abi.Calls(tt.kernel)), tt.abi.TableSize(tt.kernel)
		if calls != tt.calls || size != tt.size {
			t.Errorf("%s, Linux %s: %d calls, a table of %d; want %d and %d", tt.abi, tt.kernel, calls, size, tt.calls, tt.size)
		}
	}
	if got := ARM.TableSizeOn(AARCH64, Kernel{6, 7}); got != 457 {
		t.Errorf("the table for ARM on AARCH64 has %d", got)
	}
}

func TestABIByName(t *testing.T) {
	for name, want := range map[string]*ABI{
		"x86_64": X86_64, "SCMP_ARCH_X86_64": X86_64, "amd64": X86_64, "SCMP_ARCH_X86": I386, "i386": I386,
		"SCMP_ARCH_X32": X32, "x32": X32, "arm64": AARCH64, "SCMP_ARCH_AARCH64": AARCH64, "SCMP_ARCH_ARM": ARM,
	} {
		if got, err := ABIByName(name); got != want || err != nil {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	if _, err := ABIByName("vax"); err == nil || !strings.Contains(err.Error(), "x86_64, i386, x32, arm, aarch64") {
		t.Errorf("an unknown name gives %v", err)
	}
}
