# SPDX-License-Identifier: MIT
#
# Functions of scripts/port-tests and scripts/test-kqueue: the list of excluded tests, and the line
# that states how many tests were run. The caller sets `build`, the folder of the build.
# shellcheck shell=bash

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# names ARGUMENTS: the names of the tests that ctest would run
names() {
	ctest --test-dir "$build" -N "$@" | sed -nE 's/^ *Test +#[0-9]+: (.*)$/\1/p'
}

# count ARGUMENTS: how many
count() {
	names "$@" | grep -c . || true
}

# read_excluded FILE KNOWN [PROGRAMS]: sets `patterns` to the regular expressions of FILE, with | in
# between. Each line must have a reason. It must match a test of KNOWN, or, with PROGRAMS, a regular
# expression, belong to no such program.
read_excluded() {
	local file=$1 known=$2 programs=${3:-} lines line pattern

	[ -f "$file" ] || die "no file $file"
	patterns=
	mapfile -t lines < <(grep -vE '^(#|$)' "$file" || true)
	for line in "${lines[@]}"; do
		pattern=${line%%$'\t'*}
		[ "$pattern" != "$line" ] && [ -n "${line#*$'\t'}" ] ||
			die "$file: no tab and reason: $line"
		if [ -z "$programs" ] || grep -qE -- "$programs" <<<"${pattern//\\/}"; then
			grep -qxE -- "$pattern" <<<"$known" ||
				die "$file: matches no test: $pattern"
		fi
		patterns+=${patterns:+|}$pattern
	done
}

# state_run NAME CHOSEN OF OUTPUT: prints the line: CHOSEN of OF tests were chosen; the tests that
# skipped themselves, as ctest's OUTPUT says, were not run. Sets `tenths` to the tenths of a percent
# that were run.
state_run() {
	local skipped run

	[ "$3" -gt 0 ] || die "no tests"
	skipped=$(grep -cE '[*]{3}Skipped' "$4" || true)
	run=$(($2 - skipped))
	tenths=$((run * 1000 / $3))
	echo "$1: $run run, $(($3 - $2)) excluded, $skipped skipped" \
		"($((tenths / 10)).$((tenths % 10)) % of $3 run)"
}
