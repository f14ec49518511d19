/* SPDX-License-Identifier: MIT */
/*
 * libgmprt_uv: a loop of libuv in a green thread, and requests that other green threads await.
 *
 * gmp_uv_run calls uv_run(UV_RUN_DEFAULT) once, with two handles of its own in the loop:
 *
 *   idle     while it is active, libuv polls without timeout: it never sleeps in the kernel
 *   prepare  called before each poll; parks the green thread while the loop has nothing to do.  It
 *            is called before the prepare handles that the program has started earlier.  So the
 *            first call does not park: each handle is called between its start and the next wait.
 *
 * The round of the loop (L) and a green thread in gmp_uv_await (A):
 *
 *   loop, in the prepare callback               awaiter
 *   L1 lock                                     A1 lock
 *   L2 take the queue; if `woken`, clear it     A2 find the runner of the loop; append the wait
 *      and read wakefd                          A3 if `woken` is clear, set it and write wakefd
 *   L3 unlock                                   A4 unlock
 *   L4 call start of each wait                  A5 acquire `done`
 *   L5 read uv_backend_timeout; if it is not    A6 cancelled: lock; if the wait is queued, unlink
 *      0, gmp_poll(backend fd, wakefd)             it and return; otherwise acquire `done`, masked
 *   L6 return: libuv polls without timeout         against cancellation
 *      and runs callbacks; from L1
 *   L7 uv_run has returned: lock, unlink the
 *      runner, take the queue, unlock; each
 *      wait that was queued ends with -ESRCH
 *
 * No lost wakeup
 *   A wait is appended either before L2, which takes it, or after.  In that case A3 leaves wakefd
 *   readable until the next L2, and L5 does not park.
 *   uv_async_send of any thread makes an fd of the loop's epoll instance readable, until libuv
 *   reads it in L6.  So the backend fd is readable, and L5 does not park.  The same holds for
 *   sockets, for signals and children (a pipe), for the thread pool (an internal async handle), and
 *   for files by io_uring (libuv 1.45: the ring's fd is in the epoll instance).
 *   An fd that a callback has begun to watch is not in the epoll instance before the next poll.
 *   While there is one, uv_backend_timeout is 0 (libuv 1.44), and L5 does not park.
 *
 * Invariants
 *   UV-1  Only the green thread in gmp_uv_run calls functions of its loop, and start functions.
 *   UV-2  `lock` guards `runners`, `spare`, the queues and `woken`.  It is a pthread mutex, and no
 *         function of gmp is called under it: a green thread that is killed at shutdown dies in a
 *         call of gmp, so that it never holds the lock.
 *   UV-3  A wait lies on the awaiter's stack.  It is in a queue, or start has been called and the
 *         awaiter waits for gmp_uv_done, or `done` is released: only then the awaiter returns.
 *   UV-4  An awaiter finds runners of its own run only.  A runner whose green thread was killed at
 *         shutdown stays in `runners` with the number of its run, and so is never found; its queue
 *         holds waits of green threads that were killed too.  It is not reused.
 *   UV-5  The handles of a runner belong to `home`, and only point to the loop while it runs.  So
 *         uv_walk does not show them, they need no close callback, and uv_loop_close succeeds when
 *         gmp_uv_run has returned.  They are not referenced (uv_unref): the loop ends without them.
 *
 * UV-5 sets handle->loop between the init and the start of a handle.  All versions of libuv up to
 * 1.52 enter a prepare or idle handle in the list of all handles by init, and in that of the active
 * ones of handle->loop by start.
 *
 * Rejected
 *   uv_run(UV_RUN_NOWAIT) and a wait between two calls, without handles: uv_run clears the flag of
 *   uv_stop before it returns, so that a stopped loop would continue.
 *   An async handle for A3: uv_walk shows it, and programs close all handles that uv_walk shows.
 *   gmp_fd_wait: it needs a single fd, so an epoll instance around both.
 */
#include <gmp_uv.h>

#include <gmp.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct gmp_uv_wait {
	struct gmp_uv_wait *next;
	int (*start)(uv_loop_t *loop, gmp_uv_wait *w, void *arg);
	void *arg;
	gmp_sem done;
	ssize_t result; /* written before `done` is released */
};

