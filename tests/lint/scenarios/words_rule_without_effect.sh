# SPDX-License-Identifier: MIT
# check: scripts/check-words --self-test
# expect: ^scripts/words\.tsv:[0-9]+: misses "a thoroughfare"$
printf 'thorough\tcomplete\ta thoroughfare\ta street\n' >>scripts/words.tsv
