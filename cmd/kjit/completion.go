package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kjit-project/kjit/bpf"
	"github.com/kjit-project/kjit/bpf/bpftext"
	"github.com/kjit-project/kjit/corpus"
	"github.com/kjit-project/kjit/harness"
	"github.com/kjit-project/kjit/harness/verify"
	"github.com/kjit-project/kjit/kernelabi"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long help text.
func (*completionCmd) Help() string {
	return `Prints a script for a shell, which completes commands, flags, their values, JITs
and corpus:NAME by asking kjit itself.

  source <(kjit completion bash)                            # in ~/.bashrc
  kjit completion zsh >"${fpath[1]}/_kjit"                  # then a new shell
  kjit completion fish >~/.config/fish/completions/kjit.fish`
}

func (c *completionCmd) Run(std streams) error {
	_, err := io.WriteString(std.out, completionScripts[c.Shell])
	return err
}

// completionScripts hand the words up to the cursor, that of the command first,
// to kjit __complete. Where it has nothing to say there is a file to be named.
var completionScripts = map[string]string{
	// bash takes : and = for ends of words, and replaces what is behind the last.
	"bash": `# Completion of kjit for bash.
_kjit() {
	local line=${COMP_LINE:0:COMP_POINT} words cur
	read -ra words <<<"$line"
	case $line in *[[:blank:]]) words+=("") ;; esac
	cur=${words[${#words[@]}-1]}
	mapfile -t COMPREPLY < <(kjit __complete bash -- "${words[@]}" 2>/dev/null)
	COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*[:=]}"}"}")
}
complete -o default -F _kjit kjit
`,
	"zsh": `#compdef kjit
# Completion of kjit for zsh.
_kjit() {
	local -a found
	found=("${(@f)$(kjit __complete zsh -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
	if [[ -n "$found" ]]; then
		_describe kjit found
	else
		_files
	fi
}
if [[ "$funcstack[1]" = _kjit ]]; then
	_kjit "$@"
else
	compdef _kjit kjit
fi
`,
	"fish": `# Completion of kjit for fish.
function __kjit_complete
	set -l found (kjit __complete fish -- (commandline -opc) (commandline -ct) 2>/dev/null)
	if test -n "$found"
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c kjit -f -a '(__kjit_complete)'
`,
}

// completeCmd answers the scripts: a candidate a line, for zsh and fish with a
// description.
type completeCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"Who asks."`
	Words []string `arg:"" optional:"" help:"The command line up to the cursor; the last word is to be completed."`
}

func (c *completeCmd) Run(app *kong.Kong, std streams) error {
	for _, found := range complete(app.Model.Node, c.Words) {
		switch {
		case c.Shell == "zsh":
			fmt.Fprintf(std.out, "%s:%s\n", strings.ReplaceAll(found.text, ":", `\:`), found.help)
		case c.Shell == "fish" && found.help != "":
			fmt.Fprintf(std.out, "%s\t%s\n", found.text, found.help)
		default:
			fmt.Fprintln(std.out, found.text)
		}
	}
	return nil
}

// candidate is what a word could become, and what that is.
type candidate struct{ text, help string }

// complete finds what the last of the words could become, of which the first is
// the command's. Nothing means that it is none of ours: a file, or free text.
func complete(node *kong.Node, words []string) (all []candidate) {
	if len(words) < 2 {
		return nil
	}
	var value *kong.Flag // the flag whose value is the next word
	onlyArgs := false
	for _, word := range words[1 : len(words)-1] {
		switch {
		case value != nil:
			value = nil
		case onlyArgs:
		case word == "--":
			onlyArgs = true
		case len(word) > 1 && word[0] == '-':
			if flag := findFlag(node, word); flag != nil && !flag.IsBool() && !flag.IsCounter() {
				value = flag
			}
		default:
			if next := child(node, word); next != nil {
				node = next
			}
		}
	}
	last := words[len(words)-1]
	name, typed, isSet := strings.Cut(last, "=")
	switch {
	case value != nil:
		all = flagValues(node, value, "", last)
	case onlyArgs:
	case strings.HasPrefix(last, "--") && isSet:
		if flag := findFlag(node, name); flag != nil {
			all = flagValues(node, flag, name+"=", typed)
		}
	case strings.HasPrefix(last, "-"):
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			all = append(all, candidate{"--" + flag.Name, flag.Help})
		}
	default:
		for _, n := range shown(node.Children) {
			all = append(all, candidate{n.Name, n.Help})
		}
	}
	if strings.HasPrefix(last, corpusPrefix) && len(node.Positional) > 0 {
		for _, name := range append(corpus.ProgramNames(), "packets") {
			all = append(all, candidate{corpusPrefix + name, ""})
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.text, last) })
}

// findFlag finds --NAME or -N among the flags of a command and those above it.
// --NAME=VALUE is complete, and not found.
func findFlag(node *kong.Node, word string) *kong.Flag {
	for _, flag := range slices.Concat(node.AllFlags(false)...) {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

// flagValues are the values of a flag behind what is typed of it: in lists, all
// up to the last comma stays.
func flagValues(node *kong.Node, flag *kong.Flag, before, typed string) (all []candidate) {
	if flag.IsSlice() {
		before += typed[:strings.LastIndexByte(typed, ',')+1]
	}
	values := flag.EnumSlice()
	for _, key := range []string{"--" + flag.Name, node.Name + " --" + flag.Name} {
		if list := knownValues[key]; list != nil {
			values = list()
		}
	}
	for _, v := range values {
		if v != "" {
			all = append(all, candidate{before + v, ""})
		}
	}
	return all
}

// knownValues are values of flags, or of the flags of one command, that no enum
// of the flag says.
var knownValues = map[string]func() []string{
	"--jit":          jitValues,
	"mutants --only": mutantValues,
	"--from":         formValues,
	"--to":           formValues,
	"--rules":        func() []string { return strings.Split(names(bpf.AllRules()), ", ") },
	"--kind":         func() []string { return []string{bpf.Socket.String(), bpf.Seccomp.String()} },
	"verify --kind":  verify.Kinds,
	"--profile": func() (all []string) {
		for _, p := range kernelabi.Profiles() {
			all = append(all, p.Name)
		}
		return all
	},
}

func formValues() []string { return strings.Split(names(bpftext.Forms()), ", ") }

// mutantValues are the names of all mutants, and of the JITs with their faults,
// which do as well.
func mutantValues() (all []string) {
	for _, m := range harness.AllMutants() {
		all = append(all, m.Name)
	}
	for _, p := range harness.Mutants() {
		all = append(all, p.Name)
	}
	return all
}

func jitValues() []string {
	all := append(allJITs(), "all", execPrefix)
	for _, p := range harness.Mutants() {
		all = append(all, p.Name)
	}
	return all
}
