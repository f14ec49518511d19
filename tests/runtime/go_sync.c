/* SPDX-License-Identifier: MIT */
/*
 * Do locks and their like do what Go's public tests ask of them?  Programs of the same intent as
 * those of src/sync/{mutex,rwmutex,cond,waitgroup,once}_test.go and src/runtime/sema_test.go; each
 * section names its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>

#include "go_util.h"

static void spawn_all(gmp_fn fn, void *arg, gmp_g **g, int n)
{
	for (int i = 0; i < n; i++)
		g[i] = spawn(fn, arg);
}

static void join_all(gmp_g **g, int n)
{
	for (int i = 0; i < n; i++)
		join(g[i]);
}

/* --- mutex_test.go: TestSemaphore --- */

static gmp_sem sem;
static int plain; /* guarded by whatever is tested */

static void hammer_sem(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		CHECK_EQ(gmp_sem_acquire(&sem), 0);
		plain++;
		CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	}
}

GO_MAIN(a_semaphore_of_one_is_a_lock)
{
	gmp_g *g[10];

	plain = 0;
	sem = (gmp_sem)GMP_SEM_INIT(1);
	spawn_all(hammer_sem, NULL, g, 10);
	join_all(g, 10);
	CHECK_EQ(plain, 10 * check_scaled(1000));
	CHECK_EQ(gmp_sem_try_acquire(&sem), 0);
	CHECK_EQ(gmp_sem_try_acquire(&sem), -EAGAIN);
}

/* --- TestMutex --- */

static gmp_mutex m;

static void hammer_mutex(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 3 == 0) {
			int err = gmp_mutex_try_lock(&m);

			CHECK(err == 0 || err == -EAGAIN);
			if (err == 0)
				CHECK_EQ(gmp_mutex_unlock(&m), 0);
			continue;
		}
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		plain++;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(a_hammered_mutex_holds)
{
	gmp_g *g[10];
	long n = check_scaled(10000);

	plain = 0;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	spawn_all(hammer_mutex, &n, g, 10);
	join_all(g, 10);
	CHECK_EQ(plain, 10 * (n - (n + 2) / 3));
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* --- TestMutexFairness --- */

static atomic_int enough;

/* Holds it all the time, but for the instant between an unlock and the next lock. */
static void hog(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_sleep(100 * US), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(a_hog_does_not_starve_the_others)
{
	gmp_g *g = spawn(hog, NULL);

	atomic_store(&enough, 0);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(gmp_sleep(100 * US), 0);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	atomic_store(&enough, 1);
	join(g);
}

/* --- TestMutexMisuse, TestWaitGroupMisuse, TestWaitGroupMisuse3 --- */

static gmp_rwmutex rw;
static gmp_wg wg;

static void misuse_unlock(void)
{
	gmp_mutex_unlock(&m);
}

static void misuse_unlock_twice(void)
{
	gmp_mutex_lock(&m);
	gmp_mutex_unlock(&m);
	gmp_mutex_unlock(&m);
}

static void misuse_rw_unlock(void)
{
	gmp_rwmutex_unlock(&rw);
}

static void misuse_rw_unlock_of_a_reader(void)
{
	gmp_rwmutex_rlock(&rw);
	gmp_rwmutex_unlock(&rw);
}

static void misuse_rw_unlock_twice(void)
{
	gmp_rwmutex_lock(&rw);
	gmp_rwmutex_unlock(&rw);
	gmp_rwmutex_unlock(&rw);
}

static void misuse_runlock(void)
{
	gmp_rwmutex_runlock(&rw);
}

static void misuse_runlock_of_a_writer(void)
{
	gmp_rwmutex_lock(&rw);
	gmp_rwmutex_runlock(&rw);
}

static void misuse_runlock_twice(void)
{
	gmp_rwmutex_rlock(&rw);
	gmp_rwmutex_runlock(&rw);
	gmp_rwmutex_runlock(&rw);
}

static void misuse_done(void)
{
	gmp_wg_add(&wg, 1);
	gmp_wg_done(&wg);
	gmp_wg_done(&wg);
}

static void misuse_add(void)
{
	gmp_wg_add(&wg, -1);
}

static void (*const misuses[])(void) = {
	misuse_unlock,
	misuse_unlock_twice,
	misuse_rw_unlock,
	misuse_rw_unlock_of_a_reader,
	misuse_rw_unlock_twice,
	misuse_runlock,
	misuse_runlock_of_a_writer,
	misuse_runlock_twice,
	misuse_done,
	misuse_add,
};

static int which, on_procs;

static void misuse(UNUSED void *arg)
{
	misuses[which]();
}

static void misuse_in_silence(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, 2) < 0)
		return;
	if (on_procs)
		run_procs(on_procs, misuse, NULL);
	else
		misuse(NULL);
}

