/* SPDX-License-Identifier: MIT */
/*
 * Tests that the functions of os.h do what they promise. The wrappers can refuse some calls, as
 * older kernels do.
 *
 * wrap: madvise mmap getrandom
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/atomic.h"

#include "killed_by.h"

/* --- the refusals --- */

int __real_madvise(void *p, size_t n, int advice);
void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
ssize_t __real_getrandom(void *buf, size_t n, unsigned flags);
int __wrap_madvise(void *p, size_t n, int advice);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags);

static int refused;  /* errno of each wrapped call, if not 0 */
static bool no_maps; /* mmap fails, as at the limit of mappings */
static bool ignored; /* madvise answers success and does nothing, as qemu's emulation may */

static bool refuse(void)
{
	errno = refused ? refused : errno;
	return refused != 0;
}

int __wrap_madvise(void *p, size_t n, int advice)
{
	if (refuse())
		return -1;
	return ignored ? 0 : __real_madvise(p, n, advice);
}

void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	if (no_maps) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(p, n, prot, flags, fd, at);
}

ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags)
{
	return refuse() ? -1 : __real_getrandom(buf, n, flags);
}

/* --- time and CPU --- */

TEST(os_nap_lasts_its_duration_without_cpu_time)
{
	int64_t t = os_now(), own = os_cpu_time();

	CHECK(t > 0 && own > 0);
	os_nap(3 * MS);
	CHECK(os_now() - t >= 3 * MS);
	CHECK(os_cpu_time() - own < os_now() - t); /* sleeping uses no CPU time */
	os_nap(-1);
	os_yield();
}

static void no_action(int sig)
{
	(void)sig;
}

/* Race: the timer may fire before the nap begins; then it fires again. */
TEST(os_nap_that_a_signal_ends_keeps_errno)
{
	const struct sigaction old_action = { .sa_handler = SIG_DFL },
			       action = { .sa_handler = no_action };
	const struct itimerval each = { { 0, 5000 }, { 0, 5000 } }, off = { 0 };
	int64_t began = os_now();

	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &each, NULL), 0);
	errno = 1234;
	os_nap(10 * S);
	CHECK_EQ(errno, 1234);
	CHECK(os_now() - began < 10 * S);
	CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
	CHECK_EQ(sigaction(SIGALRM, &old_action, NULL), 0);
}

TEST(os_cpus_online_equals_affinity_mask)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		check_skip("more CPUs than a cpu_set_t holds");
	CHECK_EQ(os_cpus_online(), CPU_COUNT(&set));
	CHECK(os_cpus_allowed() >= 1);
	CHECK(os_cpus_allowed() <= os_cpus_online());
}

TEST(os_cpus_allowed_follows_affinity_change)
{
	int before = os_cpus_online();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	CHECK_EQ(os_cpus_allowed(), 1);
	CHECK_EQ(os_cpus_online(), before);
}

TEST(os_random_values_differ)
{
	uint64_t a = os_random(), b = os_random();

	CHECK(a != b);
}

TEST(os_random_without_getrandom_values_differ)
{
	refused = EAGAIN;
	uint64_t a = os_random();

	os_nap(1000);
	CHECK(a != os_random());
	refused = 0;
}

/* --- memory --- */

enum { REGION = 64 * PAGE };

TEST(os_reserve_is_zero_and_not_resident_until_touched)
{
	char *p = os_reserve(REGION);
	unsigned char vec[REGION / PAGE] = { 0 };

	CHECK(p != NULL);
	p[5 * PAGE] = 1;
	CHECK(os_resident(p, REGION, vec));
	for (int i = 0; i < REGION / PAGE; i++)
		CHECK_EQ(vec[i] & 1, i == 5);
	CHECK_EQ(p[6 * PAGE], 0);
	os_release(p, REGION);
	CHECK(!os_resident(p, REGION, vec));
}

TEST(os_reserve_beyond_address_space_returns_null)
{
	CHECK(os_reserve((size_t)1 << 60) == NULL);
}

TEST(os_discard_frees_pages_that_then_read_zero)
{
	char *p = os_reserve(REGION);
	unsigned char vec[REGION / PAGE];

	CHECK(p != NULL);
	memset(p, 7, REGION);
	os_discard(p + PAGE, REGION - PAGE);
	CHECK(os_resident(p, REGION, vec));
	CHECK_EQ(vec[0] & 1, 1);
	for (int i = 1; i < REGION / PAGE; i++)
		CHECK_EQ(vec[i] & 1, 0);
	CHECK_EQ(p[0], 7);
	for (int i = PAGE; i < REGION; i++)
		CHECK_EQ(p[i], 0);
	os_release(p, REGION);
}

