/* SPDX-License-Identifier: MIT */
/*
 * Receivers: brings each signal that was sent to the process to the green thread that handles it.
 *
 * On OS threads, the kernel chooses a thread that does not block the signal, and prefers the main
 * thread.  A handler that ends a wait of it with EINTR is how programs stop an accept loop or a
 * pause.  Green threads have no kernel thread of their own, so the trampoline (disposition.c) asks
 * receiver_route_sig, and the signal thread wakes the receiver:
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
 * A signal that no receiver admits is blocked: an OS thread of the runtime that gets it adds it to
 * the mask of the interrupted code, which blocks it from then on, and sends it to the process
 * again.  It ends up pending, where sigwait, signalfd and sigpending find it, or on an external
 * thread that admits it.
 *
 * Invariants
 *   Lifetime: the signal thread uses a g struct inside rt_enter only, and only of the present run.
 *   RECEIVER-1  Receivers are the first green thread of gmp_run, the main one, and each other
 *               green thread that has unblocked a signal that the main one blocks.  If several
 *               admit a signal, the main one gets it.
 *   RECEIVER-2  `admitted` is the union of the signals that receivers do not block; it changes
 *               under the lock, before the masks of OS threads.
 *   RECEIVER-3  While its receiver is busy, no handler runs on a green thread: it is about to take
 *               the lock, or inside the runtime.  The same holds in a P section of its M.
 *               siglongjmp from a handler leaves neither.
 *   RECEIVER-4  The signal thread admits all signals of `admitted`, so one OS thread always does.
 *               It forwards to itself.  Its mask follows after that of the receiver which admits a
 *               signal: a pending signal is handled there before pthread_sigmask returns.  Other
 *               threads of the runtime that are no Ms block all signals.
 *   RECEIVER-5  Faults are handled by the OS thread that gets them, and so are signals that were
 *               sent to one thread (si_code SI_TKILL), unless it runs a busy receiver or a thread
 *               in a wait (RECEIVER-3, KILL-3): then they are forwarded.  Those of pthread_kill to
 *               a green thread are brought to it by kill.c.
 *   RECEIVER-6  A signal is sent to the OS thread of a running receiver only if that thread does
 *               not block it (/proc/self/task/TID/status): it would be pending there for good.
 *
 * SIG_FORWARD is a signal of libc (SIGCANCEL), which is sent to the signal thread by nothing else,
 * and which is blocked there.  siginfo.c packs the siginfo, settle.c waits for signals.
 *
 * Rejected
 *   A pipe to a green thread, as sys/notify.c: a program that closes all fds closes it, too.
 *   All signals blocked on Ms: see monitor/faultsig.c.
 */
#include "posix/signal/receiver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/signal/disposition.h"
#include "posix/signal/kill.h"
#include "posix/signal/settle.h"
#include "posix/signal/siginfo.h"

enum { FIRST_QUEUED = 32 }; /* lower: pending once at most */

enum { THREAD_STACK = 512 * 1024 }; /* handlers may run there */

static struct {
	struct lock lock;
	struct receiver main;
	struct receiver *others; /* under the lock */
	uint64_t admitted;       /* (a) RECEIVER-2; valid while main.run is the present run */
	uint64_t forwarded;      /* (a) RECEIVER-8 */
	int tid;                 /* (a) of the signal thread; 0: there is none */
	int forced;              /* (o) of the signal thread: it handles this signal itself */
	gmp_once start;          /* of the signal thread */
	bool has_key;            /* under the lock */
	pthread_key_t key;       /* its destructor ends a receiver */
} rec;

bool receiver_has_thread(void)
{
	return ld_rlx(&rec.tid) && receiver_routes();
}

int receiver_wake(void)
{
	int saved = errno, tid = ld_rlx(&rec.tid);
	int err = tid ? siginfo_send_note_sig(tid, SIG_FORWARD) : -1;

	errno = saved;
	return err;
}

