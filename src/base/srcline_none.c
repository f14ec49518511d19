/* SPDX-License-Identifier: MIT */
/* Source positions in a build without the header of libdw: none is known. */
#include "base/srcline.h"

bool srcline_find(uintptr_t pc, char *text, size_t room)
{
	(void)pc;
	(void)text;
	(void)room;
	return false;
}

void srcline_find_all(struct srcline *of, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		of[i].line = 0;
		of[i].file[0] = of[i].function[0] = '\0';
	}
}

void srcline_begin(void)
{
}

void srcline_end(void)
{
}
