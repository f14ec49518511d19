# SPDX-License-Identifier: MIT
# Does kvserver --arch reactor do all that kvserver does?
exec bash "$(dirname "$0")/kvserver.sh" "$1" reactor
