#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A root folder without /proc, /sys, /dev, /etc and /tmp: all parts of gmp work but files, which have no place.
. "$(dirname "$0")/lib.sh"
need_root
[ "$link" != shared ] || skip "libc is not in the new root: see static"
program everything.c
mkdir "$scratch/root"
cp "$scratch/everything" "$scratch/root/"
holds chroot "$scratch/root" /everything
