# SPDX-License-Identifier: MIT
# Does kvserver --arch owner hold its bounds against hostile clients?
exec bash "$(dirname "$0")/kvhostile.sh" "$1" owner
