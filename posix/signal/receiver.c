/* SPDX-License-Identifier: MIT */
/*
 * Receivers: brings each signal that was sent to the process to the green thread that handles it.
 *
 * On OS threads, the kernel chooses a thread that does not block the signal, and prefers the main
 * thread.  A handler that ends a wait of it with EINTR is how programs stop an accept loop or a
 * pause.  Green threads have no kernel thread of their own, so the trampoline (trampoline.c)
 * chooses the receiver, and the signal thread (sigthread.c) wakes it:
 *
 *   trampoline, on any OS thread           signal thread                  receiver, a G
 *    1 choose the receiver; if it is the    1 wait for SIG_FORWARD
 *      caller, and not busy: call the       2 lock; choose the receiver
 *      handler                              3 in a wait (`waits`): store   1 begin: busy, lock,
 *    2 otherwise send SIG_FORWARD with        the signal in it, claim the    waits = true, unlock
 *      the siginfo to the signal thread       wait with -EINTR, unlock,    2 wait
 *                                             ready; until the store is    3 end: lock, waits =
 *                                             taken, claim again             false, take the stored
 *                                           4 running: send the signal       signal, unlock
 *                                             to its OS thread, unlock     4 send it to the own OS
 *                                           5 otherwise: try again;          thread: the trampoline
 *                                             after TRIES, call the          calls the handler
 *                                             handler here
 *
 * The stored signal and `waits` change under one lock.  So a signal that comes between steps 1 and
 * 3 of the receiver is stored, and ends the wait: either the claim wins, or the receiver reads the
 * store in step 3.  A signal that comes before step 1 is handled where the receiver runs, as
 * natively, and the wait begins.  The kernel queues the signals to the signal thread in order.
 *
 * Invariants
 *   Lifetime: the signal thread uses a g struct inside rt_enter only, and only of the present run.
 *   RECEIVER-1  Receivers are the first green thread of gmp_run, the main one, and each other
 *               green thread that has unblocked a signal that the main one blocks.  If several
 *               admit a signal, the main one gets it.
 *   RECEIVER-2  `admitted` is the union of the signals that receivers do not block; it changes
 *               under the lock, before the masks of OS threads.
 *   RECEIVER-3  While its receiver is busy, no handler runs on a green thread: it is inside of a
 *               wait, at whose ends it takes the lock.  The same holds in a P section of its M, and
 *               in other sections with the lock (SIGTAB-7).  siglongjmp from a handler leaves none.
 *   RECEIVER-6  A signal is sent to the OS thread of a running receiver only if that thread does
 *               not block it (/proc/self/task/TID/status): it would be pending there for good.
 *   RECEIVER-8  Of a signal below 32, one at most is on its way to the signal thread, as one is
 *               pending at most in the kernel: a bit of `forwarded` is set until the thread takes
 *               it.  Otherwise a fast timer fills the kernel's queue, and signals lose their
 *               siginfo.
 *   RECEIVER-9  In a call with a mask (ppoll, sigsuspend ...), the kernel's mask of the receiver is
 *               exchanged later than the receiver's (`swapped` is set before that, and cleared
 *               after the receiver has its former mask again).  Step 4 waits without bound until
 *               the OS thread admits the signal: the handler must end that call.
 */
#include "posix/signal/receiver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigtable.h"

enum { FIRST_QUEUED = 32 }; /* lower: pending once at most */

static struct {
	struct lock lock;
	struct receiver main;
	struct receiver *others; /* under the lock */
	uint64_t admitted;       /* (a) RECEIVER-2; valid while main.run is the present run */
	uint64_t forwarded;      /* (a) RECEIVER-8 */
	uint64_t moving;         /* (a) forwarded, and no handler has run: SETTLE-1 */
	int tid;                 /* (a) of the signal thread; 0: there is none */
	bool has_key;            /* under the lock */
	pthread_key_t key;       /* its destructor ends a receiver */
} rec;

/* --- to the signal thread --- */

int receiver_thread(void)
{
	return ld_rlx(&rec.tid);
}

void receiver_set_thread(int tid)
{
	st_rlx(&rec.tid, tid);
}

bool receiver_has_thread(void)
{
	return ld_rlx(&rec.tid) && receiver_routes();
}

int receiver_wake(void)
{
	int saved = errno, tid = ld_rlx(&rec.tid);
	int err = tid ? siginfo_send_mark_sig(tid, SIG_FORWARD, CODE_NOTE, 0) : -1;

	errno = saved;
	return err;
}

static uint64_t queued_once(int signo)
{
	return signo < FIRST_QUEUED ? mask_bit(signo) : 0;
}

void receiver_moves_sig(int signo)
{
	or_rlx(&rec.moving, mask_bit(signo));
}