TEST(os_discard_refused_clears_pages)
{
	char *p = os_reserve(REGION);

	CHECK(p != NULL);
	memset(p, 7, REGION);
	refused = EINVAL;
	os_discard(p + PAGE, REGION - PAGE);
	refused = 0;
	CHECK_EQ(p[PAGE - 1], 7);
	for (int i = PAGE; i < REGION; i++)
		CHECK_EQ(p[i], 0);
	os_release(p, REGION);
}

TEST(os_discard_without_effect_clears_pages)
{
	char *p = os_reserve(REGION);

	CHECK(p != NULL);
	memset(p, 7, REGION);
	ignored = true;
	os_discard(p + PAGE, REGION - PAGE);
	ignored = false;
	CHECK_EQ(p[PAGE - 1], 7);
	for (int i = PAGE; i < REGION; i++)
		CHECK_EQ(p[i], 0);
	os_release(p, REGION);
}

TEST(os_discard_at_the_limit_of_mappings_frees_pages)
{
	char *p = os_reserve(REGION);
	unsigned char vec[REGION / PAGE];

	CHECK(p != NULL);
	memset(p, 7, REGION);
	no_maps = true;
	os_discard(p, REGION);
	no_maps = false;
	CHECK(os_resident(p, REGION, vec));
	for (int i = 0; i < REGION / PAGE; i++)
		CHECK_EQ(vec[i] & 1, 0);
	os_release(p, REGION);
}

TEST(os_max_maps_is_positive)
{
	CHECK(os_max_maps() > 0);
}

static void check_guard(int (*guard)(void *, size_t), const char *name)
{
	char *p = os_reserve(4 * PAGE);
	int err;

	CHECK(p != NULL);
	CHECK_EQ(killed_by(p + PAGE), 0);
	err = guard(p + PAGE, PAGE);
	if (err == -EINVAL || err == -ENOSYS)
		check_skip(name);
	CHECK_EQ(err, 0);
	CHECK(check_on_valgrind() || os_faults(p + PAGE));
	CHECK_EQ(killed_by(p), 0);
	CHECK_EQ(killed_by(p + PAGE), SIGSEGV);
	CHECK_EQ(killed_by(p + 2 * PAGE - 1), SIGSEGV);
	CHECK_EQ(killed_by(p + 2 * PAGE), 0);
	os_release(p, 4 * PAGE);
}

TEST(os_guard_light_access_raises_sigsegv)
{
	char *p = os_reserve(PAGE);

	CHECK(p != NULL);
	if (os_guard_light(p, PAGE) == 0 && !check_on_valgrind() && !os_faults(p))
		check_skip("light guards without an effect");
	os_release(p, PAGE);
	check_guard(os_guard_light, "no light guards before Linux 6.13");
}

TEST(os_faults_is_false_for_guard_without_effect)
{
	char *p = os_reserve(2 * PAGE);

	check_skip_on_valgrind("Valgrind reads the word of a futex itself");
	CHECK(p != NULL);
	CHECK(!os_faults(p));
	st_rlx(p, 1);
	CHECK(!os_faults(p));
	ignored = true;
	if (os_guard_light(p, PAGE) == -EINVAL)
		check_skip("the system has no light guards");
	ignored = false;
	CHECK(!os_faults(p));
	CHECK_EQ(os_guard_protect(p, PAGE), 0);
	CHECK(os_faults(p));
	CHECK(!os_faults(p + PAGE));
	os_release(p, 2 * PAGE);
	CHECK(os_faults(p));
}

TEST(os_reserve_has_guard_below)
{
	char *p = os_reserve(PAGE);

	CHECK(p != NULL);
	refused = EXDEV;
	bool by_advice = os_guard_light(p, PAGE) == -EXDEV;

	refused = 0;
	if (by_advice && os_guard_light(p, PAGE) != 0)
		check_skip("no light guards before Linux 6.13");
	if (by_advice && !os_faults(p))
		check_skip("light guards without an effect");
	CHECK(os_faults(p - PAGE));
	os_release(p, PAGE);
}

TEST(os_guard_protect_access_raises_sigsegv)
{
	check_guard(os_guard_protect, "no mprotect");
}

TEST(os_guard_outside_mapping_returns_error)
{
	char *p = os_reserve(PAGE);

	CHECK(p != NULL);
	os_release(p, PAGE);
	CHECK_EQ(os_guard_protect(p, PAGE), -ENOMEM);
	CHECK(os_guard_light(p, PAGE) < 0);
}