TEST(misuse_ends_the_process)
{
	for (on_procs = 0; on_procs <= 2; on_procs += 2) {
		for (which = 0; which < (int)(sizeof(misuses) / sizeof(misuses[0])); which++) {
			int status = in_child(misuse_in_silence);

			CHECK(WIFSIGNALED(status));
			CHECK_EQ(WTERMSIG(status), SIGABRT);
		}
	}
}

/* --- rwmutex_test.go: TestParallelReaders --- */

struct crowd {
	gmp_chan *locked, *unlock, *done;
};

static void read_in_a_crowd(void *arg)
{
	struct crowd *c = arg;

	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	put_int(c->locked, 1);
	get_int(c->unlock);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	put_int(c->done, 1);
}

GO_MAIN(readers_are_inside_together)
{
	for (int readers = 1; readers <= 10; readers++) {
		struct crowd *c = make_memory(sizeof(*c));

		*c = (struct crowd){ make_ints(0), make_ints(0), make_ints(0) };
		for (int i = 0; i < readers; i++)
			go(read_in_a_crowd, c);
		for (int i = 0; i < readers; i++)
			get_int(c->locked); /* all of them are in */
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
		for (int i = 0; i < readers; i++)
			put_int(c->unlock, 1);
		for (int i = 0; i < readers; i++)
			get_int(c->done);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

/* --- HammerRWMutex, TestRLocker --- */

enum { WRITER = 10000 }; /* what a writer counts for */

static atomic_int activity;

static void stay_for(int of_what)
{
	int now = atomic_fetch_add(&activity, of_what) + of_what;

	CHECK(of_what == WRITER ? now == WRITER : now >= 1 && now < WRITER);
	for (volatile int i = 0; i < 100; i++)
		;
	atomic_fetch_sub(&activity, of_what);
}

static void hammer_readers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_rlock(&rw) : gmp_rwmutex_rlock(&rw))
			continue;
		stay_for(1);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

static void hammer_writers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_lock(&rw) : gmp_rwmutex_lock(&rw))
			continue;
		stay_for(WRITER);
		plain++;
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

