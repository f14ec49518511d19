# SPDX-License-Identifier: MIT
# All green threads of hello print their line.
. "$(dirname "$0")/lib.bash"

wanted="hello from green thread one
hello from green thread three
hello from green thread two"
out=$("$build/examples/hello") || fail "status $?"
check_equal "output" "$wanted" "$(sort <<<"$out")"
