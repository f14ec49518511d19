# SPDX-License-Identifier: MIT
# check: scripts/check-words --since base
# expect: ^commit [0-9a-f]+: "let": name the defect or the feature$
commit "chan: let a receiver close its channel"
