# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^docs/limits\.md:9: "for ever": use "indefinitely, forever"$
echo 'A send to a full channel waits for ever.' >>docs/limits.md
