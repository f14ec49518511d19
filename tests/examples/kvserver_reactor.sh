# SPDX-License-Identifier: MIT
# kvserver --arch reactor does all that kvserver does.
exec bash "$(dirname "$0")/kvserver.sh" "$1" reactor
