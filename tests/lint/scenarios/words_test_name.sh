# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^tests/runtime/chan\.c:5: "goes on": use "
sed -i 's/send_to_closed_channel_returns_epipe/a_sender_goes_on/' tests/runtime/chan.c
