#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Checks that ./dev installs packages with `setup`, `test` and `demo` only, and otherwise names the
# missing ones and fails.
#
# $PATH holds links to a few programs of the system, and stubs: an apt-get that writes its arguments
# to a file, and installs what the file `offers` lists.
set -euo pipefail
export LC_ALL=C
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/bin" "$tmp/tree"/{src,include,tests,examples,bench,check,posix,tools}
cp "$root/dev" "$tmp/tree"
for program in bash cat chmod dirname env find mkdir sort xargs; do
	ln -s "$(command -v $program)" "$tmp/bin"
done

stub() { printf '#!/bin/bash\n%s\n' "$2" >"$tmp/bin/$1" && chmod +x "$tmp/bin/$1"; }

stub id 'echo 0'
stub apt-get '
echo "$*" >>"$TMP/apt"
[[ " $* " == *" install "* ]] || exit 0
while [ "$1" != install ]; do shift; done
shift
for package; do
	[[ " $(cat "$TMP/offers") " == *" $package "* ]] || exit 1
	: >"$TMP/bin/$package" && chmod +x "$TMP/bin/$package"
done'

# dev STATUS ARGUMENT...: runs ./dev, which must end so; its output is in $output
dev() {
	local want=$1 status=0
	shift
	: >"$tmp/apt"
	output=$(PATH=$tmp/bin TMP=$tmp "$tmp/tree/dev" "$@" 2>&1) || status=$?
	[ "$status" = "$want" ] || fail "./dev $*: status $status, not $want"
}

fail() {
	printf '%s\n' "$1" "output:" "$output" "apt-get:" "$(cat "$tmp/apt")"
	exit 1
}

output_has() { [[ $output == *"$1"* ]] || fail "the output lacks: $1"; }
apt_not_called() { [ ! -s "$tmp/apt" ] || fail "apt-get was called"; }
apt_called() { grep -q -- "$1" "$tmp/apt" || fail "apt-get was not called with: $1"; }

echo >"$tmp/offers"
for command in fmt lint docs model valgrind asan tsan faults fuzz hostile stress soak mutants \
	symbols install "bench rows"; do
	dev 1 $command
	output_has "missing packages: "
	output_has "please run ./dev setup"
	apt_not_called
done
dev 1 fmt
output_has "missing packages: clang-format; please"

dev 1 setup fmt
output_has "installing with apt: clang-format"
output_has "not installed: clang-format"
apt_called "install clang-format"

# test and demo say what they install before they do.
for command in test demo; do
	dev 1 $command
	[[ $output == "dev: installing with apt: "*gcc*"not installed: "*gcc* ]] ||
		fail "./dev $command does not say what it installs"
	apt_called "update"
	apt_called "install .*gcc"
done

echo clang-format >"$tmp/offers"
dev 0 setup fmt
apt_called "install clang-format"
dev 0 fmt
dev 0 setup fmt
output_has "no package is missing"
apt_not_called

dev 2 setup no-such-command
dev 2 no-such-command
apt_not_called
dev 0
output_has "./dev help all"
dev 0 help all
output_has "ci-full"
