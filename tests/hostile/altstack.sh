#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The program gave its thread an alternate signal stack that is too small for the report of an overflow.
. "$(dirname "$0")/lib.sh"
program altstack.c -Wno-infinite-recursion -fno-optimize-sibling-calls
holds "$scratch/altstack"
dies "gmp: fatal: stack overflow" "$scratch/altstack" overflow
grep -q ' down' "$scratch/err" || { show; fail "no backtrace"; }
