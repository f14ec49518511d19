/* SPDX-License-Identifier: MIT */
/* io_uring through liburing: see uring.h. */
#include "io/uring.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dl.h"
#include "base/errtext.h"
#include "base/san.h"
#include "io/fd.h"
#include "park.h"
#include "waiter.h"

/* Sizes of the two rings; completions reaped at once; stack of the thread that sets the ring up.
 * Each request is submitted at once (URING-3), so a few entries suffice.  Not measured. */
enum { ENTRIES = 8, COMPLETIONS = 1024, BATCH = 32, STACK = 256 * 1024 };

/*
 * RING_NONE     not set up in this run, or the last attempt failed for want of a resource
 * RING_ON       set up
 * RING_REFUSED  not available in this run
 * RING_ENDING   the run ends: completions wake no G any more
 */
enum ring_state { RING_NONE = 0, RING_ON = 1, RING_REFUSED = 2, RING_ENDING = 3 };

/* On the stack of the calling G; under ring.lock. */
struct request {
	struct polldesc *pd;
	struct sudog *sg; /* NULL until the G waits */
	int result;
	bool done;
};

static struct {
	struct lock lock;
	uint32_t state; /* (a) enum ring_state; written under lock */
	uint32_t in_flight;
	struct io_uring uring;
} ring;

/* --- liburing --- */

/* Functions of the loaded library. */
static struct {
	int (*queue_init_params)(unsigned entries, struct io_uring *r, struct io_uring_params *p);
	void (*queue_exit)(struct io_uring *r);
	struct io_uring_probe *(*get_probe_ring)(struct io_uring *r);
	void (*free_probe)(struct io_uring_probe *probe);
	int (*submit)(struct io_uring *r);
	int (*submit_and_wait)(struct io_uring *r, unsigned n);
	unsigned (*peek_batch_cqe)(struct io_uring *r, struct io_uring_cqe **cqes, unsigned n);
} lib;

static bool find_symbols(void *handle)
{
	return dl_find(handle, "io_uring_queue_init_params", &lib.queue_init_params) &&
	       dl_find(handle, "io_uring_queue_exit", &lib.queue_exit) &&
	       dl_find(handle, "io_uring_get_probe_ring", &lib.get_probe_ring) &&
	       dl_find(handle, "io_uring_free_probe", &lib.free_probe) &&
	       dl_find(handle, "io_uring_submit_and_wait", &lib.submit_and_wait) &&
	       dl_find(handle, "io_uring_peek_batch_cqe", &lib.peek_batch_cqe) &&
	       dl_find(handle, "io_uring_submit", &lib.submit);
}

/* Errors for want of a resource: a later attempt may succeed. */
static const int transient[] = { EMFILE, ENFILE, ENOMEM, EAGAIN };

static bool is_transient(int err)
{
	for (size_t i = 0; i < sizeof(transient) / sizeof(transient[0]); i++)
		if (err == -transient[i])
			return true;
	return false;
}

/* -errno of the last dlopen.  The loader gives no code, only a text that contains strerror's. */
static int load_error(void)
{
	const char *text = dlerror();

	for (size_t i = 0; text && i < sizeof(transient) / sizeof(transient[0]); i++)
		if (strstr(text, strerror(transient[i])))
			return -transient[i];
	return -ELIBACC;
}

/* Returns 0, or -errno: -ELIBACC if there is no liburing.  The library stays loaded. */
static int load_library(void)
{
	if (lib.submit)
		return 0;
	void *handle = dl_load("liburing.so.2");

	if (!handle)
		return load_error();
	return find_symbols(handle) ? 0 : -ELIBACC;
}

/* --- reaping --- */

/* Step 2 of the reaper. */
static void uring_complete(struct request *c, int result, struct glist *out)
{
	struct sudog *sg = c->sg;

	ring.in_flight--;
	netpoll_unuse(c->pd); /* URING-2 */
	c->result = result;
	c->done = true;
	if (!sg)
		return;
	add_rlx(&sched.npollwait, -1u);
	if (ld_rlx(&ring.state) == RING_ENDING) /* it will be killed */
		return;
	bool won = waiter_claim(sg->w, 0); /* URING-1: no other thread claims it */

	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
	if (won)
		glist_claimed(out, sg);
}

static void uring_reap_locked(struct glist *out)
{
	struct io_uring_cqe *cqe[BATCH];
	unsigned n;

	while ((n = lib.peek_batch_cqe(&ring.uring, cqe, BATCH))) {
		for (unsigned i = 0; i < n; i++) {
			struct request *c = io_uring_cqe_get_data(cqe[i]);

			if (c)
				uring_complete(c, cqe[i]->res, out);
		}
		io_uring_cq_advance(&ring.uring, n);
	}
}

/* The poller's callback: the ring's fd is readable. */
static void uring_reap(struct glist *out)
{
	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_ON)
		uring_reap_locked(out);
	unlock(&ring.lock, LR_URING);
}

/* --- setting up --- */

/* True if the kernel supports the operations that are used. */
static bool supports_all(void)
{
	struct io_uring_probe *probe = lib.get_probe_ring(&ring.uring);
	bool can = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
		   io_uring_opcode_supported(probe, IORING_OP_WRITE) &&
		   io_uring_opcode_supported(probe, IORING_OP_FSYNC);

	if (probe)
		lib.free_probe(probe);
	return can;
}

