/* SPDX-License-Identifier: MIT */
#include "io/leftover.h"

#include <stddef.h>

#include "base/lock.h"

static struct {
	struct lock lock;
	struct leftover *first;
} left;

void leftover_add(struct leftover *l, void (*end)(struct leftover *l))
{
	l->end = end;
	l->from = &left.first;
	lock(&left.lock, LR_LEFTOVER);
	l->link = left.first;
	if (l->link)
		l->link->from = &l->link;
	left.first = l;
	unlock(&left.lock, LR_LEFTOVER);
}

void leftover_del(struct leftover *l)
{
	lock(&left.lock, LR_LEFTOVER);
	*l->from = l->link;
	if (l->link)
		l->link->from = l->from;
	unlock(&left.lock, LR_LEFTOVER);
}

void leftovers_fini(void)
{
	for (struct leftover *l = left.first; l; l = l->link)
		l->end(l);
	left.first = NULL;
}

void leftovers_forget(void)
{
	left.lock = (struct lock){ 0 };
	left.first = NULL;
}
