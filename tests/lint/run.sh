#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Checks that a check of `./dev lint` finds one planted violation.
#
#   tests/lint/run.sh SCENARIO
#
# Copies tree/ and the scripts to a temporary folder.  There the check of the scenario must pass,
# which is tried by the first scenario that has this check.
# Then the scenario plants its violation, and the check must fail with the expected line.  A
# scenario is a shell script with two lines in its head:
#   check: COMMAND        runs from the root of the copy
#   expect: REGEX         an extended regular expression that matches a line of its output
set -euo pipefail
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
scenario=$(realpath "$1")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
check=$(sed -n 's/^# check: //p' "$scenario")
expect=$(sed -n 's/^# expect: //p' "$scenario")
command -v python3 >/dev/null && command -v git >/dev/null || exit 77

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r "$root/tests/lint/tree/." "$tmp"
mkdir "$tmp/scripts"
for file in check-words check-columns check-floors check-ord check-refs check-terms check-budgets \
	check-policy docs tree.py words.tsv; do
	[ ! -e "$root/scripts/$file" ] || cp "$root/scripts/$file" "$tmp/scripts"
done
printf '# file\tphrase\treason\n' >"$tmp/scripts/words-allow.tsv"
printf '# file\tname\treason\n' >"$tmp/scripts/policy-allow.tsv"
printf 'room\t%s\t60\n' src src/base src/mode >"$tmp/scripts/budgets.tsv"
cd "$tmp"

# commit SUBJECT: commit all files
commit() {
	git add -A
	git -c user.name=lint -c user.email=lint@localhost -c commit.gpgsign=false \
		commit -q --allow-empty -m "$1"
}

# check_fails: run the check; leaves its output in $output
check_fails() {
	if output=$(bash -c "$check" 2>&1); then return 1; fi
}

git -c init.defaultBranch=main init -q
commit "tree: begin"
git tag base
first=$(grep -lFx -- "# check: $check" "$(dirname "$scenario")"/*.sh | head -n 1)
if [ "$first" = "$scenario" ] && check_fails; then
	echo "$output"
	echo "$check fails without a violation"
	exit 1
fi
source "$scenario"
if ! check_fails; then
	echo "$check passes with the violation"
	exit 1
fi
if ! grep -qE -- "$expect" <<<"$output"; then
	echo "$output"
	echo "$check fails, but no line matches: $expect"
	exit 1
fi
