# SPDX-License-Identifier: MIT
# digest prints what the tools of coreutils print, in order, whatever else is on the command line.
. "$(dirname "$0")/lib.bash"

digest=$build/examples/digest
[ -x "$digest" ] || { echo "digest has not been built: no libcrypto"; exit 0; }

mkdir -p "$tmp/tree/b/deep" "$tmp/tree/a" "$tmp/tree/empty"
for i in $(seq 120); do
	printf 'file %s\n' "$i" >"$tmp/tree/$((i % 2 ? 0 : 1))_$i"
	printf '%s' "$i" >"$tmp/tree/b/$i"
done
: >"$tmp/tree/a/nothing"
head -c 300000 /dev/urandom >"$tmp/tree/b/deep/large"
printf 'a name with\ttabs and spaces' >"$tmp/tree/a/odd name	x"
ln -s / "$tmp/tree/loop"
mkfifo "$tmp/tree/fifo"
cd "$tmp" || exit 1

# The whole tree, against sha256sum, in the order of the names.
wanted=$(find tree -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
for options in "--workers 1" "--workers 4" "" "--workers 500"; do
	for procs in 1 2 4; do
		# shellcheck disable=SC2086
		got=$(GMP_PROCS=$procs timeout 60 "$digest" $options tree) || fail "status $?"
		check_equal "sums of a tree, $options, $procs Ps" "$(sort -k 2 <<<"$wanted")" \
			"$(sort -k 2 <<<"$got")"
	done
done
"$digest" tree | sha256sum -c --quiet || fail "sha256sum -c"
check_equal "sha1" "$(sha1sum tree/b/1 tree/a/nothing tree/b/1)" \
	"$("$digest" --algorithm sha1 tree/b/1 tree/a/nothing tree/b/1)"
check_equal "order within a folder" "$(find tree/b -maxdepth 1 -type f -printf '%p\n' | sort)" \
	"$("$digest" tree/b | cut -c 67- | grep -v deep)"

# What cannot be read is named; the rest is done all the same.
got=$("$digest" tree/b/2 missing tree/fifo tree/b/3 2>"$tmp/err")
check_equal "status with bad names" 1 $?
check_equal "the others" "$(sha256sum tree/b/2 tree/b/3)" "$got"
check_equal "errors" "digest: missing: No such file or directory
digest: tree/fifo: not a plain file" "$(sort "$tmp/err")"
if [ "$(id -u)" != 0 ]; then
	chmod 0 tree/b/4 tree/b/deep
	"$digest" tree/b/4 tree/b/deep >"$tmp/out" 2>"$tmp/err"
	check_equal "status without permission" 1 $?
	check_equal "lines" 2 "$(grep -c 'Permission denied' "$tmp/err")"
	chmod 755 tree/b/deep
fi
"$digest" /dev/null >"$tmp/out" 2>"$tmp/err"
check_equal "status of a device" 1 $?
check_equal "output for an empty folder" "" "$("$digest" tree/empty)"

# Wrong calls.
for call in "" "--workers 0 tree" "--workers x tree" "--algorithm nonsense tree" "--bad tree"; do
	# shellcheck disable=SC2086
	"$digest" $call >/dev/null 2>"$tmp/err"
	check_equal "status of \"$call\"" 2 $?
	[ -s "$tmp/err" ] || fail "\"$call\" says nothing"
done
exit 0
