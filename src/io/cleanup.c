/* SPDX-License-Identifier: MIT */
/* Leftovers: see cleanup.h. */
#include "io/cleanup.h"

#include <stddef.h>
#include <unistd.h>

#include "base/dlist.h"
#include "base/lock.h"
#include "enter.h"
#include "proc.h"

static struct {
	struct lock lock;
	struct leftover *first;
} left;

void leftover_add(struct leftover *l, void (*end)(void *arg), void *arg)
{
	l->end = end;
	l->arg = arg;
	l->thread = self_m_slow();
	lock(&left.lock, LR_LEFTOVER);
	dlist_add(&left.first, l);
	unlock(&left.lock, LR_LEFTOVER);
}

void leftover_close(void *fd)
{
	int n = *(int *)fd;

	if (n >= 0)
		close(n);
}

void leftover_del(struct leftover *l)
{
	lock(&left.lock, LR_LEFTOVER);
	dlist_del(l);
	unlock(&left.lock, LR_LEFTOVER);
}

static struct leftover *leftover_pop_of(const struct m *m)
{
	struct leftover *l;

	lock(&left.lock, LR_LEFTOVER);
	for (l = left.first; l && l->thread != m; l = l->next)
		;
	if (l)
		dlist_del(l);
	unlock(&left.lock, LR_LEFTOVER);
	return l;
}

void leftovers_killed(const struct m *m)
{
	for (struct leftover *l; (l = leftover_pop_of(m)) != NULL;)
		l->end(l->arg);
}

void leftovers_fini(void)
{
	for (struct leftover *l = left.first; l; l = l->next)
		l->end(l->arg);
	left.first = NULL;
}

void leftovers_forget(void)
{
	left.lock = (struct lock){ 0 };
	left.first = NULL;
}