bool receiver_forward_sig(const siginfo_t *info)
{
	int tid = ld_rlx(&rec.tid), signo = info->si_signo;
	uint64_t bit = queued_once(signo);

	if (!tid)
		return false;
	if (bit && or_rlx(&rec.forwarded, bit) & bit)
		return true; /* RECEIVER-8 */
	receiver_moves_sig(signo);
	if (siginfo_pass_sig(tid, SIG_FORWARD, info, CODE_FORWARDED) == 0)
		return true;
	and_rlx(&rec.forwarded, ~bit);
	receiver_arrived_sig(signo);
	return false;
}

void receiver_forwarded(int signo)
{
	and_rlx(&rec.forwarded, ~queued_once(signo));
}

void receiver_arrived_sig(int signo)
{
	uint64_t bit = mask_bit(signo);

	if (ld_rlx(&rec.moving) & bit & ~ld_rlx(&rec.forwarded))
		and_rlx(&rec.moving, ~bit);
}

bool receiver_is_moving(uint64_t bits)
{
	return ld_rlx(&rec.moving) & bits;
}

void receiver_drop_moving(uint64_t bits)
{
	and_rlx(&rec.moving, ~bits);
}

/* --- receivers --- */

static bool is_present(const struct receiver *r)
{
	return ld_rlx(&r->run) == run_number() && run_is_on();
}

bool receiver_takes_sig(const struct receiver *r, int signo)
{
	return is_present(r) && !(ld_rlx(&r->mask) & mask_bit(signo));
}

bool receiver_is_mine(int signo)
{
	return receiver_self() == &rec.main && receiver_takes_sig(&rec.main, signo);
}

static void update_admitted_locked(void)
{
	uint64_t admitted = ~ld_rlx(&rec.main.mask);

	for (struct receiver *r = rec.others; r; r = r->next)
		if (is_present(r))
			admitted |= ~ld_rlx(&r->mask);
	st_rlx(&rec.admitted, admitted);
}

/* For all but the ends of a wait, where the receiver is busy. */
static void receivers_lock(void)
{
	signals_hold();
	lock(&rec.lock, LR_RECEIVER);
}

static void receivers_unlock(void)
{
	unlock(&rec.lock, LR_RECEIVER);
	signals_release();
}

/* The first call of a run makes the main receiver. */
static void begin_main(void)
{
	sigset_t set;

	if (likely(ld_rlx(&rec.main.run) == run_number()) || !run_first_green())
		return;
	signal_program_mask(&set);
	receivers_lock();
	if (ld_rlx(&rec.main.run) != run_number()) {
		rec.main = (struct receiver){ .gp = run_first_green(),
					      .mask = mask_of(&set) & ~signal_undeferred() };
		st_rlx(&rec.main.run, run_number());
		update_admitted_locked();
	}
	receivers_unlock();
	receiver_wake();
}

struct receiver *receiver_self(void)
{
	struct g *gp = own_green();

	if (!gp)
		return NULL;
	begin_main();
	if (gp == run_first_green())
		return &rec.main;
	struct receiver *r = gmp__signal_state()->receiver;

	return r && r->gp == gp && is_present(r) ? r : NULL;
}

bool receiver_routes(void)
{
	if (own_green())
		begin_main();
	return is_present(&rec.main);
}

uint64_t receiver_default_mask(void)
{
	return ld_rlx(&rec.main.mask);
}

uint64_t receiver_admitted(void)
{
	return is_present(&rec.main) ? ld_rlx(&rec.admitted) : 0;
}

bool receiver_defers(int signo)
{
	uint64_t deferred = ~ld_rlx(&rec.admitted) & ~signal_undeferred();

	return is_present(&rec.main) && deferred & mask_bit(signo);
}

bool receiver_admits(int signo)
{
	return receiver_admitted() & mask_bit(signo);
}

static void end_receiver(void *arg)
{
	struct receiver *r = arg;

	receivers_lock();
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	update_admitted_locked();
	gmp__signal_state()->receiver = NULL;
	receivers_unlock();
	free(r);
}

static bool make_key(void)
{
	receivers_lock();
	if (!rec.has_key)
		rec.has_key = pthread_key_create(&rec.key, end_receiver) == 0;
	receivers_unlock();
	return rec.has_key;
}

struct receiver *receiver_new(void)
{
	struct receiver *r = malloc(sizeof(*r));

	if (!r || !make_key() || pthread_setspecific(rec.key, r)) {
		free(r);
		return NULL;
	}
	receivers_lock();
	*r = (struct receiver){ .gp = own_green(),
				.run = run_number(),
				.mask = ~UINT64_C(0),
				.next = rec.others,
				.at = &rec.others };
	if (r->next)
		r->next->at = &r->next;
	rec.others = r;
	gmp__signal_state()->receiver = r;
	receivers_unlock();
	return r;
}

bool receiver_set_mask(struct receiver *r, uint64_t mask)
{
	uint64_t before = ld_rlx(&rec.admitted);

	signals_hold();
	signal_hold_defaults(mask & before);
	receivers_lock();
	st_rlx(&r->mask, mask & ~signal_undeferred());
	r->exact = true;
	update_admitted_locked();
	receivers_unlock();
	uint64_t now = ld_rlx(&rec.admitted);

	if (now & ~before)
		signal_release_defaults(now & ~before);
	signals_release();
	return now != before;
}

