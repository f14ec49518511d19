# SPDX-License-Identifier: MIT
# check: scripts/check-words --since base
# expect: ^commit [0-9a-f]+: "foreign": use "external"$
commit "chan: wake foreign threads"
