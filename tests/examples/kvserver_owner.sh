# SPDX-License-Identifier: MIT
# Does kvserver --arch owner do all that kvserver does?
exec bash "$(dirname "$0")/kvserver.sh" "$1" owner