/* Returns 0 or -errno. */
static int set_up_ring(void)
{
	struct io_uring_params p = { .flags = IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS };
	int err = load_library();

	if (!err)
		err = lib.queue_init_params(ENTRIES, &ring.uring, &p);
	if (err)
		return err;
	ring.uring.ring_fd = ring.uring.enter_ring_fd = os_fd_raise(ring.uring.ring_fd);
	if (!(p.features & IORING_FEAT_NODROP) || !(p.features & IORING_FEAT_SUBMIT_STABLE) ||
	    !supports_all())
		err = -ENOSYS;
	else
		err = netpoll_watch(ring.uring.ring_fd, uring_reap);
	os_fd_set_own(ring.uring.ring_fd, !err);
	if (err)
		lib.queue_exit(&ring.uring);
	return err;
}

/* Thread function: set the ring up and store ring.state. */
static void *uring_set_up(void *unused)
{
	int err = sched.options.debug & DEBUG_nouring ? -ECANCELED : set_up_ring();

	(void)unused;
	if (!err)
		st_rel(&ring.state, RING_ON); /* ORD(uring.state) */
	else if (!is_transient(err))
		st_rlx(&ring.state, RING_REFUSED);
	if (err && sched.options.debug & DEBUG_uring)
		fprintf(stderr, "gmp: no io_uring (%s): calls on files are blocking code\n",
			err == -ELIBACC ? "no liburing.so.2" : errtext(-err));
	return NULL;
}

/* On an OS thread of its own: the stack of the G may be too small for the loader. */
static noinline void set_up_once(void)
{
	pthread_t thread;

	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_NONE &&
	    !os_thread_start(&thread, uring_set_up, NULL, STACK, NULL))
		pthread_join(thread, NULL);
	unlock(&ring.lock, LR_URING);
}

bool uring_on(void)
{
	if (!getm())
		return false;
	if (unlikely(ld_acq(&ring.state) == RING_NONE)) /* ORD(uring.state) */
		set_up_once();
	return ld_rlx(&ring.state) == RING_ON;
}

/* --- a call --- */

static void uring_fill(struct io_uring_sqe *sqe, int fd, const struct uring_op *op)
{
	switch (op->kind) {
	case URING_READ:
		io_uring_prep_read(sqe, fd, op->buf, (unsigned)op->n, (uint64_t)op->at);
		break;
	case URING_WRITE:
		io_uring_prep_write(sqe, fd, op->buf, (unsigned)op->n, (uint64_t)op->at);
		break;
	case URING_FSYNC: io_uring_prep_fsync(sqe, fd, 0); break;
	}
}

/* URING-3.  Returns false if the kernel has not accepted the entry.  Under ring.lock. */
static bool uring_submit(struct request *c, const struct uring_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring.uring);

	if (!sqe)
		return false;
	uring_fill(sqe, c->pd->fd, op);
	io_uring_sqe_set_data(sqe, c);
	lib.submit(&ring.uring);
	if (io_uring_sq_ready(&ring.uring)) {
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, NULL);
		return false;
	}
	ring.in_flight++;
	return true;
}

/* Commit step of the wait. */
static void uring_commit_unlock(void *arg)
{
	(void)arg;
	unlock(&ring.lock, LR_URING);
}

/* Step 4 of the caller.  ring.lock is held; this drops it. */
static void wait_completion(struct request *c)
{
	struct sudog *sg = self_sudog(NULL);

	sg->key = c->pd; /* for dumps */
	st_rlx(&sg->queued, true);
	c->sg = sg;
	netpoll_add_waiter();
	wait_on(sg->w, WAIT_FILE | UNCANCELLABLE, NULL, uring_commit_unlock, NULL, NEVER);
}

/* Steps 2 to 4 of the caller.  Returns false if the entry was not accepted. */
static bool submit_and_wait(struct request *c, const struct uring_op *op)
{
	struct glist out = { 0 };

	lock(&ring.lock, LR_URING);
	bool accepted = uring_submit(c, op);

	uring_reap_locked(&out);
	if (out.head || out.external) { /* ready them before this G parks */
		unlock(&ring.lock, LR_URING);
		ready_list(&out);
		lock(&ring.lock, LR_URING);
	}
	if (accepted && !c->done)
		wait_completion(c);
	else
		unlock(&ring.lock, LR_URING);
	return accepted;
}

/* URING-5: the system call itself would have a better result. */
static bool needs_fallback(int result)
{
	return result == -EAGAIN || result == -EINTR || result == -ECANCELED ||
	       result == -EOPNOTSUPP;
}

ssize_t uring_call(struct polldesc *pd, uint32_t seq, const struct uring_op *op)
{
	struct request c = { .pd = pd };

	if (!fd_use(pd, seq))
		return fd_lost(pd, seq);
	if (!submit_and_wait(&c, op)) {
		netpoll_unuse(pd);
		return -EAGAIN;
	}
	if (op->kind == URING_READ && c.result > 0)
		san_filled(op->buf, (size_t)c.result);
	return needs_fallback(c.result) ? -EAGAIN : c.result; /* URING-5 */
}

/* --- the end --- */

void uring_fini(void)
{
	struct glist out = { 0 };

	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_ON) {
		st_rlx(&ring.state, RING_ENDING);
		for (uring_reap_locked(&out); ring.in_flight; uring_reap_locked(&out))
			lib.submit_and_wait(&ring.uring, 1);
		os_fd_set_own(ring.uring.ring_fd, false);
		lib.queue_exit(&ring.uring);
	}
	st_rlx(&ring.state, RING_NONE);
	unlock(&ring.lock, LR_URING);
}

void uring_forget(void)
{
	if (ld_rlx(&ring.state) == RING_ON) {
		os_fd_set_own(ring.uring.ring_fd, false);
		close(ring.uring.ring_fd);
	}
	memset(&ring, 0, sizeof(ring));
}
