# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^docs/limits\.md:9: no file testing\.md$
echo 'See [the tests](testing.md#kinds).' >>docs/limits.md
