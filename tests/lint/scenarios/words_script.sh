# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^scripts/tool:2: "anew": use "again"$
printf '#!/bin/sh\n# Writes the list anew.\n' >scripts/tool
