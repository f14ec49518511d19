# SPDX-License-Identifier: MIT
# check: scripts/check-ord
# expect: ^ORD\(late\) has no mutant in a model with reordering
mkdir -p docs/internals
echo '### `late`' >docs/internals/memory-order.md
printf 'st_rel(&a, 1); /* ORD(late) */\nld_acq(&a); /* ORD(late) */\n' >>src/chan.c
echo '#ifdef MUTANT_LATE /* ORD(late): a model without reordering */' >>model/park.pml
