# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^docs/limits\.md:9: no recv_from_closed_channel in the code$
echo 'Its test is `recv_from_closed_channel`.' >>docs/limits.md
