# SPDX-License-Identifier: MIT
# kvserver --arch owner holds its limits against hostile clients.
exec bash "$(dirname "$0")/kvhostile.sh" "$1" owner