/* --- a handler --- */

const struct receiver *receiver_main_sig(void)
{
	return is_present(&rec.main) ? &rec.main : NULL;
}

const struct receiver *receiver_of_sig(const struct g *gp)
{
	const struct receiver *r = gp && gp == rec.main.gp ? &rec.main : NULL;

	if (!r && gp && green_has_own_tls(gp))
		r = gmp__signal_state()->receiver;
	return r && r->gp == gp && is_present(r) ? r : NULL;
}

/* --- waits of receivers --- */

void receiver_wait_begin(struct receiver *r)
{
	st_rlx(&r->busy, 1u);
	lock(&rec.lock, LR_RECEIVER);
	r->waits = true;
	unlock(&rec.lock, LR_RECEIVER);
}

int receiver_wait_end(struct receiver *r, siginfo_t *info)
{
	lock(&rec.lock, LR_RECEIVER);
	r->waits = false;
	int signo = r->signo;

	*info = r->info;
	r->signo = 0;
	unlock(&rec.lock, LR_RECEIVER);
	st_rlx(&r->busy, 0u);
	return signo;
}

/* --- a signal of the signal thread --- */

/* RECEIVER-6 */
struct os_thread_signals receiver_thread_signals(int tid)
{
	struct os_thread_signals s = { .blocked = ~UINT64_C(0) };
	char path[64], line[128];
	int found = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	FILE *f = fopen(path, "re");

	if (!f)
		return s;
	while (found < 2 && fgets(line, sizeof(line), f))
		found += sscanf(line, "SigPnd: %" SCNx64, &s.pending) == 1 ||
			 sscanf(line, "SigBlk: %" SCNx64, &s.blocked) == 1;
	fclose(f);
	return s;
}

static bool thread_admits(int tid, int signo)
{
	return !(receiver_thread_signals(tid).blocked & mask_bit(signo));
}

static enum delivery send_to_running(const struct receiver *r, int signo, const siginfo_t *info)
{
	int tid;

	if (green_waits(r->gp, &tid))
		return AGAIN; /* in a wait that no handler ends */
	if (!tid)
		return LATER;
	if (!thread_admits(tid, signo))
		return ld_rlx(&r->swapped) ? LATER : AGAIN;
	return siginfo_pass_sig(tid, signo, info, CODE_FORWARDED) == 0 ? DONE : AGAIN;
}

static struct receiver *choose_locked(int signo)
{
	struct receiver *r = &rec.main;

	if (receiver_takes_sig(r, signo))
		return r;
	for (r = rec.others; r && !receiver_takes_sig(r, signo); r = r->next)
		;
	return r;
}

/* Steps 2 to 4, inside rt_enter. */
static enum delivery deliver_once(int signo, const siginfo_t *info, struct receiver **stored)
{
	enum delivery done = NONE;
	struct g *woken = NULL;

	receivers_lock();
	struct receiver *r = choose_locked(signo);

	if (*stored && (*stored != r || !r->signo)) {
		done = DONE; /* r has taken it */
	} else if (r && r->waits && r->signo && !*stored) {
		done = LATER; /* an earlier signal, which r is about to handle */
	} else if (r && r->waits) {
		r->signo = signo;
		r->info = *info;
		*stored = r;
		if (green_cut_wait(r->gp))
			woken = r->gp;
		done = woken ? DONE : LATER;
	} else if (r) {
		done = send_to_running(r, signo, info);
	}
	receivers_unlock();
	if (woken)
		green_ready(woken);
	return done;
}

enum delivery receiver_deliver(int signo, const siginfo_t *info, struct receiver **stored)
{
	enum delivery done = NONE;

	if (!rt_enter())
		return NONE;
	if (is_present(&rec.main)) {
		done = deliver_once(signo, info, stored);
		if (done == NONE && /* blocked meanwhile */
		    siginfo_pass_sig(0, signo, info, CODE_DEFERRED) == 0) {
			receiver_arrived_sig(signo);
			done = DONE;
		}
	}
	rt_leave();
	return done;
}

/* --- fork --- */

void receiver_forget_all(void)
{
	rec.lock = (struct lock){ 0 };
	st_rlx(&rec.tid, 0);
	st_rlx(&rec.forwarded, UINT64_C(0));
	st_rlx(&rec.moving, UINT64_C(0));
	st_rlx(&rec.main.run, 0u);
	rec.others = NULL;
}

void receiver_forget_own(void)
{
	struct signal_state *s = gmp__signal_state();

	s->receiver = NULL;
	s->has_mask = false; /* the mask of the OS thread is that of the main receiver */
	if (rec.has_key)
		pthread_setspecific(rec.key, NULL);
}
