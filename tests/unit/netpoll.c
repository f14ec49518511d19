/* SPDX-License-Identifier: MIT */
/*
 * Tests that netpoll wakes the right waiter for an event, ignores events of a previous file with
 * the same fd, and wakes all waiters on close. The waiters are made by hand.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "netpoll/netpoll.h"
#include "timer/timerheap.h"
#include "waiter.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { GREENS = 4 };

static struct g greens[GREENS];
static int fds[2]; /* a pair: the test waits on fds[0] */
static struct glist out;

static struct polldesc *begin(void)
{
	CHECK_EQ(netpoll_init(), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	CHECK_EQ(netpoll_open(fds[0], true, &out), 0);
	CHECK_EQ(netpoll_poll(0, &out), 1); /* it can be written at once */
	CHECK(out.head == NULL);
	return netpoll_find(fds[0]);
}

static void end(void)
{
	CHECK(out.head == NULL);
	CHECK(out.external == NULL);
	CHECK_EQ(sched.npollwait, 0);
	netpoll_fini();
}

static void enqueue(struct polldesc *pd, int side, int i, bool front)
{
	struct g *gp = &greens[i];

	gp->w.gp = gp;
	gp->w.state = WAITER_ARMED;
	gp->sudog.w = &gp->w;
	lock(&pd->lock, LR_POLLDESC);
	netpoll_enqueue(&pd->side[side], &gp->sudog, front);
	unlock(&pd->lock, LR_POLLDESC);
}

static void wait_read(struct polldesc *pd, int i)
{
	enqueue(pd, SIDE_READ, i, false);
}

static void dequeue(struct polldesc *pd, int side, int i)
{
	lock(&pd->lock, LR_POLLDESC);
	netpoll_dequeue(&pd->side[side], &greens[i].sudog);
	unlock(&pd->lock, LR_POLLDESC);
}

static void woken(int i, int result)
{
	CHECK(glist_pop(&out) == &greens[i]);
	CHECK_EQ(greens[i].w.state & 3, WAITER_CLAIMED);
	CHECK_EQ(waiter_result(greens[i].w.state), result);
	CHECK(!greens[i].sudog.queued);
}

static void none_woken(void)
{
	CHECK(out.head == NULL);
}

static void arrive(void)
{
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(netpoll_poll(100 * MS, &out), 1);
}

/* --- records --- */

TEST(netpoll_open_registered_fd_returns_eexist)
{
	struct polldesc *pd = begin();

	CHECK(pd != NULL);
	CHECK_EQ(pd->fd, fds[0]);
	CHECK(pd->tcp);
	CHECK_EQ(netpoll_count(), 1);
	CHECK_EQ(netpoll_open(fds[0], true, &out), -EEXIST);
	CHECK_EQ(netpoll_count(), 1);
	CHECK(netpoll_use(pd));
	CHECK_EQ(netpoll_used(pd), 1);
	netpoll_unuse(pd);
	CHECK_EQ(netpoll_used(pd), 0);
	end();
}

TEST(netpoll_open_file_marks_record_as_file)
{
	char name[] = "/tmp/netpoll-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	unlink(name);
	begin();
	CHECK_EQ(netpoll_open(fd, 0, &out), 0);
	CHECK(netpoll_find(fd)->file != 0);
	CHECK_EQ(netpoll_deadline(netpoll_find(fd), 1, 1, &out), -EPERM);
	CHECK_EQ(netpoll_open(fd, OPEN_ELSEWHERE, &out), -EEXIST);
	CHECK_EQ(netpoll_open(fd, 0, &out),
		 0); /* opened again: the fd was closed without netpoll */
	CHECK_EQ(netpoll_count(), 2);
	CHECK_EQ(netpoll_shut(netpoll_find(fd), &out), 0);
	netpoll_forget(netpoll_find(fd));
	CHECK_EQ(netpoll_open(-1, false, &out), -EBADF);
	CHECK_EQ(netpoll_open(900, false, &out), -EBADF);
	CHECK(netpoll_open(INT32_MAX, false, &out) < 0);
	CHECK_EQ(netpoll_count(), 1);
	end();
}

TEST(netpoll_find_unknown_fd_returns_null)
{
	begin();
	CHECK(netpoll_find(-1) == NULL);
	CHECK(netpoll_find(INT32_MAX) == NULL);
	CHECK(netpoll_find(5000) == NULL);
	end();
}

/* --- events --- */

TEST(netpoll_event_wakes_first_waiter_of_side)
{
	struct polldesc *pd = begin();
	uint32_t events = pd->side[SIDE_READ].events, writes = pd->side[SIDE_WRITE].events;

	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_WRITE, 2, false);
	CHECK_EQ(sched.npollwait, 3);
	/*
	 * an event of a socket names all that it is ready for; the check is about the first reader
	 */
	arrive();
	woken(0, 0);
	if (out.head)
		woken(2, 0);
	else
		dequeue(pd, SIDE_WRITE, 2);
	none_woken();
	CHECK_EQ(pd->side[SIDE_READ].events, events + 1);
	CHECK(pd->side[SIDE_WRITE].events - writes <= 1);
	arrive(); /* the first has not retried yet: the second is not woken */
	none_woken();
	CHECK_EQ(pd->side[SIDE_READ].events, events + 2);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(1, 0);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	none_woken();
	arrive(); /* no waiter: the event is counted */
	CHECK_EQ(pd->side[SIDE_READ].events, events + 3);
	end();
}