struct runner {
	uv_prepare_t prepare;
	uv_idle_t idle;
	struct runner *next; /* in `runners` or `spare` */
	uv_loop_t *loop;
	uint64_t run; /* gmp_run_id */
	gmp_g *green; /* the green thread in gmp_uv_run */
	int wakefd;
	bool woken; /* wakefd is readable; set and cleared with it, under the lock */
	gmp_uv_wait *queue;
	bool begun;   /* the first round is over */
	bool was_due; /* the last round did not wait, since something was due */
	int err;      /* of the wait that ended the loop */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct runner *runners, *spare;
static uv_loop_t home; /* UV-5; never run */
static bool home_made;

/* --- waits --- */

void gmp_uv_done(gmp_uv_wait *w, ssize_t result)
{
	w->result = result;
	gmp_sem_release(&w->done, 1); /* w may be gone */
}

/* Returns the place of w in the queue, or that of the NULL at its end.  With the lock held. */
static gmp_uv_wait **find_wait(struct runner *r, const gmp_uv_wait *w)
{
	gmp_uv_wait **p = &r->queue;

	while (*p && *p != w)
		p = &(*p)->next;
	return p;
}

/* L2.  With the lock held. */
static gmp_uv_wait *take_queue(struct runner *r)
{
	gmp_uv_wait *queue = r->queue;
	uint64_t n;

	r->queue = NULL;
	if (r->woken && read(r->wakefd, &n, sizeof(n)) == sizeof(n))
		r->woken = false;
	return queue;
}

/* A3.  Returns false if the program has closed wakefd.  With the lock held. */
static bool wake(struct runner *r)
{
	static const uint64_t one = 1;

	r->woken = r->woken || write(r->wakefd, &one, sizeof(one)) == sizeof(one);
	return r->woken;
}

/* With the lock held. */
static struct runner *find_runner(const uv_loop_t *loop, uint64_t run)
{
	for (struct runner *r = runners; r; r = r->next)
		if (r->loop == loop && r->run == run)
			return r;
	return NULL;
}

/* A1 to A4.  Returns 0 or an error; *at is then not written. */
static int enqueue(uv_loop_t *loop, gmp_uv_wait *w, struct runner **at)
{
	uint64_t run = gmp_run_id();
	gmp_g *self = gmp_self();
	int err = 0;

	pthread_mutex_lock(&lock);
	struct runner *r = find_runner(loop, run);

	if (!r)
		err = -ESRCH;
	else if (r->green == self)
		err = -EDEADLK;
	else if (!wake(r))
		err = -EBADF;
	else
		*find_wait(r, NULL) = w;
	pthread_mutex_unlock(&lock);
	if (!err)
		*at = r;
	return err;
}

/* A6.  Returns true if w was queued.  The runner may be that of another loop by now. */
static bool dequeue(struct runner *r, gmp_uv_wait *w)
{
	pthread_mutex_lock(&lock);
	gmp_uv_wait **p = find_wait(r, w);
	bool queued = *p != NULL;

	if (queued)
		*p = w->next;
	pthread_mutex_unlock(&lock);
	return queued;
}

ssize_t gmp_uv_await(uv_loop_t *loop, int (*start)(uv_loop_t *loop, gmp_uv_wait *w, void *arg),
		     void *arg)
{
	gmp_uv_wait w = { .start = start, .arg = arg };
	struct runner *r;

	if (!loop || !start)
		return -EINVAL;
	if (!gmp_self())
		return -EPERM;
	int err = enqueue(loop, &w, &r);

	if (err)
		return err;
	if (gmp_sem_acquire(&w.done) == 0)
		return w.result;
	if (dequeue(r, &w))
		return -ECANCELED;
	gmp_cancel_mask(1);
	gmp_sem_acquire(&w.done);
	gmp_cancel_mask(0);
	return w.result;
}

/* --- the loop --- */

/* L1 to L4 */
static void start_queued(struct runner *r)
{
	pthread_mutex_lock(&lock);
	gmp_uv_wait *w = take_queue(r);

	pthread_mutex_unlock(&lock);
	if (w)
		uv_update_time(r->loop); /* for timers that start functions set */
	while (w) {
		gmp_uv_wait *next = w->next; /* start may end the wait */
		int err = w->start(r->loop, w, w->arg);

		if (err)
			gmp_uv_done(w, err);
		w = next;
	}
}

static void on_idle(uv_idle_t *h)
{
	(void)h;
}

/* uv_backend_timeout without the idle handle of the runner. */
static int backend_timeout(struct runner *r)
{
	uv_update_time(r->loop); /* callbacks may have taken time */
	uv_idle_stop(&r->idle);
	int ms = uv_backend_timeout(r->loop);

	uv_idle_start(&r->idle, on_idle);
	return ms;
}

/* L5 */
static void wait_until_due(struct runner *r)
{
	struct pollfd fds[2] = { { .fd = uv_backend_fd(r->loop), .events = POLLIN },
				 { .fd = r->wakefd, .events = POLLIN } };
	int ms = backend_timeout(r);

	if (ms == 0 && r->was_due)
		gmp_yield(); /* a loop with an idle handle never waits */
	r->was_due = ms == 0;
	if (ms == 0)
		return;
	int ready = gmp_poll(fds, 2, ms < 0 ? GMP_FOREVER : gmp_deadline(ms * GMP_MS));

	if (ready < 0 && ready != -ETIMEDOUT) {
		r->err = ready;
		uv_stop(r->loop);
	}
}

static void on_prepare(uv_prepare_t *h)
{
	struct runner *r = h->data;

	gmp_checkpoint();
	start_queued(r);
	if (r->begun)
		wait_until_due(r);
	r->begun = true;
}

/* --- runners --- */

/* Allocate a runner with handles that belong to `home`.  With the lock held. */
static struct runner *make_runner(void)
{
	if (!home_made && uv_loop_init(&home) != 0)
		return NULL;
	home_made = true;
	struct runner *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	uv_prepare_init(&home, &r->prepare);
	uv_idle_init(&home, &r->idle);
	uv_unref((uv_handle_t *)&r->prepare);
	uv_unref((uv_handle_t *)&r->idle);
	r->prepare.data = r;
	return r;
}

/* UV-4: a runner of an ended run keeps no fd.  With the lock held. */
static void close_old_runners(uint64_t run)
{
	for (struct runner *r = runners; r; r = r->next) {
		if (r->run != run && r->wakefd >= 0) {
			close(r->wakefd);
			r->wakefd = -1;
		}
	}
}

/* Enter a runner for the loop in `runners`.  Returns 0 or an error.  With the lock held. */
static int add_runner(uv_loop_t *loop, const struct runner *fields, struct runner **out)
{
	if (find_runner(loop, fields->run))
		return -EBUSY;
	close_old_runners(fields->run);
	struct runner *r = spare;

	if (r)
		spare = r->next;
	else
		r = make_runner();
	if (!r)
		return -ENOMEM;
	r->prepare.loop = r->idle.loop = r->loop = loop; /* UV-5 */
	r->run = fields->run;
	r->green = fields->green;
	r->wakefd = fields->wakefd;
	r->woken = false;
	r->queue = NULL;
	r->begun = r->was_due = false;
	r->err = 0;
	r->next = runners;
	runners = r;
	*out = r;
	return 0;
}

static int begin(uv_loop_t *loop, struct runner **out)
{
	struct runner fields = { .run = gmp_run_id(), .green = gmp_self() };

	fields.wakefd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fields.wakefd < 0)
		return -errno;
	pthread_mutex_lock(&lock);
	int err = add_runner(loop, &fields, out);

