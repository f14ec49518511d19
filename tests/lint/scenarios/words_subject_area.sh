# SPDX-License-Identifier: MIT
# check: scripts/check-words --since base
# expect: ^commit [0-9a-f]+: "Fix a bug": use "area: what changes"$
commit "Fix a bug"