TEST(netpoll_hangup_wakes_first_waiter_of_both_sides)
{
	struct polldesc *pd = begin();

	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_WRITE, 2, false);
	enqueue(pd, SIDE_WRITE, 3, false);
	CHECK_EQ(pd->hup, !gmp__poller.reports_urgent);
	close(fds[1]);
	CHECK_EQ(netpoll_poll(100 * MS, &out), 1);
	woken(0, 0);
	woken(2, 0);
	none_woken();
	CHECK(pd->hup);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(1, 0);
	netpoll_pass(pd, pd->seq, SIDE_WRITE, &out);
	woken(3, 0);
	end();
}

TEST(netpoll_event_skips_claimed_waiter)
{
	struct polldesc *pd = begin();

	wait_read(pd, 0);
	wait_read(pd, 1);
	CHECK(waiter_claim(&greens[0].w, -ETIMEDOUT));
	arrive();
	woken(1, 0);
	none_woken();
	CHECK(!greens[0].sudog.queued);
	CHECK_EQ(waiter_result(greens[0].w.state), -ETIMEDOUT);
	end();
}

TEST(netpoll_pass_wakes_next_waiter)
{
	struct polldesc *pd = begin();

	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_WRITE, 2, false);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(0, 0);
	none_woken();
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(1, 0);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out); /* no waiter: no effect */
	none_woken();
	dequeue(pd, SIDE_WRITE, 2);
	end();
}

TEST(netpoll_pass_after_reopen_leaves_token_of_new_registration)
{
	struct polldesc *pd = begin();
	uint32_t old = pd->seq;

	wait_read(pd, 0);
	arrive();
	woken(0, 0); /* it has the token of the old registration */
	CHECK_EQ(netpoll_shut(pd, &out), 0);
	netpoll_forget(pd);
	CHECK_EQ(netpoll_open(fds[0], true, &out), 0);
	wait_read(pd, 1);
	wait_read(pd, 2);
	CHECK_EQ(netpoll_poll(100 * MS, &out), 1); /* the data is still there */
	woken(1, 0);
	netpoll_pass(pd, old, SIDE_READ, &out);
	none_woken(); /* the second waiter would have a second token */
	CHECK(pd->side[SIDE_READ].token_out);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(2, 0);
	end();
}

TEST(netpoll_waiter_without_data_is_requeued_first)
{
	struct polldesc *pd = begin();

	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_READ, 2, true);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(2, 0);
	enqueue(pd, SIDE_READ, 3, true);
	for (int i = 0; i < 3; i++)
		netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(3, 0);
	woken(0, 0);
	woken(1, 0);
	enqueue(pd, SIDE_READ, 0, true); /* the front of an empty queue */
	wait_read(pd, 1);
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(0, 0);
	dequeue(pd, SIDE_READ, 1);

	wait_read(pd, 0);
	enqueue(pd, SIDE_READ, 1, true);
	dequeue(pd, SIDE_READ, 0); /* the previous first waiter leaves */
	netpoll_pass(pd, pd->seq, SIDE_READ, &out);
	woken(1, 0);
	end();
}

