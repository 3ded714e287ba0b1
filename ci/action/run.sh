#!/usr/bin/env bash
# What the action does once kjit is there; any other CI system can call it, too.
# It checks recorded facts, holds a project's own JIT to the interpreter for a
# while, and writes into one folder what CI systems read: *.sarif, *.xml (JUnit)
# and report.html. On GitHub it also annotates the pull request.
#
#   KJIT_VERIFY   files of recorded facts, separated by blanks or line breaks
#   KJIT_JIT      the command of the JIT (docs/plugin.md)
#   KJIT_TIME     how long to look for divergences (60s)
#   KJIT_PROFILE  the kernel that it emits for (what it says itself)
#   KJIT_STATE    folder of the campaign (kjit-fuzz)
#   KJIT_OUT      folder for what is written (kjit-out)
#   KJIT          kjit itself (the one on the PATH)
#
# Exit code: 0 nothing is wrong, 1 something is, 2 bad input, 3 the machine.
set -uo pipefail

kjit=${KJIT:-kjit}
out=${KJIT_OUT:-kjit-out}
state=${KJIT_STATE:-kjit-fuzz}
read -rd '' -a verify <<<"${KJIT_VERIFY:-}" # and on over line breaks
jit=${KJIT_JIT:-}

if [ ${#verify[@]} -eq 0 ] && [ -z "$jit" ]; then
	echo "run.sh: nothing to do: name files to verify (KJIT_VERIFY), or a JIT (KJIT_JIT)" >&2
	exit 2
fi
if [ -n "${GITHUB_OUTPUT:-}" ] && ! command -v jq >/dev/null; then
	echo "run.sh: jq is missing, which reads SARIF for annotations: install it" >&2
	exit 3
fi
mkdir -p "$out" || exit 3
rm -f "$out"/{verify,fuzz}.{sarif,xml,jsonl} "$out/report.html"

worst=0
# run COMMAND...: the highest exit code of all is that of the script.
run() {
	"$@"
	local code=$?
	[ $code -le $worst ] || worst=$code
}

from=()
if [ ${#verify[@]} -gt 0 ]; then
	echo "== kjit verify ${verify[*]}"
	run "$kjit" --json verify --junit "$out/verify.xml" --sarif "$out/verify.sarif" "${verify[@]}" >"$out/verify.jsonl"
	tail -n 1 "$out/verify.jsonl"
	from+=("$out/verify.jsonl")
fi
if [ -n "$jit" ]; then
	echo "== kjit fuzz --jit exec:$jit --time ${KJIT_TIME:-60s}"
	options=(--jit "exec:${jit//,/\\,}" --time "${KJIT_TIME:-60s}" --state "$state")
	[ -z "${KJIT_PROFILE:-}" ] || options+=(--profile "$KJIT_PROFILE")
	run "$kjit" fuzz "${options[@]}" --junit "$out/fuzz.xml" --sarif "$out/fuzz.sarif"
	[ ! -e "$state/campaign.json" ] || from+=("$state")
fi
if [ ${#from[@]} -gt 0 ]; then
	"$kjit" report -o "$out/report.html" "${from[@]}" || run false
fi

# annotations prints the failures of SARIF files as GitHub's workflow commands: a
# line break inside one is %0A.
annotations() {
	jq -r '
		def escape: gsub("%"; "%25") | gsub("\r"; "%0D") | gsub("\n"; "%0A");
		def property: escape | gsub(":"; "%3A") | gsub(","; "%2C");
		.runs[].results[]
		| (.locations[0].physicalLocation // null) as $at
		| "::error " + (if $at then "file=\($at.artifactLocation.uri | property),line=\($at.region.startLine)," else "" end)
			+ "title=\("kjit: " + .ruleId | property)::\(.message.text | escape)"' "$@"
}

shopt -s nullglob
sarif=("$out"/*.sarif)
if [ -n "${GITHUB_OUTPUT:-}" ] && [ ${#sarif[@]} -gt 0 ]; then
	# GitHub shows ten annotations of a step; the report has all.
	annotations "${sarif[@]}" | head -n 10
	echo "failures=$(jq -s '[.[].runs[].results | length] | add' "${sarif[@]}")" >>"$GITHUB_OUTPUT"
	[ ! -e "$out/report.html" ] || echo "report=$out/report.html" >>"$GITHUB_OUTPUT"
fi
exit $worst
