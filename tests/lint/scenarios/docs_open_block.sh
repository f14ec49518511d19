# SPDX-License-Identifier: MIT
# check: scripts/docs --check
# expect: ^docs/map\.md: a block without <!-- end -->, or of an unknown name$
echo '<!-- generated: files -->' >>docs/map.md
