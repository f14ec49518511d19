/* SPDX-License-Identifier: MIT */
#include "io/uring.h"

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/san.h"
#include "park.h"

enum { ENTRIES = 8, COMPLETIONS = 1024, BATCH = 32, STACK = 256 * 1024 };

enum ring_state { RING_NONE, RING_ON, RING_REFUSED, RING_ENDING };

/* On the stack of the G that makes it; under ring.lock. */
struct call {
	struct polldesc *pd;
	struct sudog *sg; /* it waits */
	int result;
	bool done;
};

static struct {
	struct lock lock;
	uint32_t state; /* (a) */
	uint32_t under_way;
	struct io_uring uring;
} ring;

/* --- liburing --- */

static struct {
	int (*queue_init_params)(unsigned entries, struct io_uring *r, struct io_uring_params *p);
	void (*queue_exit)(struct io_uring *r);
	struct io_uring_probe *(*get_probe_ring)(struct io_uring *r);
	void (*free_probe)(struct io_uring_probe *probe);
	int (*submit)(struct io_uring *r);
	int (*submit_and_wait)(struct io_uring *r, unsigned n);
	unsigned (*peek_batch_cqe)(struct io_uring *r, struct io_uring_cqe **cqes, unsigned n);
} lib;

static bool find(void *handle, const char *name, void *to)
{
	void *fn = dlsym(handle, name);

	memcpy(to, &fn, sizeof(fn)); /* C has no cast from an object to a function */
	return fn != NULL;
}

static bool find_all(void *handle)
{
	return find(handle, "io_uring_queue_init_params", &lib.queue_init_params) &&
	       find(handle, "io_uring_queue_exit", &lib.queue_exit) &&
	       find(handle, "io_uring_get_probe_ring", &lib.get_probe_ring) &&
	       find(handle, "io_uring_free_probe", &lib.free_probe) &&
	       find(handle, "io_uring_submit_and_wait", &lib.submit_and_wait) &&
	       find(handle, "io_uring_peek_batch_cqe", &lib.peek_batch_cqe) &&
	       find(handle, "io_uring_submit", &lib.submit);
}

/* What may be there another time. */
static const int passing[] = { EMFILE, ENFILE, ENOMEM, EAGAIN };

static bool passes(int err)
{
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
		if (err == -passing[i])
			return true;
	return false;
}

/* The loader has no codes: it has a text, with the system's words in it. */
static int why_not_loaded(void)
{
	const char *text = dlerror();

	for (size_t i = 0; text && i < sizeof(passing) / sizeof(passing[0]); i++)
		if (strstr(text, strerror(passing[i])))
			return -passing[i];
	return -ELIBACC;
}

/* 0, or -errno: -ELIBACC if there is none.  It stays loaded. */
static int load_library(void)
{
	if (lib.submit)
		return 0;
	if (!getauxval(AT_BASE)) /* a static program, and another libc would come with it */
		return -ELIBACC;
	void *handle = dlopen("liburing.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return why_not_loaded();
	return find_all(handle) ? 0 : -ELIBACC;
}

/* --- reaping --- */

static void complete(struct call *c, int result, struct glist *out)
{
	struct sudog *sg = c->sg;

	ring.under_way--;
	netpoll_unuse(c->pd); /* R2 */
	c->result = result;
	c->done = true;
	if (!sg)
		return;
	add_rlx(&sched.npollwait, -1u);
	if (ld_rlx(&ring.state) == RING_ENDING) /* it will be dropped */
		return;
	bool won = waiter_claim(sg->w, 0); /* R1: nobody else claims it */

	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
	if (won)
		glist_claimed(out, sg);
}

static void reap_locked(struct glist *out)
{
	struct io_uring_cqe *cqe[BATCH];
	unsigned n;

	while ((n = lib.peek_batch_cqe(&ring.uring, cqe, BATCH))) {
		for (unsigned i = 0; i < n; i++) {
			struct call *c = io_uring_cqe_get_data(cqe[i]);

			if (c)
				complete(c, cqe[i]->res, out);
		}
		io_uring_cq_advance(&ring.uring, n);
	}
}

/* From the poller. */
static void reap(struct glist *out)
{
	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_ON)
		reap_locked(out);
	unlock(&ring.lock, LR_URING);
}

/* --- setting up --- */

