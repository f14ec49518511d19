# SPDX-License-Identifier: MIT
#
# Shared code of the scenarios of tests/hostile: compiles programs against a build of gmp and checks
# how they end.
#
#   NAME.sh BUILD_DIR CC LINK
#
# BUILD_DIR holds libgmprt.a and libgmprt.so; LINK is shared, static or static-pie. A scenario is a
# file tests/hostile/NAME.sh, which sources this file. It exits with 0 if gmp holds, with 77 (skip)
# if this machine cannot provide the environment, and otherwise with another status (fail). A
# scenario is registered nowhere else; the files that it compiles are in the same folder.
set -eu
export LC_ALL=C
[ $# = 3 ] || { echo "usage: $0 BUILD_DIR CC shared|static|static-pie" >&2; exit 2; }
build=$(cd "$1" && pwd) cc=$2 link=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ulimit -c 0
unset ${!GMP_*}

fail() {
	echo "FAILED: $*"
	exit 1
}

# skip REASON: this machine cannot provide the environment.
skip() {
	echo "skipped: $*"
	exit 77
}

need_root() {
	[ "$(id -u)" = 0 ] || skip "not root"
}

# For scenarios of the shared library.
need_shared() {
	[ "$link" = shared ] || skip "linked as $link"
}

# program FILE.c [FLAG...]: compiles tests/hostile/FILE.c, or FILE.c if it is a path, into
# $scratch/FILE, linked as LINK says.
program() {
	local file=$1 flags=()
	shift
	case $file in */*) ;; *) file=$here/$file ;; esac
	case $link in
	shared) flags=(-L"$build" -lgmprt "-Wl,-rpath,$build") ;;
	*) flags=("-$link" "$build/libgmprt.a") ;;
	esac
	"$cc" -std=gnu11 -O2 -g -Wall -Wextra -fstack-clash-protection -I"$root/include" \
		-o "$scratch/$(basename "$file" .c)" "$file" "$@" "${flags[@]}" -pthread ||
		fail "$file does not compile"
}

# run [NAME=VALUE...] COMMAND...: runs it with a timeout of 30 s; sets $status and writes
# $scratch/out and $scratch/err.
run() {
	status=0
	{ timeout -k 5 30 env "$@" >"$scratch/out" 2>"$scratch/err" || status=$?; } 2>/dev/null
	[ $status != 124 ] && [ $status != 137 ] || { show; fail "$*: killed or timed out"; }
}

show() {
	sed 's/^/  out: /' "$scratch/out" | head -n 40
	sed 's/^/  err: /' "$scratch/err" | head -n 40
}

# holds COMMAND...: it must end with status 0.
holds() {
	run "$@"
	[ $status = 0 ] || { show; fail "$*: status $status"; }
}

# dies WORDS COMMAND...: it must fail and print a line with these words to stderr.
dies() {
	local words=$1
	shift
	run "$@"
	[ $status != 0 ] || { show; fail "$*: ended with 0"; }
	grep -qF -- "$words" "$scratch/err" || { show; fail "$*: no line with \"$words\""; }
}