/* Returns whether the signal thread gets the signal. */
static bool forward_sig(const siginfo_t *info)
{
	int tid = ld_rlx(&rec.tid);
	uint64_t bit = info->si_signo < FIRST_QUEUED ? mask_bit(info->si_signo) : 0;

	if (!tid)
		return false;
	if (bit && or_rlx(&rec.forwarded, bit) & bit)
		return true; /* RECEIVER-8 */
	settle_forward_sig(info->si_signo);
	if (siginfo_send_to_sig(tid, SIG_FORWARD, info) == 0)
		return true;
	and_rlx(&rec.forwarded, ~bit);
	settle_arrived_sig(info->si_signo);
	return false;
}

uint64_t receiver_forwarded_sig(void)
{
	return ld_rlx(&rec.forwarded);
}

/* --- receivers --- */

static bool is_present(const struct receiver *r)
{
	return ld_rlx(&r->run) == run_number() && run_is_on();
}

static bool admits(const struct receiver *r, int signo)
{
	return is_present(r) && !(ld_rlx(&r->mask) & mask_bit(signo));
}

bool receiver_is_mine(int signo)
{
	return receiver_self() == &rec.main && admits(&rec.main, signo);
}

static void update_admitted_locked(void)
{
	uint64_t admitted = ~ld_rlx(&rec.main.mask);

	for (struct receiver *r = rec.others; r; r = r->next)
		if (is_present(r))
			admitted |= ~ld_rlx(&r->mask);
	st_rlx(&rec.admitted, admitted);
}

void receiver_tell(void)
{
	siginfo_t info = { 0 };
	int tid = ld_rlx(&rec.tid);

	if (tid)
		siginfo_send_to_sig(tid, SIG_FORWARD, &info);
}