static bool can_all(void)
{
	struct io_uring_probe *probe = lib.get_probe_ring(&ring.uring);
	bool can = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
		   io_uring_opcode_supported(probe, IORING_OP_WRITE) &&
		   io_uring_opcode_supported(probe, IORING_OP_FSYNC);

	if (probe)
		lib.free_probe(probe);
	return can;
}

/* 0, or -errno. */
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
	    !can_all())
		err = -ENOSYS;
	else
		err = netpoll_watch(ring.uring.ring_fd, reap);
	if (err)
		lib.queue_exit(&ring.uring);
	return err;
}

static void *set_up(void *unused)
{
	int err = sched.options.debug & DEBUG_nouring ? -ECANCELED : set_up_ring();

	(void)unused;
	if (!err)
		st_rel(&ring.state, RING_ON); /* ORD(uring.state) */
	else if (!passes(err))
		st_rlx(&ring.state, RING_REFUSED);
	if (err && sched.options.debug & DEBUG_uring)
		fprintf(stderr, "gmp: no io_uring (%s): calls on files are blocking code\n",
			err == -ELIBACC ? "no liburing.so.2" : strerrordesc_np(-err));
	return NULL;
}

/* Once in a run.  On a thread of its own: the green thread's stack may be too small for the loader. */
static noinline void set_up_once(void)
{
	pthread_t thread;

	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_NONE && !os_thread_start(&thread, set_up, NULL, STACK))
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

static void fill(struct io_uring_sqe *sqe, int fd, const struct uring_op *op)
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

/* R3 */
static bool submit(struct call *c, const struct uring_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring.uring);

	if (!sqe)
		return false;
	fill(sqe, c->pd->fd, op);
	io_uring_sqe_set_data(sqe, c);
	lib.submit(&ring.uring);
	if (io_uring_sq_ready(&ring.uring)) {
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, NULL);
		return false;
	}
	ring.under_way++;
	return true;
}

static void commit_unlock(void *arg)
{
	(void)arg;
	unlock(&ring.lock, LR_URING);
}

/* Step 4, under the lock, which it gives back. */
static void wait_for(struct call *c)
{
	struct sudog *sg = self_sudog(NULL);

	sg->key = c->pd; /* for dumps */
	st_rlx(&sg->queued, true);
	c->sg = sg;
	netpoll_add_waiter();
	wait_on(sg->w, WAIT_FILE | UNCANCELLABLE, NULL, commit_unlock, NULL, NEVER);
}

/* Steps 2 to 4. */
static bool make(struct call *c, const struct uring_op *op)
{
	struct glist out = { 0 };

	lock(&ring.lock, LR_URING);
	bool taken = submit(c, op);

	reap_locked(&out);
	if (out.head || out.external) { /* they need not wait for us to wait */
		unlock(&ring.lock, LR_URING);
		ready_list(&out);
		lock(&ring.lock, LR_URING);
	}
	if (taken && !c->done)
		wait_for(c);
	else
		unlock(&ring.lock, LR_URING);
	return taken;
}

static bool says_less(int result)
{
	return result == -EAGAIN || result == -EINTR || result == -ECANCELED ||
	       result == -EOPNOTSUPP;
}

ssize_t uring_call(struct polldesc *pd, const struct uring_op *op)
{
	struct call c = { .pd = pd };

	if (!netpoll_use(pd))
		return -EBADF;
	if (!make(&c, op)) {
		netpoll_unuse(pd);
		return -EAGAIN;
	}
	if (op->kind == URING_READ && c.result > 0)
		san_filled(op->buf, (size_t)c.result);
	return says_less(c.result) ? -EAGAIN : c.result; /* R5 */
}

/* --- the end --- */

void uring_fini(void)
{
	struct glist out = { 0 };

	lock(&ring.lock, LR_URING);
	if (ld_rlx(&ring.state) == RING_ON) {
		st_rlx(&ring.state, RING_ENDING);
		for (reap_locked(&out); ring.under_way; reap_locked(&out))
			lib.submit_and_wait(&ring.uring, 1);
		lib.queue_exit(&ring.uring);
	}
	st_rlx(&ring.state, RING_NONE);
	unlock(&ring.lock, LR_URING);
}

void uring_forget(void)
{
	if (ld_rlx(&ring.state) == RING_ON)
		close(ring.uring.ring_fd);
	memset(&ring, 0, sizeof(ring));
}