	pthread_mutex_unlock(&lock);
	if (err)
		close(fields.wakefd);
	return err;
}

/* L7, and give the runner back.  No awaiter uses it after its queue was taken. */
static void end(struct runner *r)
{
	struct runner **p = &runners;

	pthread_mutex_lock(&lock);
	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	gmp_uv_wait *w = take_queue(r);

	close(r->wakefd);
	r->prepare.loop = r->idle.loop = &home;
	r->next = spare;
	spare = r;
	pthread_mutex_unlock(&lock);
	while (w) {
		gmp_uv_wait *next = w->next;

		gmp_uv_done(w, -ESRCH);
		w = next;
	}
}

int gmp_uv_run(uv_loop_t *loop)
{
	struct runner *r;

	if (!loop)
		return -EINVAL;
	if (!gmp_self())
		return uv_run(loop, UV_RUN_DEFAULT) != 0;
	int err = begin(loop, &r);

	if (err)
		return err;
	uv_prepare_start(&r->prepare, on_prepare);
	uv_idle_start(&r->idle, on_idle);
	int left = uv_run(loop, UV_RUN_DEFAULT) != 0;

	uv_prepare_stop(&r->prepare);
	uv_idle_stop(&r->idle);
	err = r->err;
	end(r);
	return err ? err : left;
}
