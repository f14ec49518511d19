#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program whose alternate signal stack is too small for the report of a stack overflow still gets
# the report.
. "$(dirname "$0")/lib.sh"
program altstack.c -Wno-infinite-recursion -fno-optimize-sibling-calls
holds "$scratch/altstack"
dies "gmp: fatal: stack overflow" "$scratch/altstack" overflow
grep -q ' down' "$scratch/err" || { show; fail "no backtrace"; }
