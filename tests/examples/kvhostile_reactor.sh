# SPDX-License-Identifier: MIT
# kvserver --arch reactor holds its limits against hostile clients.
exec bash "$(dirname "$0")/kvhostile.sh" "$1" reactor
