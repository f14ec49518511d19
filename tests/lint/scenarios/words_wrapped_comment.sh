# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^src/chan\.c:17: "but for": use "except"$
cat >>src/chan.c <<'END'
/*
 * All fields are zero, but
 * for the first.
 */
END
