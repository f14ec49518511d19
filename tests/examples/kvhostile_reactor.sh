# SPDX-License-Identifier: MIT
# Does kvserver --arch reactor hold its bounds against hostile clients?
exec bash "$(dirname "$0")/kvhostile.sh" "$1" reactor