/* The first call of a run makes the main receiver. */
static void begin_main(void)
{
	sigset_t set;

	if (likely(ld_rlx(&rec.main.run) == run_number()) || !run_first_green())
		return;
	signal_program_mask(&set);
	lock(&rec.lock, LR_RECEIVER);
	if (ld_rlx(&rec.main.run) != run_number()) {
		rec.main = (struct receiver){ .gp = run_first_green(),
					      .mask = mask_of(&set) & ~signal_undeferred() };
		st_rlx(&rec.main.run, run_number());
		update_admitted_locked();
	}
	unlock(&rec.lock, LR_RECEIVER);
	receiver_tell();
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

bool receiver_defers(int signo)
{
	uint64_t deferred = ~ld_rlx(&rec.admitted) & ~signal_undeferred();

	return is_present(&rec.main) && deferred & mask_bit(signo);
}

bool receiver_admits(int signo)
{
	return is_present(&rec.main) && ld_rlx(&rec.admitted) & mask_bit(signo);
}

static void end_receiver(void *arg)
{
	struct receiver *r = arg;

	st_rlx(&r->busy, 1u);
	lock(&rec.lock, LR_RECEIVER);
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	update_admitted_locked();
	unlock(&rec.lock, LR_RECEIVER);
	gmp__signal_state()->receiver = NULL;
	free(r);
}

static bool make_key(void)
{
	lock(&rec.lock, LR_RECEIVER);
	if (!rec.has_key)
		rec.has_key = pthread_key_create(&rec.key, end_receiver) == 0;
	unlock(&rec.lock, LR_RECEIVER);
	return rec.has_key;
}

struct receiver *receiver_new(uint64_t mask)
{
	struct receiver *r = calloc(1, sizeof(*r));

	if (!r || !make_key() || pthread_setspecific(rec.key, r)) {
		free(r);
		return NULL;
	}
	*r = (struct receiver){ .gp = own_green(), .run = run_number(), .mask = mask };
	gmp__signal_state()->receiver = r;
	st_rlx(&r->busy, 1u);
	lock(&rec.lock, LR_RECEIVER);
	r->at = &rec.others;
	r->next = rec.others;
	if (r->next)
		r->next->at = &r->next;
	rec.others = r;
	update_admitted_locked();
	unlock(&rec.lock, LR_RECEIVER);
	st_rlx(&r->busy, 0u);
	return r;
}

bool receiver_set_mask(struct receiver *r, uint64_t mask)
{
	uint64_t before = ld_rlx(&rec.admitted);

	st_rlx(&r->busy, ld_rlx(&r->busy) + 1);
	signal_hold_defaults(mask & before);
	lock(&rec.lock, LR_RECEIVER);
	st_rlx(&r->mask, mask & ~signal_undeferred());
	r->exact = true;
	update_admitted_locked();
	unlock(&rec.lock, LR_RECEIVER);
	uint64_t now = ld_rlx(&rec.admitted);

	if (now & ~before)
		signal_release_defaults(now & ~before);
	st_rlx(&r->busy, ld_rlx(&r->busy) - 1);
	return now != before;
}

/* --- routing: the trampoline --- */

/*
 *   RECEIVER-8  Of a signal below 32, one at most is on its way to the signal thread, as one is
 *               pending at most in the kernel: a bit of `forwarded` is set until the thread takes
 *               it.  Otherwise a fast timer fills the kernel's queue, and signals lose their
 *               siginfo.
 *   RECEIVER-10 The kernel sends the ticks of ITIMER_PROF and ITIMER_VIRTUAL to the OS thread that
 *               uses the CPU.  So the green thread that a tick interrupts handles it, unless that
 *               is busy or in the runtime: then main does.
 */

static bool is_signal_thread_sig(void)
{
	return os_thread_id() == ld_rlx(&rec.tid);
}

static bool is_runtimes_thread_sig(void)
{
	return getm() || gmp__blockedm() || gmp__signal_state()->ours;
}

/* No receiver admits the signal. */
static bool route_blocked_sig(int signo, const siginfo_t *info, void *context)
{
	if (!is_runtimes_thread_sig())
		return true;
	if (mask_of_writes() & mask_bit(signo) && kill_keep_sig(signo, rec.main.gp))
		return false; /* SIGTAB-9: no OS thread may block it */
	sigaddset(&((ucontext_t *)context)->uc_sigmask, signo);
	return siginfo_send_sig(signo, info) != 0;
}

/* The receiver that is gp, which the handler has interrupted, or NULL. */
static const struct receiver *interrupted_receiver_sig(const struct g *gp)
{
	const struct receiver *r = gp && gp == rec.main.gp ? &rec.main : NULL;

	if (!r && gp && green_has_own_tls(gp))
		r = gmp__signal_state()->receiver;
	return r && r->gp == gp && is_present(r) ? r : NULL;
}

/* A signal that was sent to the OS thread. */
static bool route_to_thread_sig(bool handled, const siginfo_t *info, const struct g *gp)
{
	const struct receiver *r = interrupted_receiver_sig(gp);
	bool busy = (r && ld_rlx(&r->busy)) || kill_is_busy_sig(gp);

	return !handled || !busy || !forward_sig(info);
}

/* RECEIVER-10 */
static bool is_own_tick_sig(int signo, const siginfo_t *info, const struct g *gp)
{
	if ((signo != SIGPROF && signo != SIGVTALRM) || info->si_code != SI_KERNEL)
		return false;
	if (!gp || !green_has_own_tls(gp) || kill_is_busy_sig(gp))
		return false;
	const struct receiver *r = interrupted_receiver_sig(gp);
	const struct signal_state *s = gmp__signal_state();
	uint64_t mask = s->has_mask ? s->mask : receiver_default_mask();

	return !(mask & mask_bit(signo)) && !(r && ld_rlx(&r->busy));
}

bool receiver_route_sig(int signo, bool handled, bool for_thread, siginfo_t *info, void *context)
{
	if (!is_present(&rec.main) || is_fault_signal(signo))
		return true;
	if (is_signal_thread_sig() && rec.forced == signo)
		return true;
	const struct g *gp = interrupted_green_sig(context);

	if (for_thread || info->si_code == SI_TKILL)
		return route_to_thread_sig(handled, info, gp);
	if (!(ld_rlx(&rec.admitted) & mask_bit(signo)))
		return route_blocked_sig(signo, info, context);
	if (!handled) /* its action is one of the process */
		return true;
	const struct receiver *r = interrupted_receiver_sig(gp);

	bool for_main = admits(&rec.main, signo);

	if (is_own_tick_sig(signo, info, gp))
		return true;
	if (!for_main && !is_runtimes_thread_sig())
		return true;
	if (r && (r == &rec.main || !for_main) && admits(r, signo) && !ld_rlx(&r->busy) &&
	    !kill_is_busy_sig(gp))
		return true;
	return !forward_sig(info);
}

/* --- waits of receivers --- */

/*
 *   RECEIVER-9  In a call with a mask (ppoll, sigsuspend ...), the kernel's mask of the receiver is
 *               exchanged later than the receiver's (`swapped` is set before that, and cleared
 *               after the receiver has its former mask again).  Step 4 waits without bound until
 *               the OS thread admits the signal: the handler must end that call.
 */

void gmp__handler_wait_begin(void)
{
	gmp__cputime_stop();
	if (!signals_used())
		return;
	struct receiver *r = receiver_self();

	if (unlikely(r && !ld_rlx(&rec.tid)))
		receiver_begin(); /* which waits: before the stage of this wait begins (KILL-2) */
	kill_wait_begin();
	if (likely(!r))
		return;
	st_rlx(&r->busy, 1u);
	lock(&rec.lock, LR_RECEIVER);
	r->waits = true;
	unlock(&rec.lock, LR_RECEIVER);
}

/* Handle the signal on the calling OS thread, now: the kernel calls the trampoline. */
static void handle_here(const struct receiver *r, int signo, const siginfo_t *info)
{
	if (ld_rlx(&r->mask) & mask_bit(signo)) { /* blocked meanwhile */
		siginfo_send_sig(signo, info);
		settle_arrived_sig(signo);
		return;
	}
	mask_unblock(signo);
	siginfo_send_to_sig(os_thread_id(), signo, info);
}

/* Step 3.  Returns the stored signal, with *info, or 0. */
static int end_wait(struct receiver *r, siginfo_t *info)
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

void gmp__handler_wait_end(void)
{
	gmp__cputime_start();
	if (!signals_used())
		return;
	struct receiver *r = receiver_self();
	struct signal_state *s = gmp__signal_state();
	siginfo_t info;
	int signo = 0;

	s->ran = false;
	s->restarts = true;
	kill_wait_ending();
	if (unlikely(r != NULL) && r->waits)
		signo = end_wait(r, &info);
	kill_wait_ended();
	mask_apply();
	if (signo)
		handle_here(r, signo, &info);
	kill_run();
}

/* --- the signal thread --- */

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
	return siginfo_send_to_sig(tid, signo, info) == 0 ? DONE : AGAIN;
}