TEST(netpoll_dequeue_from_any_position_keeps_fifo_order)
{
	for (int gone = 0; gone < GREENS; gone++) {
		struct polldesc *pd = begin();

		for (int i = 0; i < GREENS; i++)
			wait_read(pd, i);
		dequeue(pd, SIDE_READ, gone);
		CHECK(!greens[gone].sudog.queued);
		CHECK_EQ(sched.npollwait, GREENS - 1);
		wait_read(pd, gone); /* at the end now */
		for (int i = 0; i < GREENS; i++)
			netpoll_pass(pd, pd->seq, SIDE_READ, &out);
		for (int i = 0; i < GREENS; i++)
			if (i != gone)
				woken(i, 0);
		woken(gone, 0);
		end();
		close(fds[0]);
		close(fds[1]);
	}
}

TEST(netpoll_event_for_external_thread_goes_to_external_list)
{
	struct polldesc *pd = begin();
	struct waiter w = { .state = WAITER_ARMED };
	struct sudog sg = { .w = &w };

	lock(&pd->lock, LR_POLLDESC);
	netpoll_enqueue(&pd->side[SIDE_READ], &sg, false);
	unlock(&pd->lock, LR_POLLDESC);
	arrive();
	none_woken();
	CHECK(out.external == &sg);
	CHECK_EQ(w.state & 3, WAITER_CLAIMED);
	out.external = NULL;
	end();
}

/* --- deadlines --- */

static struct p only;

static struct polldesc *begin_timed(void)
{
	struct polldesc *pd = begin();

	CHECK_EQ(timers_init(&only.timers, 1 << 10), 0);
	sched.allp[0] = &only;
	sched.nallp = 1;
	return pd;
}

static void end_timed(void)
{
	CHECK_EQ(only.timers.n, 0);
	end();
	timers_fini(&only.timers);
}

static void set_deadline(struct polldesc *pd, unsigned sides, int64_t deadline)
{
	CHECK_EQ(netpoll_deadline(pd, sides, deadline, &out), 0);
}

TEST(netpoll_deadline_times_out_waiters_of_its_side_only)
{
	struct polldesc *pd = begin_timed();
	int64_t soon = os_now() + 3600 * INT64_C(1000) * MS;

	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_WRITE, 2, false);
	set_deadline(pd, 1 << SIDE_READ, soon);
	CHECK_EQ(timers_run(&only, soon - 1, &out), 0);
	none_woken();
	CHECK(!netpoll_late(&pd->side[SIDE_READ]));
	CHECK_EQ(timers_run(&only, soon, &out), 1);
	woken(0, -ETIMEDOUT);
	woken(1, -ETIMEDOUT);
	none_woken();
	/* independent of the caller's clock */
	CHECK(netpoll_late(&pd->side[SIDE_READ]));
	CHECK(!netpoll_late(&pd->side[SIDE_WRITE]));
	set_deadline(pd, 1 << SIDE_WRITE, os_now());
	woken(2, -ETIMEDOUT);
	set_deadline(pd, 3, NEVER);
	CHECK(!netpoll_late(&pd->side[SIDE_READ]));
	CHECK(!netpoll_late(&pd->side[SIDE_WRITE]));
	end_timed();
}