/* In a process that locks its memory, and may lock no page. */
static int ask_locks_beyond_limit(void)
{
	struct rlimit one = { 1, 1 };

	if (setrlimit(RLIMIT_MEMLOCK, &one) != 0 || (geteuid() == 0 && setuid(65534) != 0) ||
	    syscall(SYS_mlockall, MCL_FUTURE) != 0)
		return 77;
	if (mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		return 77;
	return os_locks_memory() ? 0 : 1;
}

TEST(os_locks_memory_is_true_if_limit_is_used_up)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(ask_locks_beyond_limit());
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		check_skip("mlockall has no effect");
	CHECK_EQ(status, 0);
}

/* --- threads --- */

/* Threads that wait at a gate. */
static uint32_t gate; /* (a) */
static uint32_t up;   /* (a) */
static const char *thread_name;

static void *wait_at_gate(void *arg)
{
	if (thread_name != NULL)
		pthread_setname_np(pthread_self(), thread_name);
	*(int *)arg = os_thread_id();
	add_seq(&up, 1);
	while (ld_seq(&gate) == 0)
		os_futex_wait(&gate, 0, NEVER);
	return NULL;
}

static void open_gate(pthread_t *t, int n)
{
	st_seq(&gate, 1);
	os_futex_wake(&gate, INT_MAX);
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
}

static void start_at_gate(pthread_t *t, int *id, int n)
{
	uint32_t all = ld_seq(&up) + (uint32_t)n;

	for (int i = 0; i < n; i++)
		/* the stack size is rounded up */
		CHECK_EQ(os_thread_start(&t[i], wait_at_gate, &id[i], 1, NULL), 0);
	while (ld_seq(&up) < all)
		os_yield();
}

static uint32_t relaying = 1;

/* Starts its successor before it ends, so that one thread of each chain always lives. */
static void *relay(void *arg)
{
	pthread_t t;

	while (ld_seq(&relaying) && pthread_create(&t, NULL, relay, NULL) != 0)
		;
	pthread_detach(pthread_self());
	return arg;
}

TEST(os_thread_count_is_right_while_threads_end)
{
	pthread_t t;

	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_create(&t, NULL, relay, NULL), 0);
	for (int i = 0; i < 3000; i++)
		CHECK(os_thread_count() >= 9);
	st_seq(&relaying, 0);
}

/*
 * These tests start one thread before counting: a sanitizer starts its own thread with the first
 * one, and a joined thread is listed for a moment longer.
 */
TEST(os_thread_count_and_ids_match_threads)
{
	pthread_t t[3];
	int id[3], before;

	start_at_gate(t, id, 1);
	before = os_thread_count();
	start_at_gate(t + 1, id + 1, 2);
	CHECK_EQ(os_thread_count(), before + 2);
	CHECK(id[0] != id[1] && id[1] != id[2] && id[0] != os_thread_id());
	CHECK_EQ(os_thread_id(), getpid());
	open_gate(t, 3);
}

TEST(os_thread_count_excludes_io_uring_workers)
{
	pthread_t t[3];
	int id[3], before;

	start_at_gate(t, id, 1);
	before = os_thread_count();
	thread_name = "iou-wrk-1";
	start_at_gate(t + 1, id + 1, 2);
	CHECK_EQ(os_thread_count(), before);
	open_gate(t, 3);
}

/* A thread that was joined exists a moment longer. */
static void wait_for_others(int n)
{
	while (os_thread_count_others(true) > n)
		os_yield();
	CHECK_EQ(os_thread_count_others(true), n);
}

TEST(os_thread_count_others_excludes_threads_of_runtime)
{
	pthread_t t[3], outside;
	int id[3], id_outside, before;

	start_at_gate(t, id, 1);
	before = os_thread_count_others(true);
	start_at_gate(t + 1, id + 1, 2);
	CHECK_EQ(os_thread_count_others(true), before);
	CHECK_EQ(pthread_create(&outside, NULL, wait_at_gate, &id_outside), 0);
	CHECK_EQ(os_thread_count_others(true), before + 1);
	open_gate(t, 3);
	CHECK_EQ(pthread_join(outside, NULL), 0);
	wait_for_others(before);
}

/* A count beside a thread that begins or ends is repeated soon, and ever later. */
TEST(os_thread_recount_ns_is_time_since_a_thread_began_or_ended)
{
	pthread_t t[1];
	int id[1];
	int64_t before = os_now(), next;

	start_at_gate(t, id, 1);
	next = os_thread_recount_ns();
	CHECK(next >= 1000000 && next <= max_of(os_now() - before, (int64_t)1000000));
	for (int64_t end = os_now() + 20000000; os_now() < end;)
		os_yield();
	CHECK(os_thread_recount_ns() >= 20000000);
	CHECK(os_thread_recount_ns() <= 1000000000);
	before = os_now();
	open_gate(t, 1);
	CHECK(os_thread_recount_ns() <= max_of(os_now() - before, (int64_t)1000000));
}