static struct receiver *choose_locked(int signo)
{
	struct receiver *r = &rec.main;

	if (admits(r, signo))
		return r;
	for (r = rec.others; r && !admits(r, signo); r = r->next)
		;
	return r;
}

/* Step 3, with the lock held.  stored: an earlier call has stored the signal in r. */
static enum delivery store_locked(struct receiver *r, int signo, const siginfo_t *info, bool stored,
				  struct g **woken)
{
	if (r->signo && !stored)
		return LATER; /* an earlier signal, which r is about to handle */
	r->signo = signo;
	r->info = *info;
	if (!green_cut_wait(r->gp))
		return LATER;
	*woken = r->gp;
	return DONE;
}

/* Steps 2 to 4, inside rt_enter. */
static enum delivery deliver_once(int signo, const siginfo_t *info, struct receiver **stored)
{
	enum delivery done = NONE;
	struct g *woken = NULL;

	lock(&rec.lock, LR_RECEIVER);
	struct receiver *r = choose_locked(signo);

	if (*stored && (*stored != r || !r->signo)) {
		done = DONE; /* r has taken it */
	} else if (r && r->waits) {
		bool mine = *stored || !r->signo;

		done = store_locked(r, signo, info, *stored, &woken);
		*stored = mine ? r : NULL;
	} else if (r) {
		done = send_to_running(r, signo, info);
	}
	unlock(&rec.lock, LR_RECEIVER);
	if (woken)
		green_ready(woken);
	return done;
}

/* Step 5: the trampoline of this thread calls the handler. */
static void handle_by_thread(int signo, const siginfo_t *info)
{
	rec.forced = signo;
	siginfo_send_to_sig(rec.tid, signo, info);
	mask_unblock(signo);
	rec.forced = 0;
}

/* One attempt, unless the run has ended (NONE). */
static enum delivery try_deliver(int signo, const siginfo_t *info, struct receiver **stored)
{
	enum delivery done = NONE;