TEST(netpoll_deadline_moved_later_keeps_armed_timer)
{
	struct polldesc *pd = begin_timed();
	int64_t soon = os_now() + 3600 * INT64_C(1000) * MS;

	wait_read(pd, 0);
	set_deadline(pd, 1 << SIDE_READ, soon);
	set_deadline(pd, 1 << SIDE_READ, soon + 10);
	set_deadline(pd, 1 << SIDE_READ, soon + 20);
	CHECK_EQ(only.timers.next, soon);
	CHECK_EQ(timers_run(&only, soon + 19, &out), 1);
	none_woken();
	CHECK_EQ(only.timers.next, soon + 20);
	set_deadline(pd, 1 << SIDE_READ, soon + 15); /* earlier, but also to come */
	CHECK_EQ(only.timers.next, soon + 15);
	CHECK_EQ(netpoll_deadlines(), 1);
	set_deadline(pd, 1 << SIDE_READ, NEVER);
	CHECK_EQ(only.timers.n, 0);
	CHECK_EQ(netpoll_deadlines(), 0);
	set_deadline(pd, 1 << SIDE_READ, soon + 30);
	CHECK_EQ(timers_run(&only, soon + 30, &out), 1);
	woken(0, -ETIMEDOUT);
	CHECK_EQ(netpoll_deadlines(), 0);
	end_timed();
}

TEST(netpoll_deadline_due_while_record_is_locked_fires_again)
{
	struct polldesc *pd = begin_timed();
	int64_t soon = os_now() + 3600 * INT64_C(1000) * MS;

	wait_read(pd, 0);
	set_deadline(pd, 1 << SIDE_READ, soon);
	CHECK(try_lock_against(&pd->lock, LR_POLLDESC)); /* as another thread would have it */
	CHECK_EQ(timers_run(&only, soon, &out), 1);
	none_woken();
	CHECK(only.timers.next > soon);
	CHECK(only.timers.next <= soon + MS);
	unlock(&pd->lock, LR_POLLDESC);
	CHECK_EQ(timers_run(&only, only.timers.next, &out), 1);
	woken(0, -ETIMEDOUT);
	end_timed();
}

TEST(netpoll_deadline_is_disarmed_with_registration)
{
	struct polldesc *pd = begin_timed();

	for (int shut = 0; shut < 2; shut++) {
		set_deadline(pd, 3, os_now() + 3600 * INT64_C(1000) * MS);
		CHECK_EQ(only.timers.n, 2);
		if (shut) {
			CHECK_EQ(netpoll_shut(pd, &out), 0);
			CHECK_EQ(netpoll_deadline(pd, 3, NEVER, &out), -EBADF);
			netpoll_forget(pd);
			CHECK_EQ(netpoll_deadline(pd, 3, NEVER, &out), -EBADF);
		} else {
			int kept = dup(fds[1]);

			close(fds[0]);
			CHECK_EQ(dup2(kept, fds[0]), fds[0]);
			close(kept);
			CHECK_EQ(netpoll_open(fds[0], true, &out), 0);
			CHECK(!netpoll_late(&pd->side[SIDE_READ]));
		}
		CHECK_EQ(only.timers.n, 0);
	}
	end_timed();
}

TEST(netpoll_deadlines_above_maximum_return_enomem)
{
	struct polldesc *first = begin_timed();
	int64_t soon = os_now() + 3600000 * MS; /* beyond the duration of the test */

	set_deadline(first, 3, soon);
	timers_fini(&only.timers);
	CHECK_EQ(timers_init(&only.timers, DEADLINES_MAX), 0);
	first->armed[0] = first->armed[1] = NEVER; /* forgotten, but counted */
	first->timer[0].pp = first->timer[1].pp = NULL;
	for (int n = 2; n < DEADLINES_MAX; n++) {
		set_deadline(first, 1 << SIDE_READ, soon);
		timer_del(&first->timer[SIDE_READ]);
		first->armed[SIDE_READ] = NEVER;
	}
	CHECK_EQ(netpoll_deadline(first, 1 << SIDE_READ, soon, &out), -ENOMEM);
	CHECK(!netpoll_late(&first->side[SIDE_WRITE]));
	set_deadline(first, 1 << SIDE_READ, os_now()); /* needs no timer */
	CHECK(netpoll_late(&first->side[SIDE_READ]));
	CHECK_EQ(only.timers.n, 0);
	netpoll_fini();
}

/* --- closing an fd --- */

