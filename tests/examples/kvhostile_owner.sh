# SPDX-License-Identifier: MIT
# kvserver --arch owner holds its limits against hostile clients.
# It compares times: it needs half a CPU.
exec bash "$(dirname "$0")/kvhostile.sh" "$1" owner
