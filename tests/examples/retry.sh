# SPDX-License-Identifier: MIT
# The tests of the retry loop take more than two hours of virtual time, and little real time.
. "$(dirname "$0")/lib.bash"

out=$(timeout 20 "$build/examples/retry") || fail "status $?"
[[ $out =~ ^'5 tests passed in '1[0-9][0-9]' minutes of virtual time'$ ]] || fail "it says: $out"
check_equal "the second time" "$out" "$(GMP_SEED=1 "$build/examples/retry")"
