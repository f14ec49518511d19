# SPDX-License-Identifier: MIT
# check: scripts/check-terms
# expect: ^docs/terms\.tsv: no name has turn$
printf 'turn\tplain\n' >>docs/terms.tsv
