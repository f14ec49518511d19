# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^docs/limits\.md:8: no chan_send in src/chan\.c$
sed -i 's/chan_send/chan_put/' src/chan.c
