# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^docs/limits\.md:6: no send_to_closed_channel_returns_epipe in src/chan\.c$
sed -i 's/returns_epipe/fails/' tests/runtime/chan.c
