# SPDX-License-Identifier: MIT
# kvserver --arch owner does all that kvserver does.
exec bash "$(dirname "$0")/kvserver.sh" "$1" owner
