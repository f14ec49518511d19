/* SPDX-License-Identifier: MIT */
/*
 * Channels and select, with the semantics of Go's.
 *
 * Edge cases next to Go's: docs/channels-edge-cases.md.
 */
#ifndef GMPRT_CHAN_H
#define GMPRT_CHAN_H

#include "base.h"
#include "time.h" /* GMP_FOREVER, gmp_deadline */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A channel carries elements of one size. It has a buffer of `capacity` elements; with capacity 0
 * it is a rendezvous of sender and receiver. Senders are served in FIFO order, and so are
 * receivers.
 *
 * Happens-before: a send before the receive of its element; a close before the receive that reports
 * it; the k-th receive before the end of the (k + capacity)-th send.
 *
 * Example:
 *   static void producer(void *c)
 *   {
 *           for (int i = 1; i <= 10; i++)
 *                   gmp_chan_send(c, &i);
 *           gmp_chan_close(c);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_chan *c = gmp_chan_new(sizeof(int), 16);
 *           int sum = 0;
 *
 *           (void)arg;
 *           gmp_go(producer, c);
 *           for (int v; gmp_chan_recv(c, &v) == 0;)
 *                   sum += v;
 *           gmp_chan_free(c);
 *           assert(sum == 55);
 *   }
 */

/*
 * gmp_chan_new - make a channel
 *
 * elem_size  bytes of an element; 0 is legal
 * capacity   elements that the buffer holds; 0: a rendezvous
 *
 * Works without a runtime.
 *
 * Returns the channel; NULL without memory, or if the product overflows. Free it by gmp_chan_free.
 */
GMP_API gmp_chan *gmp_chan_new(size_t elem_size, size_t capacity);

/*
 * gmp_chan_free - free a channel
 *
 * c  the channel; NULL is a no-op. A channel with a waiter is misuse. A gmp_select waits on the
 *    channels of all its cases: until one of the cases has run, on that one's channel; until
 *    gmp_select has returned, on the others. A channel of gmp_tick_new is for gmp_tick_free, one of
 *    gmp_done_chan for gmp_done_free.
 */
GMP_API void gmp_chan_free(gmp_chan *c);

/*
 * gmp_chan_send - send an element
 *
 * c     the channel
 * elem  points to the element, which is copied
 *
 * Returns 0 when the element is in the buffer or has been received.
 * Errors, the element has not been sent:
 *   -EPIPE      the channel is closed, also if it is closed while the caller waits
 *   -ECANCELED  the calling green thread was cancelled
 *   -EINVAL     c is NULL, or elem is NULL and the element size is not 0
 */
GMP_API int gmp_chan_send(gmp_chan *c, const void *elem);

/*
 * gmp_chan_send_until - gmp_chan_send, or give up at a deadline
 *
 * c, elem   as gmp_chan_send
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_chan_send, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_chan_send_until(gmp_chan *c, const void *elem, int64_t deadline);

/*
 * gmp_chan_try_send - send an element if that needs no wait
 *
 * c, elem  as gmp_chan_send
 *
 * Returns 0 when the element is in the buffer or has been received.
 * Errors, the element has not been sent:
 *   -EAGAIN  the buffer is full; with capacity 0: no receiver waits
 *   -EPIPE   the channel is closed
 *   -EINVAL  as gmp_chan_send
 */
GMP_API int gmp_chan_try_send(gmp_chan *c, const void *elem);

/*
 * gmp_chan_recv - receive an element
 *
 * c     the channel
 * elem  receives the element; NULL drops it
 *
 * Returns 0.
 * Errors:
 *   -EPIPE      the channel is closed and its buffer is empty; *elem is zeroed
 *   -ECANCELED  the calling green thread was cancelled; *elem is as it was
 *   -EINVAL     c is NULL
 *   -ESRCH      c is a tick whose run has ended; *elem is as it was
 */
GMP_API int gmp_chan_recv(gmp_chan *c, void *elem);

/*
 * gmp_chan_recv_until - gmp_chan_recv, or give up at a deadline
 *
 * c, elem   as gmp_chan_recv
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_chan_recv, and
 *   -ETIMEDOUT  the deadline passed; *elem is as it was
 */
GMP_API int gmp_chan_recv_until(gmp_chan *c, void *elem, int64_t deadline);

/*
 * gmp_chan_try_recv - receive an element if that needs no wait
 *
 * c, elem  as gmp_chan_recv
 *
 * Returns 0.
 * Errors:
 *   -EAGAIN  the buffer is empty; with capacity 0: no sender waits. *elem is as it was
 *   -EPIPE   the channel is closed and its buffer is empty; *elem is zeroed
 *   -EINVAL  c is NULL
 */
GMP_API int gmp_chan_try_recv(gmp_chan *c, void *elem);

