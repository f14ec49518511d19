/* SPDX-License-Identifier: MIT */
/*
 * Doubly linked lists of structs with two fields: `next`, and `at`, the pointer to the element.
 *
 * A list is a pointer to its first element, and NULL if it is empty. An element is removed without
 * the list. The callers hold the lock of the list.
 */
#ifndef GMP_DLIST_H
#define GMP_DLIST_H

/* Insert e as the first element of *list. */
#define dlist_add(list, e)                                                                         \
	do {                                                                                       \
		(e)->next = *(list);                                                               \
		(e)->at = (list);                                                                  \
		if ((e)->next)                                                                     \
			(e)->next->at = &(e)->next;                                                \
		*(list) = (e);                                                                     \
	} while (0)

/* Remove e from its list. */
#define dlist_del(e)                                                                               \
	do {                                                                                       \
		*(e)->at = (e)->next;                                                              \
		if ((e)->next)                                                                     \
			(e)->next->at = (e)->at;                                                   \
	} while (0)

#endif