TEST(netpoll_shut_cancels_waiters_and_refuses_use)
{
	struct polldesc *pd = begin();

	CHECK(netpoll_use(pd)); /* a running call */
	wait_read(pd, 0);
	wait_read(pd, 1);
	enqueue(pd, SIDE_WRITE, 2, false);
	CHECK_EQ(netpoll_shut(pd, &out), 0);
	for (int i = 0; i < 3; i++)
		woken(i, -ECANCELED);
	none_woken();
	CHECK(!netpoll_use(pd));
	CHECK_EQ(netpoll_used(pd), 1);
	CHECK_EQ(netpoll_shut(pd, &out), -EBADF);
	netpoll_unuse(pd);
	CHECK_EQ(netpoll_used(pd), 0);
	netpoll_forget(pd);
	CHECK_EQ(netpoll_count(), 0);
	CHECK(!netpoll_use(pd));
	CHECK_EQ(netpoll_shut(pd, &out), -EBADF);
	end();
}

TEST(netpoll_shut_fd_gets_no_events)
{
	struct polldesc *pd = begin();
	uint32_t events = pd->side[SIDE_READ].events;

	CHECK_EQ(netpoll_shut(pd, &out), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(netpoll_poll(0, &out), 0);
	CHECK_EQ(pd->side[SIDE_READ].events, events);
	netpoll_forget(pd);
	end();
}

TEST(netpoll_forgotten_fd_can_be_opened_again)
{
	struct polldesc *pd = begin();
	uint32_t seq = pd->seq;

	CHECK_EQ(netpoll_shut(pd, &out), 0);
	netpoll_forget(pd);
	CHECK_EQ(netpoll_open(fds[0], false, &out), 0);
	CHECK(netpoll_find(fds[0]) == pd);
	CHECK(pd->seq != seq);
	CHECK(!pd->tcp);
	CHECK(netpoll_use(pd));
	netpoll_unuse(pd);
	CHECK_EQ(netpoll_count(), 1);
	end();
}

TEST(netpoll_open_of_reused_fd_cancels_old_waiters)
{
	struct polldesc *pd = begin();
	int old = fds[0];

	wait_read(pd, 0);
	enqueue(pd, SIDE_WRITE, 1, false);
	pd->hup = true;
	close(old);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	if (fds[0] != old) {
		CHECK_EQ(dup2(fds[0], old), old);
		close(fds[0]);
		fds[0] = old;
	}
	CHECK_EQ(netpoll_open(old, true, &out), 0);
	woken(0, -ECANCELED);
	woken(1, -ECANCELED);
	CHECK_EQ(pd->hup, !gmp__poller.reports_urgent);
	CHECK_EQ(netpoll_count(), 1);
	CHECK(netpoll_use(pd));
	netpoll_unuse(pd);
	CHECK_EQ(netpoll_poll(0, &out), 1);
	wait_read(pd, 2);
	arrive();
	woken(2, 0);
	end();
}

TEST(netpoll_event_of_previous_file_is_ignored)
{
	struct polldesc *pd = begin();
	int old = fds[0], other = fds[1], kept = dup(old); /* keeps the registration */
	uint32_t events;

	CHECK(kept >= 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	CHECK_EQ(dup2(fds[0], old), old);
	CHECK_EQ(netpoll_open(old, true, &out), 0);
	CHECK_EQ(netpoll_poll(0, &out), 1);
	wait_read(pd, 0);
	events = pd->side[SIDE_READ].events;
	CHECK_EQ(write(other, "x", 1), 1);
	CHECK_EQ(netpoll_poll(100 * MS, &out), 1);
	none_woken();
	CHECK_EQ(pd->side[SIDE_READ].events, events);
	close(other); /* and neither is its hangup */
	CHECK_EQ(netpoll_poll(100 * MS, &out), 1);
	none_woken();
	CHECK(!pd->hup);
	arrive();
	woken(0, 0);
	end();
}

TEST(netpoll_cancel_all_wakes_all_waiters_with_esrch)
{
	struct polldesc *pd = begin();

	wait_read(pd, 0);
	enqueue(pd, SIDE_WRITE, 1, false);
	netpoll_cancel_all(&out);
	woken(0, -ESRCH);
	woken(1, -ESRCH);
	netpoll_cancel_all(&out);
	none_woken();
	end();
	netpoll_fini(); /* can be repeated */
}
