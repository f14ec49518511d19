#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A set-user-ID program ignores all GMP_* environment variables; other programs obey them.
. "$(dirname "$0")/lib.sh"
need_root
program setuid.c
chmod 755 "$scratch"
as_user() { run setpriv --reuid=65534 --regid=65534 --clear-groups env "$@" "$scratch/setuid"; }

# The defaults of an unprivileged user.
as_user
[ $status != 127 ] && [ $status != 126 ] || skip "another user may not read the folder of the build"
[ $status = 0 ] || { show; fail "without variables: status $status"; }
usual=$(sed 's/secure 0/secure 1/' "$scratch/out")

variables=$(sed -n 's/^OPTION(.*"\(GMP_[A-Z_]*\)".*/\1/p' "$root/src/base/options.def")
[ "$(wc -w <<<"$variables")" -ge 7 ] || fail "the variables of options.def are not found"
as_user GMP_PROCS=7
grep -q "secure 0, 7 Ps" "$scratch/out" || { show; fail "GMP_PROCS is not obeyed"; }
as_user GMP_DEBUG=virtual
grep -q "takes no time" "$scratch/out" || { show; fail "GMP_DEBUG is not obeyed"; }
for v in $variables GMP_DEBUG; do
	as_user "$v=bogus"
	[ $status = 22 ] || { show; fail "$v=bogus: status $status in place of EINVAL"; }
done

chmod u+s "$scratch/setuid"
as_user
grep -q "secure 1" "$scratch/out" || skip "the file system ignores the set-user-ID bit"
for v in GMP_PROCS=7 GMP_STACK_SIZE=16k GMP_DEBUG=virtual GMP_DEBUG=help $variables GMP_DEBUG; do
	case $v in *=*) ;; *) v=$v=bogus ;; esac
	as_user "$v"
	[ $status = 0 ] && [ "$(cat "$scratch/out")" = "$usual" ] && [ ! -s "$scratch/err" ] ||
		{ show; fail "a set-user-ID program obeys $v"; }
done