/* Two writers, as many readers before, between, and after them. */
GO_MAIN(a_hammered_rwmutex_holds)
{
	long n = check_scaled(500);

	for (int readers = 1; readers <= 10; readers++) {
		gmp_g *g[12];
		int k = 0;

		g[k++] = spawn(hammer_writers, &n);
		for (int i = 0; i < readers / 2; i++)
			g[k++] = spawn(hammer_readers, &n);
		g[k++] = spawn(hammer_writers, &n);
		for (int i = readers / 2; i < readers; i++)
			g[k++] = spawn(hammer_readers, &n);
		join_all(g, k);
		CHECK_EQ(atomic_load(&activity), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

GO_MAIN(tries_at_an_rwmutex_say_what_holds_it)
{
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

struct turns {
	gmp_chan *written, *read;
	int n;
};

static void write_in_turn(void *arg)
{
	struct turns *t = arg;

	for (int i = 0; i < t->n; i++) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_lock_until(&rw, 0), -ETIMEDOUT);
		put_int(t->written, i);
		put_int(t->written, i);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
		get_int(t->read);
	}
}

GO_MAIN(readers_and_a_writer_take_turns)
{
	struct turns *t = make_memory(sizeof(*t));

	*t = (struct turns){ make_ints(0), make_ints(0), 10 };
	go(write_in_turn, t);
	for (int i = 0; i < t->n; i++) {
		CHECK_EQ(get_int(t->written), i);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
		CHECK_EQ(get_int(t->written), i);
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
		put_int(t->read, i);
	}
}

/* --- cond_test.go: TestCondSignal --- */

static gmp_cond cond;

struct sleepers {
	gmp_chan *asleep, *awake;
	int n, number;
	bool over;
};

static void sleep_once(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	put_int(s->asleep, 1);
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	put_int(s->awake, 1);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static struct sleepers *make_sleepers(int n)
{
	struct sleepers *s = make_memory(sizeof(*s));

	*s = (struct sleepers){ make_ints((size_t)n), make_ints((size_t)n), n, 0, false };
	return s;
}

GO_MAIN(a_signal_wakes_one)
{
	enum { SLEEPERS = 20 };
	struct sleepers *s = make_sleepers(SLEEPERS);

	for (int i = 0; i < SLEEPERS; i++)
		go(sleep_once, s);
	for (int i = 0; i < SLEEPERS; i++)
		get_int(s->asleep);
	for (int left = SLEEPERS; left > 0; left--) {
		CHECK_EQ(gmp_chan_try_recv(s->awake, NULL), -EAGAIN);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_cond_signal(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		get_int(s->awake);
		for (int i = 0; i < 5; i++)
			gmp_yield();
		CHECK_EQ(gmp_chan_try_recv(s->awake, NULL), -EAGAIN);
	}
	CHECK_EQ(gmp_cond_signal(&cond), 0);
}

/* --- TestCondSignalGenerations --- */

static void sleep_in_order(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	int mine = s->number++;

	put_int(s->asleep, mine);
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	put_int(s->awake, mine);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* One more sleeps, then one is woken: always the one before. */
GO_MAIN(signals_go_by_generations)
{
	enum { SLEEPERS = 100 };
	struct sleepers *s = make_sleepers(SLEEPERS);

	for (int i = 0; i < SLEEPERS; i++) {
		go(sleep_in_order, s);
		if (i > 0)
			CHECK_EQ(get_int(s->awake), i - 1);
		CHECK_EQ(get_int(s->asleep), i);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_cond_signal(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	CHECK_EQ(get_int(s->awake), SLEEPERS - 1);
}

/* --- TestCondBroadcast --- */

static void sleep_again_and_again(void *arg)
{
	struct sleepers *s = arg;

	CHECK_EQ(gmp_mutex_lock(&m), 0);
	while (!s->over) {
		put_int(s->asleep, 1);
		CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
		put_int(s->awake, 1);
	}
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	put_int(s->asleep, 1);
}

GO_MAIN(a_broadcast_wakes_all_each_time)
{
	int n = SANITIZED ? 50 : 200;
	struct sleepers *s = make_sleepers(n);

	for (int i = 0; i < n; i++)
		go(sleep_again_and_again, s);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			get_int(s->asleep);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		if (round == 2)
			s->over = true;
		else
			CHECK_EQ(gmp_chan_len(s->asleep), 0); /* nobody is up */
		CHECK_EQ(gmp_cond_broadcast(&cond), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		for (int i = 0; i < n; i++)
			get_int(s->awake);
	}
	for (int i = 0; i < n; i++)
		get_int(s->asleep);
	CHECK_EQ(gmp_chan_len(s->awake), 0);
	CHECK_EQ(gmp_cond_broadcast(&cond), 0);
}

/* --- TestRace of cond_test.go: three, each of which knows what it finds --- */

static int stage;

static void begin_and_wait(void *done)
{
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	stage = 1;
	CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
	CHECK_EQ(stage, 2);
	stage = 3;
	CHECK_EQ(gmp_cond_signal(&cond), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	put_int(done, 1);
}

static void answer(void *done)
{
	for (bool seen = false; !seen;) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		seen = stage == 1;
		if (seen) {
			stage = 2;
			CHECK_EQ(gmp_cond_signal(&cond), 0);
		}
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		gmp_yield();
	}
	put_int(done, 1);
}

static void wait_for_the_answer(void *done)
{
	for (bool seen = false; !seen;) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		if (stage == 2) {
			CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
			CHECK_EQ(stage, 3);
			seen = true;
		}
		seen |= stage == 3;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		gmp_yield();
	}
	put_int(done, 1);
}

GO_MAIN(a_signal_comes_with_what_it_tells_of)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(300); i < n; i++) {
		stage = 0;
		go(begin_and_wait, done);
		go(answer, done);
		go(wait_for_the_answer, done);
		for (int k = 0; k < 3; k++)
			get_int(done);
	}
}

/* --- TestCondSignalStealing --- */

struct theft {
	gmp_mutex m;
	gmp_cond c;
	gmp_chan *first;
	gmp_wg all;
	bool over;
};

static void wait_first(void *arg)
{
	struct theft *t = arg;

	CHECK_EQ(gmp_mutex_lock(&t->m), 0);
	put_int(t->first, 1);
	CHECK_EQ(gmp_cond_wait(&t->c, &t->m), 0);
	CHECK_EQ(gmp_mutex_unlock(&t->m), 0);
	put_int(t->first, 2);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wake_all(void *arg)
{
	struct theft *t = arg;

	CHECK_EQ(gmp_cond_broadcast(&t->c), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wake_first(void *arg)
{
	struct theft *t = arg;

	CHECK_EQ(gmp_cond_signal(&t->c), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

static void wait_second(void *arg)
{
	struct theft *t = arg;

	CHECK_EQ(gmp_mutex_lock(&t->m), 0);
	while (!t->over)
		CHECK_EQ(gmp_cond_wait(&t->c, &t->m), 0);
	CHECK_EQ(gmp_mutex_unlock(&t->m), 0);
	CHECK_EQ(gmp_wg_done(&t->all), 0);
}

/* Who waits already gets the wake-up, whoever comes to wait while it is sent. */
GO_MAIN(nobody_steals_a_signal)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		struct theft t = { .first = gmp_chan_new(sizeof(int), 0) };

		CHECK_EQ(gmp_wg_add(&t.all, 3), 0);
		go(wait_first, &t);
		CHECK_EQ(get_int(t.first), 1);
		CHECK_EQ(gmp_mutex_lock(&t.m), 0);
		CHECK_EQ(gmp_mutex_unlock(&t.m), 0); /* it waits now */
		go(i % 2 ? wake_all : wake_first, &t);
		go(wait_second, &t);
		CHECK_EQ(get_int(t.first), 2);
		CHECK_EQ(gmp_mutex_lock(&t.m), 0);
		t.over = true;
		CHECK_EQ(gmp_mutex_unlock(&t.m), 0);
		CHECK_EQ(gmp_cond_broadcast(&t.c), 0);
		CHECK_EQ(gmp_wg_wait(&t.all), 0);
		gmp_chan_free(t.first);
	}
}

/* --- waitgroup_test.go: TestWaitGroup --- */

enum { GROUP = 16 };

struct two_groups {
	gmp_wg here, there;
	gmp_chan *out;
};

static void meet(void *arg)
{
	struct two_groups *t = arg;

	CHECK_EQ(gmp_wg_done(&t->here), 0);
	CHECK_EQ(gmp_wg_wait(&t->there), 0);
	put_int(t->out, 1);
}

GO_MAIN(wait_groups_are_used_again_and_again)
{
	struct two_groups *t = make_memory(sizeof(*t));

	t->out = make_ints(GROUP);
	for (int round = 0; round < 8; round++) {
		CHECK_EQ(gmp_wg_add(&t->here, GROUP), 0);
		CHECK_EQ(gmp_wg_add(&t->there, GROUP), 0);
		for (int i = 0; i < GROUP; i++)
			go(meet, t);
		CHECK_EQ(gmp_wg_wait(&t->here), 0);
		for (int i = 0; i < GROUP; i++) {
			CHECK_EQ(gmp_chan_try_recv(t->out, NULL), -EAGAIN);
			CHECK_EQ(gmp_wg_done(&t->there), 0);
		}
		for (int i = 0; i < GROUP; i++)
			get_int(t->out);
	}
}

/* --- TestWaitGroupRace, TestWaitGroupMisuse2: on the stack of who waits, and gone after that --- */

struct errand {
	gmp_wg *wg;
	atomic_int *n;
};

static void run_errand(void *arg)
{
	struct errand *e = arg;

	atomic_fetch_add_explicit(e->n, 1, memory_order_relaxed);
	CHECK_EQ(gmp_wg_done(e->wg), 0);
}

static __attribute__((noinline)) void wait_for_errands(int errands)
{
	gmp_wg w = GMP_WG_INIT;
	atomic_int n = 0;
	struct errand e = { &w, &n };

	for (int i = 0; i < errands; i++) {
		CHECK_EQ(gmp_wg_add(&w, 1), 0);
		go(run_errand, &e);
	}
	CHECK_EQ(gmp_wg_wait(&w), 0);
	CHECK_EQ(atomic_load_explicit(&n, memory_order_relaxed), errands);
	memset(&w, 0xee, sizeof(w));
}

static void wait_for_many_errands(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++)
		wait_for_errands(1 + (int)(i % 3));
}

GO_MAIN(a_wait_group_may_live_on_the_stack)
{
	gmp_g *g[4];

	spawn_all(wait_for_many_errands, NULL, g, 4);
	join_all(g, 4);
}

/* --- once_test.go: TestOnce, TestOncePanic --- */

static gmp_once once;
static int times;

static void count_time(UNUSED void *arg)
{
	times++;
}

static void do_once(void *done)
{
	CHECK_EQ(gmp_once_do(&once, count_time, NULL), 0);
	CHECK_EQ(times, 1);
	put_int(done, 1);
}

GO_MAIN(once_is_once)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		times = 0;
		for (int k = 0; k < 10; k++)
			go(do_once, done);
		for (int k = 0; k < 10; k++)
			get_int(done);
		CHECK_EQ(times, 1);
	}
}

static void count_time_and_end(void *done)
{
	times++;
	put_int(done, 2);
	gmp_exit();
}

static void do_once_and_end(void *done)
{
	gmp_once_do(&once, count_time_and_end, done);
	CHECK(!"its function has ended it");
}

static void do_once_too(void *done)
{
	CHECK_EQ(gmp_once_do(&once, count_time, NULL), 0);
	CHECK_EQ(times, 1);
	put_int(done, 1);
}

GO_MAIN(once_is_once_though_its_function_ends_the_green_thread)
{
	gmp_chan *done = make_ints(0);

	for (long i = 0, n = check_scaled(200); i < n; i++) {
		once = (gmp_once)GMP_ONCE_INIT;
		times = 0;
		gmp_g *first = spawn(do_once_and_end, done);

		WAIT_FOR(__atomic_load_n(&once.state, __ATOMIC_RELAXED) != 0);
		for (int k = 0; k < 3; k++)
			go(do_once_too, done);
		CHECK_EQ(get_int(done), 2);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(get_int(done), 1);
		join(first);
	}
}

/* --- sema_test.go of the runtime: the table of those who wait --- */

enum { ADDRESSES = 307 }; /* a prime: every step goes round to all */

static gmp_sem table[ADDRESSES];

static void acquire_own(void *arg)
{
	gmp_sem *s = arg;

	CHECK_EQ(gmp_sem_acquire(s), 0);
	CHECK_EQ(gmp_sem_try_acquire(s), -EAGAIN);
}

/* Many addresses, released in an order of their own: each wakes who waits for it. */
GO_MAIN(who_waits_on_an_address_is_woken_by_it)
{
	gmp_g *g[ADDRESSES];

	for (int step = 1; step < ADDRESSES; step += 100) {
		for (int i = 0; i < ADDRESSES; i++)
			g[i] = spawn(acquire_own, &table[i]);
		wait_parked(ADDRESSES);
		for (int i = 0, k = 0; i < ADDRESSES; i++, k = (k + step) % ADDRESSES) {
			CHECK_EQ(gmp_sem_release(&table[k], 1), 0);
			join(g[k]);
		}
	}
}

static gmp_chan *in_order;

static void acquire_numbered(void *number)
{
	CHECK_EQ(gmp_sem_acquire(&sem), 0);
	put_int(in_order, (int)(intptr_t)number);
}

/* One address with a long queue. */
GO_MAIN(a_long_queue_keeps_its_order)
{
	int n = SANITIZED ? 100 : 1000;

	sem = (gmp_sem)GMP_SEM_INIT(0);
	in_order = make_ints((size_t)n);
	for (int i = 0; i < n; i++) {
		go(acquire_numbered, (void *)(intptr_t)i);
		while (stats().greens_waiting != (uint64_t)i + 1)
			gmp_yield();
	}
	for (int i = 0; i < n; i++) {
		CHECK_EQ(gmp_sem_release(&sem, 1), 0);
		CHECK_EQ(get_int(in_order), i);
	}
}