	if (!rt_enter())
		return NONE;
	if (is_present(&rec.main)) {
		done = deliver_once(signo, info, stored);
		if (done == NONE && siginfo_send_sig(signo, info) == 0) { /* blocked meanwhile */
			settle_arrived_sig(signo);
			done = DONE;
		}
	}
	rt_leave();
	return done;
}

static void deliver(int signo, const siginfo_t *info)
{
	struct receiver *stored = NULL;
	enum delivery done;
	int tries = 0;

	while ((done = try_deliver(signo, info, &stored)) == LATER ||
	       (done == AGAIN && tries++ < TRIES)) {
		os_nap(TRY_NS);
		kill_pass();
	}
	if (done != DONE)
		handle_by_thread(signo, info);
}

/* RECEIVER-4.  By a system call: libc would leave SIG_FORWARD out. */
static void signal_thread_mask(void)
{
	uint64_t blocked = ~ld_rlx(&rec.admitted) & ~signal_undeferred();

	if (!is_present(&rec.main))
		blocked = ~UINT64_C(0) & ~signal_undeferred();
	blocked |= mask_bit(SIG_FORWARD);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, SIGSET_BYTES);
}

/* Returns false if the thread got no SIG_FORWARD for ns (0: without bound). */
static bool next_signal(siginfo_t *info, int64_t ns)
{
	uint64_t only = mask_bit(SIG_FORWARD);
	struct timespec wait = { .tv_nsec = ns };

	return syscall(SYS_rt_sigtimedwait, &only, info, ns ? &wait : NULL, SIGSET_BYTES) ==
	       SIG_FORWARD; /* EINTR: a trampoline has forwarded a signal */
}

static void *signal_thread_main(void *arg)
{
	siginfo_t info;
	int64_t ns = 0;

	(void)arg;
	for (;;) {
		signal_thread_mask();
		bool got = next_signal(&info, ns) && !siginfo_is_note_sig(&info);

		if (got) {
			siginfo_unpack_sig(&info);
			if (info.si_signo && info.si_signo < FIRST_QUEUED)
				and_rlx(&rec.forwarded, ~mask_bit(info.si_signo));
			if (info.si_signo)
				deliver(info.si_signo, &info);
		}
		ns = kill_pass();
	}
	return NULL;
}

static void *signal_thread_start(void *started)
{
	gmp__signal_state()->ours = true;
	signal_thread_mask();
	st_rlx(&rec.tid, os_thread_id());
	gmp_sem_release(started, 1);
	return signal_thread_main(NULL);
}

/* In the child of a fork. */
static void forget_signal_thread(void)
{
	memset(&rec.lock, 0, sizeof(rec.lock));
	st_rlx(&rec.tid, 0);
	st_rlx(&rec.forwarded, UINT64_C(0));
	settle_forget();
	st_rlx(&rec.main.run, 0u);
	rec.start = (gmp_once)GMP_ONCE_INIT;
	rec.others = NULL;
}

/* The caller may have been a receiver of the process that forked. */
static void forget_own_receiver(void)
{
	struct signal_state *s = gmp__signal_state();

	s->receiver = NULL;
	s->has_mask = false; /* the mask of the OS thread is that of the main receiver */
	if (rec.has_key)
		pthread_setspecific(rec.key, NULL);
}

/* If there is no thread after it, handlers run where they interrupt. */
static void start_signal_thread(void *unused)
{
	static bool registered;
	gmp_sem started = GMP_SEM_INIT(0);
	pthread_t t;

	(void)unused;
	if (!registered)
		registered = pthread_atfork(NULL, NULL, forget_signal_thread) == 0;
	settle_begin();
	/* not counted as a thread of the runtime: its handlers may end waits */
	if (os_thread_create(&t, signal_thread_start, &started, THREAD_STACK))
		return;
	int masked = gmp_cancel_mask(1); /* `started` outlives the release */

	pthread_detach(t);
	gmp_sem_acquire(&started);
	if (masked == 0)
		gmp_cancel_mask(0);
}

/* Another thread may be starting it: after that, pthread_kill and raise rely on it. */
void receiver_begin(void)
{
	if (!ld_rlx(&rec.tid) && receiver_routes())
		gmp_once_do(&rec.start, start_signal_thread, NULL);
}

void receiver_adopt(void)
{
	forget_own_receiver();
	if (signals_used())
		receiver_begin();
}