TEST(os_thread_count_works_without_free_fd)
{
	struct rlimit limit, none;
	pthread_t t[3];
	int id[3], before;

	start_at_gate(t, id, 1);
	before = os_thread_count();
	start_at_gate(t + 1, id + 1, 2);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_EQ(os_thread_count(), before + 2);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	open_gate(t, 3);
}

static void *read_timer_slack(void *arg)
{
	int before = os_timer_slack(1);

	*(int *)arg = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	CHECK_EQ(os_timer_slack(before), 1);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), before);
	return NULL;
}

TEST(os_timer_slack_changes_calling_thread_only)
{
	int there = 0, here = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	pthread_t t;

	CHECK_EQ(os_thread_start(&t, read_timer_slack, &there, 65536, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(there, 1);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), here);
}

TEST(os_thread_start_with_huge_stack_returns_error)
{
	pthread_t t;
	int unused;

	CHECK(os_thread_start(&t, read_timer_slack, &unused, (size_t)1 << 60, NULL) < 0);
}

/* --- futex and barrier --- */

TEST(os_futex_wait_on_other_value_returns_at_once)
{
	uint32_t word = 1;

	CHECK_EQ(os_futex_wait(&word, 0, NEVER), 0);
}

TEST(os_futex_wait_returns_etimedout_at_deadline)
{
	uint32_t word = 0;
	int64_t deadline = os_now() + 3 * MS;
	int err;

	do
		err = os_futex_wait(&word, 0, deadline);
	while (err == 0); /* spurious wakeup */
	CHECK_EQ(err, -ETIMEDOUT);
	CHECK(os_now() >= deadline);
}

TEST(os_futex_wait_past_deadline_returns_etimedout_at_once)
{
	uint32_t word = 0;
	int64_t t = os_now();

	CHECK_EQ(os_futex_wait(&word, 0, 0), -ETIMEDOUT);
	CHECK_EQ(os_futex_wait(&word, 0, -1), -ETIMEDOUT);
	CHECK_EQ(os_futex_wait(&word, 0, INT64_MIN), -ETIMEDOUT);
	CHECK_EQ(os_futex_wait(&word, 0, t - 1), -ETIMEDOUT);
	CHECK(os_now() - t < 10 * S); /* at once, even on an overloaded machine */
}

TEST(os_futex_wake_ends_wait)
{
	pthread_t t[4];
	int id[4];

	start_at_gate(t, id, 4);
	os_nap(2 * MS); /* until they sleep */
	open_gate(t, 4);
}

TEST(os_membarrier_init_can_be_repeated)
{
	if (!os_membarrier_init())
		check_skip("no expedited membarrier");
	CHECK(os_membarrier_init()); /* can be repeated */
	os_membarrier();
}

/* Dekker's two flags, one side with the light fence: at least one side sees the other's flag. */
static struct {
	uint32_t light aligned_to(CACHE_LINE), heavy aligned_to(CACHE_LINE);
	uint32_t round aligned_to(CACHE_LINE), done aligned_to(CACHE_LINE);
	uint32_t saw;
	uint32_t stop;
} dekker;

static void *light_side(void *arg)
{
	for (uint32_t round = 1;; round++) {
		while (ld_seq(&dekker.round) != round) {
			if (ld_seq(&dekker.stop))
				return arg;
			cpu_relax();
		}
		st_rlx(&dekker.light, round);
		fence_light();
		st_rlx(&dekker.saw, ld_rlx(&dekker.heavy) == round);
		st_seq(&dekker.done, round);
	}
}

TEST(os_membarrier_orders_against_fence_light)
{
	uint32_t rounds = (uint32_t)check_scaled(20000);
	pthread_t t;

	if (!os_membarrier_init())
		check_skip("no expedited membarrier");
	CHECK_EQ(os_thread_start(&t, light_side, NULL, 65536, NULL), 0);
	for (uint32_t round = 1; round <= rounds; round++) {
		st_seq(&dekker.round, round);
		for (uint32_t i = round % 64; i > 0; i--)
			cpu_relax();
		st_rlx(&dekker.heavy, round);
		os_membarrier();
		bool saw = ld_rlx(&dekker.light) == round;
		while (ld_seq(&dekker.done) != round)
			os_yield();
		CHECK(saw || ld_rlx(&dekker.saw));
	}
	st_seq(&dekker.stop, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

TEST(os_nonblock_invalid_fd_returns_ebadf)
{
	CHECK_EQ(os_nonblock(-1, true), -EBADF);
}
