# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^bench/rows\.tsv:1: "to and fro": use "
mkdir bench
printf 'ping\ta byte to and fro\n' >bench/rows.tsv
