#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All parts of gmp work in a root folder without /proc, /sys, /dev, /etc and /tmp, except files,
# which need /tmp.
. "$(dirname "$0")/lib.sh"
need_root
[ "$link" != shared ] || skip "libc is not in the new root: see static"
program everything.c
mkdir "$scratch/root"
cp "$scratch/everything" "$scratch/root/"
holds chroot "$scratch/root" /everything