/*
 * gmp_chan_close - close a channel: no more elements can be sent
 *
 * c  the channel
 *
 * All waiters are woken: receivers and senders get -EPIPE, and the elements of waiting senders are
 * dropped. What is in the buffer can still be received.
 *
 * Returns 0.
 * Errors:
 *   -EPIPE   c is closed already
 *   -EINVAL  c is NULL
 */
GMP_API int gmp_chan_close(gmp_chan *c);

/*
 * gmp_chan_len - number of elements in the buffer
 *
 * c  the channel, or NULL
 *
 * Returns the number at the time of the call; 0 for NULL.
 */
GMP_API size_t gmp_chan_len(const gmp_chan *c);

/*
 * gmp_chan_cap - number of elements that the buffer can hold
 *
 * c  the channel, or NULL
 *
 * Returns the capacity; 0 for NULL.
 */
GMP_API size_t gmp_chan_cap(const gmp_chan *c);

/* ------------------------------------------------------------------ Select */

typedef enum gmp_dir { GMP_SEND, GMP_RECV } gmp_dir;

/*
 * A case of a select: one send or receive.
 *
 *   c       the channel; NULL: the case is never ready
 *   dir     GMP_SEND or GMP_RECV
 *   elem    as in gmp_chan_send and gmp_chan_recv; must stay valid until the select returns
 *   status  written for the case that ran: what the call that it stands for returned, 0 or -EPIPE
 *
 * GMP_SEND_CASE(c, elem) and GMP_RECV_CASE(c, elem) are a case, to assign or in the braces of an
 * array.
 */
typedef struct gmp_case {
	gmp_chan *c;
	gmp_dir dir;
	void *elem;
	int status;
} gmp_case;
#ifdef __cplusplus
#define GMP_CASE_(...)                                                                             \
	gmp_case                                                                                   \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#else
#define GMP_CASE_(...) ((gmp_case){ __VA_ARGS__ })
#endif
#define GMP_SEND_CASE(c, elem) GMP_CASE_((c), GMP_SEND, (void *)(uintptr_t)(elem), 0)
#define GMP_RECV_CASE(c, elem) GMP_CASE_((c), GMP_RECV, (elem), 0)

/*
 * gmp_select - wait until one of several sends and receives can run, and run it
 *
 * cases  n cases
 * n      0 or more; 0 waits indefinitely
 *
 * All cases are checked atomically. One of the ready cases runs, chosen uniformly at random. A
 * closed channel makes its cases ready. Two cases of one call never match each other, although the
 * same channel may be in several cases, on both sides. Elements of cases that did not run are as
 * they were.
 *
 * Returns the index of the case that ran; its result is in its status.
 * Errors, no case has run:
 *   -EINVAL     n is negative; cases is NULL and n is not 0; a dir is neither GMP_SEND nor
 *               GMP_RECV; a case that sends on a channel has a NULL elem and elements of a size
 *               above 0
 *   -ENOMEM     n is above 64, and there is no memory for the cases
 *   -ECANCELED  the calling green thread was cancelled
 *   -ESRCH      the only case receives from a tick whose run has ended
 *
 * Source: Go's select statement.
 *
 * Example:
 *   static void count(void *c)
 *   {
 *           for (int i = 1; i <= 3; i++)
 *                   gmp_chan_send(c, &i);
 *           gmp_chan_close(c);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_chan *in = gmp_chan_new(sizeof(int), 0), *out = gmp_chan_new(sizeof(int), 1);
 *           int v, sum = 0, sent = 0;
 *           gmp_case cs[] = { GMP_RECV_CASE(in, &v), GMP_SEND_CASE(out, &sum) };
 *
 *           (void)arg;
 *           gmp_go(count, in);
 *           while (cs[0].c || cs[1].c) {
 *                   if (gmp_select(cs, 2) == 1) {
 *                           sent = sum;
 *                           cs[1].c = NULL;              // never ready from here on
 *                   } else if (cs[0].status == 0) {
 *                           sum += v;
 *                   } else {
 *                           cs[0].c = NULL;              // in is closed
 *                   }
 *           }
 *           assert(sum == 6 && sent <= 6);
 *           gmp_chan_free(in);
 *           gmp_chan_free(out);
 *   }
 */
GMP_API int gmp_select(gmp_case *cases, int n);

/*
 * gmp_select_until - gmp_select, or give up at a deadline
 *
 * cases, n  as gmp_select; n = 0 waits until the deadline
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_select, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_select_until(gmp_case *cases, int n, int64_t deadline);

/*
 * gmp_select_try - gmp_select that does not wait: Go's select with a default branch
 *
 * cases, n  as gmp_select
 *
 * Returns and errors: as gmp_select without -ECANCELED, and
 *   -EAGAIN  no case is ready
 */
GMP_API int gmp_select_try(gmp_case *cases, int n);

#ifdef __cplusplus
}
#endif

#endif
