# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^docs/limits\.md:9: no file src/select\.c$
echo 'A select is in `src/select.c`.' >>docs/limits.md
