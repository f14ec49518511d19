/* SPDX-License-Identifier: MIT */
/*
 * Calls pthread_cancel on OS threads inside calls of gmp.
 *
 *   cancel           calls each function with a pending request: it must return; makes a request
 *                    while a call waits: the call must end as usual. The thread then ends at its
 *                    next cancellation point, and gmp_stop and gmp_close must return
 *   cancel names     prints the called functions; cancel.sh compares them with the exported ones
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmp.h>

#define MUST(x)                                                                                    \
	do {                                                                                       \
		long must_ = (long)(x);                                                            \
		if (must_ < 0) {                                                                   \
			fprintf(stderr, "cancel: line %d: %s: %ld\n", __LINE__, #x, must_);        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static gmp_chan *chan;
static gmp_mutex mutex;
static gmp_rwmutex rwmutex;
static gmp_wg wg;
static gmp_cond cond;
static gmp_sem sem;
static gmp_once once, once_until;
static gmp_barrier barrier = GMP_BARRIER_INIT(1);
static gmp_timer *timer;
static gmp_chan *ticks;
static gmp_pool *pool;
static gmp_multipool *multipool;
static gmp_group *group;
static gmp_done *done;
static gmp_singleflight *flight;
static gmp_key key;
static gmp_g *green;
static gmp_process process;
static int sockets[2], file = -1, listener = -1, dialled[4], n_dialled;
static char buf[256];
static const char *file_name;
static int null;
static gmp_canary canary;

static void use_listener(int fd)
{
	if (listener >= 0)
		gmp_close(listener);
	listener = fd;
}

static void nothing(void *arg)
{
	(void)arg;
	pthread_testcancel(); /* on an external thread: in gmp_once_do */
}

static int nothing_done(void *arg)
{
	(void)arg;
	return 0;
}

static int value_of(void *arg, void *value)
{
	(void)arg;
	*(int *)value = 7;
	return 0;
}

static int64_t soon(void)
{
	return gmp_deadline(1000000);
}

static pid_t child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid;
}

static struct iovec iov = { buf, 1 };
static struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
static struct pollfd pollfd;
static int value;
static struct addrinfo *found;
static char address[32];
static const char *const child_argv[] = { "true", NULL };
static gmp_process_opts process_opts = GMP_PROCESS_OPTS_INIT;
static gmp_stats stats = GMP_STATS_INIT;

/* Each function with arguments that are valid on an external thread; no call waits indefinitely. */
#define CALLS                                                                                      \
	X(gmp_version_string, gmp_version_string())                                                \
	X(gmp_run_id, gmp_run_id())                                                                \
	X(gmp_procs, gmp_procs())                                                                  \
	X(gmp_set_procs, gmp_set_procs(2))                                                         \
	X(gmp_go, gmp_go(nothing, NULL))                                                           \
	X(gmp_spawn, gmp_spawn(&green, nothing, NULL, NULL))                                       \
	X(gmp_id, gmp_id(green))                                                                   \
	X(gmp_name, gmp_name(green))                                                               \
	X(gmp_cancel, gmp_cancel(green))                                                           \
	X(gmp_join, gmp_join(green))                                                               \
	X(gmp_join_until,                                                                          \
	  (gmp_spawn(&green, nothing, NULL, NULL), gmp_join_until(green, GMP_FOREVER)))            \
	X(gmp_detach, (gmp_spawn(&green, nothing, NULL, NULL), gmp_detach(green)))                 \
	X(gmp_cancelled, gmp_cancelled())                                                          \
	X(gmp_cancel_mask, gmp_cancel_mask(1))                                                     \
	X(gmp_pin, gmp_pin())                                                                      \
	X(gmp_unpin, gmp_unpin())                                                                  \
	X(gmp_errno_here, gmp_errno_here())                                                        \
	X(gmp_yield, gmp_yield())                                                                  \
	X(gmp_self, gmp_self())                                                                    \
	X(gmp_checkpoint, gmp_checkpoint())                                                        \
	X(gmp_now, gmp_now())                                                                      \
	X(gmp_deadline, gmp_deadline(1))                                                           \
	X(gmp_sleep, gmp_sleep(1000000))                                                           \
	X(gmp_sleep_until, gmp_sleep_until(soon()))                                                \
	X(gmp_timer_new, timer = gmp_timer_new(nothing, NULL))                                     \
	X(gmp_timer_set, gmp_timer_set(timer, soon(), 0))                                          \
	X(gmp_timer_stop, gmp_timer_stop(timer))                                                   \
	X(gmp_timer_free, gmp_timer_free(timer))                                                   \
	X(gmp_chan_new, chan = gmp_chan_new(sizeof(int), 4))                                       \
	X(gmp_chan_send, gmp_chan_send(chan, &value))                                              \
	X(gmp_chan_send_until, gmp_chan_send_until(chan, &value, GMP_FOREVER))                     \
	X(gmp_chan_try_send, gmp_chan_try_send(chan, &value))                                      \
	X(gmp_chan_recv, gmp_chan_recv(chan, &value))                                              \
	X(gmp_chan_recv_until, gmp_chan_recv_until(chan, &value, GMP_FOREVER))                     \
	X(gmp_chan_try_recv, gmp_chan_try_recv(chan, &value))                                      \
	X(gmp_chan_len, gmp_chan_len(chan))                                                        \
	X(gmp_chan_cap, gmp_chan_cap(chan))                                                        \
	X(gmp_select, gmp_select(&(gmp_case){ .c = chan, .dir = GMP_SEND, .elem = &value }, 1))    \
	X(gmp_select_until,                                                                        \
	  gmp_select_until(&(gmp_case){ .c = chan, .dir = GMP_RECV, .elem = &value }, 1,           \
			   GMP_FOREVER))                                                           \
	X(gmp_select_try,                                                                          \
	  gmp_select_try(&(gmp_case){ .c = chan, .dir = GMP_RECV, .elem = &value }, 1))            \
	X(gmp_signal_notify, gmp_signal_notify(chan, SIGUSR1))                                     \
	X(gmp_signal_stop, gmp_signal_stop(chan, SIGUSR1))                                         \
	X(gmp_chan_close, gmp_chan_close(chan))                                                    \
	X(gmp_chan_free, gmp_chan_free(chan))                                                      \
	X(gmp_tick_new, ticks = gmp_tick_new(1000000, 1000000))                                    \
	X(gmp_tick_free, gmp_tick_free(ticks))                                                     \
	X(gmp_mutex_lock, gmp_mutex_lock(&mutex))                                                  \
	X(gmp_mutex_unlock, gmp_mutex_unlock(&mutex))                                              \
	X(gmp_mutex_lock_until,                                                                    \
	  (gmp_mutex_lock_until(&mutex, GMP_FOREVER), gmp_mutex_unlock(&mutex)))                   \
	X(gmp_mutex_try_lock, (gmp_mutex_try_lock(&mutex), gmp_mutex_unlock(&mutex)))              \
	X(gmp_rwmutex_rlock, gmp_rwmutex_rlock(&rwmutex))                                          \
	X(gmp_rwmutex_runlock, gmp_rwmutex_runlock(&rwmutex))                                      \
	X(gmp_rwmutex_rlock_until,                                                                 \
	  (gmp_rwmutex_rlock_until(&rwmutex, GMP_FOREVER), gmp_rwmutex_runlock(&rwmutex)))         \
	X(gmp_rwmutex_try_rlock, (gmp_rwmutex_try_rlock(&rwmutex), gmp_rwmutex_runlock(&rwmutex))) \
	X(gmp_rwmutex_lock, gmp_rwmutex_lock(&rwmutex))                                            \
	X(gmp_rwmutex_unlock, gmp_rwmutex_unlock(&rwmutex))                                        \
	X(gmp_rwmutex_lock_until,                                                                  \
	  (gmp_rwmutex_lock_until(&rwmutex, GMP_FOREVER), gmp_rwmutex_unlock(&rwmutex)))           \
	X(gmp_rwmutex_try_lock, (gmp_rwmutex_try_lock(&rwmutex), gmp_rwmutex_unlock(&rwmutex)))    \
	X(gmp_wg_add, gmp_wg_add(&wg, 1))                                                          \
	X(gmp_wg_done, gmp_wg_done(&wg))                                                           \
	X(gmp_wg_wait, gmp_wg_wait(&wg))                                                           \
	X(gmp_wg_wait_until, gmp_wg_wait_until(&wg, GMP_FOREVER))                                  \
	X(gmp_cond_signal, gmp_cond_signal(&cond))                                                 \
	X(gmp_cond_broadcast, gmp_cond_broadcast(&cond))                                           \
	X(gmp_cond_wait_until,                                                                     \
	  (gmp_mutex_lock(&mutex), gmp_cond_wait_until(&cond, &mutex, soon()),                     \
	   gmp_mutex_unlock(&mutex)))                                                              \
	X(gmp_sem_release, gmp_sem_release(&sem, 3))                                               \
	X(gmp_sem_acquire, gmp_sem_acquire(&sem))                                                  \
	X(gmp_sem_acquire_until, gmp_sem_acquire_until(&sem, GMP_FOREVER))                         \
	X(gmp_sem_try_acquire, gmp_sem_try_acquire(&sem))                                          \
	X(gmp_once_do, gmp_once_do(&once, nothing, NULL))                                          \
	X(gmp_once_do_until, gmp_once_do_until(&once_until, nothing, NULL, GMP_FOREVER))           \
	X(gmp_barrier_wait, gmp_barrier_wait(&barrier))                                            \
	X(gmp_barrier_wait_until, gmp_barrier_wait_until(&barrier, GMP_FOREVER))                   \
	X(gmp_listen_with, use_listener(gmp_listen_with("tcp", "127.0.0.1:0", NULL)))              \
	X(gmp_listen, use_listener(gmp_listen("tcp", "127.0.0.1:0")))                              \
	X(gmp_local_addr, gmp_local_addr(listener, address, sizeof address))                       \
	X(gmp_dial, dialled[n_dialled++] = gmp_dial("tcp", address))                               \
	X(gmp_accept, dialled[n_dialled++] = gmp_accept(listener))                                 \
	X(gmp_peer_addr, gmp_peer_addr(dialled[0], buf, sizeof buf))                               \
	X(gmp_dial_until, dialled[n_dialled++] = gmp_dial_until("tcp", address, GMP_FOREVER))      \
	X(gmp_accept_from, dialled[n_dialled++] = gmp_accept_from(listener, NULL, NULL))           \
	X(gmp_fd_adopt, gmp_fd_adopt(sockets[0]))                                                  \
	X(gmp_write, gmp_write(sockets[0], buf, 2))                                                \
	X(gmp_write_all, gmp_write_all(sockets[0], buf, 2))                                        \
	X(gmp_writev, gmp_writev(sockets[0], &iov, 1))                                             \
	X(gmp_sendto, gmp_sendto(sockets[0], buf, 2, 0, NULL, 0))                                  \
	X(gmp_sendmsg, gmp_sendmsg(sockets[0], &msg, 0))                                           \
	X(gmp_poll,                                                                                \
	  (pollfd = (struct pollfd){ sockets[1], POLLIN, 0 }, gmp_poll(&pollfd, 1, GMP_FOREVER)))  \
	X(gmp_fd_wait, gmp_fd_wait(sockets[1], GMP_READ, GMP_FOREVER))                             \
	X(gmp_read, gmp_read(sockets[1], buf, 1))                                                  \
	X(gmp_read_full, gmp_read_full(sockets[1], buf, 1))                                        \
	X(gmp_readv, gmp_readv(sockets[1], &iov, 1))                                               \
	X(gmp_recvfrom, gmp_recvfrom(sockets[1], buf, 1, 0, NULL, NULL))                           \
	X(gmp_recvmsg, gmp_recvmsg(sockets[1], &msg, 0))                                           \
	X(gmp_open, file = gmp_open(file_name, O_RDWR, 0))                                         \
	X(gmp_pwrite, gmp_pwrite(file, buf, 8, 0))                                                 \
	X(gmp_pread, gmp_pread(file, buf, 8, 0))                                                   \
	X(gmp_fsync, gmp_fsync(file))                                                              \
	X(gmp_sendfile, gmp_sendfile(sockets[0], file, NULL, 1))                                   \
	X(gmp_fd_set_deadline, gmp_fd_set_deadline(sockets[0], GMP_READ, GMP_FOREVER))             \
	X(gmp_shutdown, gmp_shutdown(sockets[0], SHUT_WR))                                         \
	X(gmp_fd_release, (gmp_fd_adopt(dialled[1]), gmp_fd_release(dialled[1])))                  \
	X(gmp_close, gmp_close(file))                                                              \
	X(gmp_waitpid, gmp_waitpid(child(), &value, 0))                                            \
	X(gmp_waitpid_until, gmp_waitpid_until(child(), &value, 0, GMP_FOREVER))                   \
	X(gmp_process_spawn, gmp_process_spawn(&process, &process_opts))                           \
	X(gmp_process_close, (gmp_waitpid(process.pid, &value, 0), gmp_process_close(&process)))   \
	X(gmp_getaddrinfo, gmp_getaddrinfo("localhost", NULL, NULL, &found))                       \
	X(gmp_getaddrinfo_until,                                                                   \
	  gmp_getaddrinfo_until("localhost", NULL, NULL, &found, GMP_FOREVER))                     \
	X(gmp_block_enter, gmp_block_enter())                                                      \
	X(gmp_block_leave, gmp_block_leave())                                                      \
	X(gmp_key_create, gmp_key_create(&key, NULL))                                              \
	X(gmp_key_set, gmp_key_set(key, &value))                                                   \
	X(gmp_key_get, gmp_key_get(key))                                                           \
	X(gmp_key_delete, gmp_key_delete(key))                                                     \
	X(gmp_pool_new, pool = gmp_pool_new(4, NULL))                                              \
	X(gmp_pool_submit, gmp_pool_submit(pool, nothing, NULL))                                   \
	X(gmp_pool_submit_until, gmp_pool_submit_until(pool, nothing, NULL, GMP_FOREVER))          \
	X(gmp_pool_try_submit, gmp_pool_try_submit(pool, nothing, NULL))                           \
	X(gmp_pool_submit_at, gmp_pool_submit_at(pool, soon(), nothing, NULL))                     \
	X(gmp_pool_invoke, gmp_pool_invoke(pool, NULL))                                            \
	X(gmp_pool_running, gmp_pool_running(pool))                                                \
	X(gmp_pool_idle, gmp_pool_idle(pool))                                                      \
	X(gmp_pool_waiting, gmp_pool_waiting(pool))                                                \
	X(gmp_pool_capacity, gmp_pool_capacity(pool))                                              \
	X(gmp_pool_delayed, gmp_pool_delayed(pool))                                                \
	X(gmp_pool_resize, gmp_pool_resize(pool, 5))                                               \
	X(gmp_pool_release, gmp_pool_release(pool, GMP_FOREVER))                                   \
	X(gmp_pool_reboot, gmp_pool_reboot(pool))                                                  \
	X(gmp_pool_free, gmp_pool_free(pool))                                                      \
	X(gmp_multipool_new, multipool = gmp_multipool_new(2, 4, GMP_ROUND_ROBIN, NULL))           \
	X(gmp_multipool_submit, gmp_multipool_submit(multipool, nothing, NULL))                    \
	X(gmp_multipool_invoke, gmp_multipool_invoke(multipool, NULL))                             \
	X(gmp_multipool_at, gmp_multipool_at(multipool, 1))                                        \
	X(gmp_multipool_running, gmp_multipool_running(multipool))                                 \
	X(gmp_multipool_idle, gmp_multipool_idle(multipool))                                       \
	X(gmp_multipool_waiting, gmp_multipool_waiting(multipool))                                 \
	X(gmp_multipool_capacity, gmp_multipool_capacity(multipool))                               \
	X(gmp_multipool_resize, gmp_multipool_resize(multipool, 3))                                \
	X(gmp_multipool_release, gmp_multipool_release(multipool, GMP_FOREVER))                    \
	X(gmp_multipool_reboot, gmp_multipool_reboot(multipool))                                   \
	X(gmp_multipool_free, gmp_multipool_free(multipool))                                       \
	X(gmp_group_new, group = gmp_group_new(2, GMP_FOREVER))                                    \
	X(gmp_group_go, gmp_group_go(group, nothing_done, NULL))                                   \
	X(gmp_group_try_go, gmp_group_try_go(group, nothing_done, NULL))                           \
	X(gmp_group_running, gmp_group_running(group))                                             \
	X(gmp_group_wait_until, gmp_group_wait_until(group, GMP_FOREVER))                          \
	X(gmp_group_wait, (group = gmp_group_new(2, GMP_FOREVER), gmp_group_wait(group)))          \
	X(gmp_group_cancel, (group = gmp_group_new(2, GMP_FOREVER), gmp_group_cancel(group)))      \
	X(gmp_group_free, gmp_group_free(group))                                                   \
	X(gmp_done_new, done = gmp_done_new())                                                     \
	X(gmp_done_get, gmp_done_get(done))                                                        \
	X(gmp_done_chan, gmp_done_chan(done))                                                      \
	X(gmp_done_set, gmp_done_set(done))                                                        \
	X(gmp_done_wait, gmp_done_wait(done))                                                      \
	X(gmp_done_wait_until, gmp_done_wait_until(done, GMP_FOREVER))                             \
	X(gmp_done_free, gmp_done_free(done))                                                      \
	X(gmp_singleflight_new, flight = gmp_singleflight_new(sizeof value))                       \
	X(gmp_singleflight_do, gmp_singleflight_do(flight, "a", 1, value_of, NULL, &value, NULL))  \
	X(gmp_singleflight_do_until,                                                               \
	  gmp_singleflight_do_until(flight, "a", 1, value_of, NULL, &value, NULL, GMP_FOREVER))    \
	X(gmp_singleflight_forget, gmp_singleflight_forget(flight, "a", 1))                        \
	X(gmp_singleflight_free, gmp_singleflight_free(flight))                                    \
	X(gmp_stats_get, gmp_stats_get(&stats))                                                    \
	X(gmp_dump, gmp_dump(null))                                                                \
	X(gmp_dump_all, gmp_dump_all(null))                                                        \
	X(gmp_dump_on, (gmp_dump_on(SIGUSR2), gmp_dump_on(0)))                                     \
	X(gmp_trace_start, gmp_trace_start("/dev/null"))                                           \
	X(gmp_trace_begin, gmp_trace_begin("region"))                                              \
	X(gmp_trace_log, gmp_trace_log("category", "message"))                                     \
	X(gmp_trace_end, gmp_trace_end())                                                          \
	X(gmp_trace_stop, gmp_trace_stop())                                                        \
	X(gmp_profile_write, gmp_profile_write("green", 0, null))                                  \
	X(gmp_debug_listen, gmp_debug_listen("0"))                                                 \
	X(gmp_canary_set, gmp_canary_set(&canary, &value, "value"))                                \
	X(gmp_canary_clear, gmp_canary_clear(&canary))                                             \
	X(gmp_stop, gmp_stop())                                                                    \
	X(gmp_start, gmp_start(NULL))                                                              \
	X(gmp_run, (gmp_stop(), gmp_run(nothing, NULL, NULL), gmp_start(NULL)))

#define X(name, call)                                                                              \
	static void call_##name(void)                                                              \
	{                                                                                          \
		(void)(call);                                                                      \
	}
CALLS
#undef X

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {
#define X(name, call) { #name, call_##name },
	CALLS
#undef X
};

/* --- a request that is pending when the call begins --- */

static _Atomic bool returned;

static void *call_thread(void *arg)
{
	void (*const *call)(void) = arg;

	pthread_cancel(pthread_self());
	(*call)();
	returned = true;
	pthread_testcancel();
	return NULL;
}

static void check_ended(pthread_t t, const char *name)
{
	void *result;

	MUST(-pthread_join(t, &result));
	if (!returned || result != PTHREAD_CANCELED) {
		fprintf(stderr, "cancel: %s: %s\n", name,
			returned ? "the request was lost" : "the thread ended inside");
		exit(1);
	}
}

static void try_call(const char *name, void (*call)(void))
{
	pthread_t t;

	returned = false;
	MUST(-pthread_create(&t, NULL, call_thread, &call));
	check_ended(t, name);
}

/* --- a request that comes while the thread waits --- */

static gmp_chan *empty, *full;
static gmp_wg busy_wg;
static gmp_sem no_sem;
static gmp_done *not_done;
static gmp_barrier pair = GMP_BARRIER_INIT(2);
static gmp_group *waiting_group;
static gmp_g *sleeper;
static gmp_mutex locked;
static gmp_rwmutex locked_rw;
static gmp_once slow_once;
static gmp_chan *gate;
static int idle_pair[2], idle_listener, fifo_fd;
static char fifo_name[64], idle_address[32];
static pid_t idle_child;
static _Atomic int tid;
static _Atomic bool requested, at_gate;

static void through_gate(void *arg)
{
	int v;

	(void)arg;
	at_gate = true;
	gmp_chan_recv(gate, &v);
}

/* gmp_stop waits for this green thread. */
static void block_until_requested(void *arg)
{
	(void)arg;
	gmp_block_enter();
	while (!requested)
		sched_yield();
	gmp_block_leave();
}

static int through_gate_group(void *arg)
{
	through_gate(arg);
	return 0;
}

static void *once_thread(void *arg)
{
	gmp_once_do(&slow_once, through_gate, arg);
	return NULL;
}

static void w_chan_recv(void)
{
	int v;
	gmp_chan_recv(empty, &v);
}
static void r_chan_recv(void)
{
	gmp_chan_send(empty, &value);
}
static void w_chan_send(void)
{
	gmp_chan_send(full, &value);
}
static void r_chan_send(void)
{
	int v;
	gmp_chan_recv(full, &v);
}
static void w_select(void)
{
	int v;

	gmp_select(&(gmp_case){ .c = empty, .dir = GMP_RECV, .elem = &v }, 1);
}
static void w_mutex(void)
{
	gmp_mutex_lock(&locked);
	gmp_mutex_unlock(&locked);
}
static void r_mutex(void)
{
	gmp_mutex_unlock(&locked);
}
static void w_rwmutex(void)
{
	gmp_rwmutex_rlock(&locked_rw);
	gmp_rwmutex_runlock(&locked_rw);
}
static void r_rwmutex(void)
{
	gmp_rwmutex_unlock(&locked_rw);
}
static void w_wg(void)
{
	gmp_wg_wait(&busy_wg);
}
static void r_wg(void)
{
	gmp_wg_done(&busy_wg);
}
static void w_cond(void)
{
	gmp_mutex_lock(&mutex);
	gmp_cond_wait(&cond, &mutex);
	gmp_mutex_unlock(&mutex);
}
static void r_cond(void)
{
	gmp_mutex_lock(&mutex);
	gmp_cond_signal(&cond);
	gmp_mutex_unlock(&mutex);
}
static void w_sem(void)
{
	gmp_sem_acquire(&no_sem);
}
static void r_sem(void)
{
	gmp_sem_release(&no_sem, 1);
}
static void w_barrier(void)
{
	gmp_barrier_wait(&pair);
}
static void w_done(void)
{
	gmp_done_wait(not_done);
}
static void r_done(void)
{
	gmp_done_set(not_done);
}
static void w_join(void)
{
	gmp_join(sleeper);
}
static void r_gate(void)
{
	gmp_chan_send(gate, &value);
}
static void w_group(void)
{
	gmp_group_wait(waiting_group);
}
static void w_once(void)
{
	gmp_once_do(&slow_once, nothing, NULL);
}
static void w_read(void)
{
	gmp_read(idle_pair[0], buf, 1);
}
static void r_read(void)
{
	MUST(write(idle_pair[1], "x", 1));
}
static void w_fd_wait(void)
{
	gmp_fd_wait(idle_pair[0], GMP_READ, GMP_FOREVER);
	gmp_read(idle_pair[0], buf, 1);
}
static void w_poll(void)
{
	struct pollfd p = { idle_pair[0], POLLIN, 0 };

	gmp_poll(&p, 1, GMP_FOREVER);
	gmp_read(idle_pair[0], buf, 1);
}
static void w_closed(void)
{
	gmp_read(dialled[0], buf, 1);
}
static void r_closed(void)
{
	MUST(gmp_close(dialled[0]));
}
static void w_accept(void)
{
	dialled[0] = gmp_accept(idle_listener);
}
static void r_accept(void)
{
	MUST(dialled[1] = gmp_dial("tcp", idle_address));
}
static void w_open(void)
{
	fifo_fd = gmp_open(fifo_name, O_RDONLY, 0);
}
static void r_open(void)
{
	int fd = open(fifo_name, O_WRONLY);
	MUST(fd);
	close(fd);
}
static void w_waitpid(void)
{
	gmp_waitpid(idle_child, &value, 0);
}
static void r_waitpid(void)
{
	kill(idle_child, SIGKILL);
}
static void w_sleep(void)
{
	gmp_sleep(50000000);
}
static void r_none(void)
{
}
static void w_stop(void)
{
	gmp_stop();
}

static const struct {
	const char *name;
	void (*wait)(void), (*release)(void);
} waits[] = {
	{ "gmp_chan_recv", w_chan_recv, r_chan_recv },
	{ "gmp_chan_send", w_chan_send, r_chan_send },
	{ "gmp_select", w_select, r_chan_recv },
	{ "gmp_mutex_lock", w_mutex, r_mutex },
	{ "gmp_rwmutex_rlock", w_rwmutex, r_rwmutex },
	{ "gmp_wg_wait", w_wg, r_wg },
	{ "gmp_cond_wait", w_cond, r_cond },
	{ "gmp_sem_acquire", w_sem, r_sem },
	{ "gmp_barrier_wait", w_barrier, w_barrier },
	{ "gmp_done_wait", w_done, r_done },
	{ "gmp_join", w_join, r_gate },
	{ "gmp_group_wait", w_group, r_gate },
	{ "gmp_once_do", w_once, r_gate },
	{ "gmp_read", w_read, r_read },
	{ "gmp_fd_wait", w_fd_wait, r_read },
	{ "gmp_poll", w_poll, r_read },
	{ "gmp_accept", w_accept, r_accept },
	{ "gmp_read, closed", w_closed, r_closed },
	{ "gmp_open", w_open, r_open },
	{ "gmp_waitpid", w_waitpid, r_waitpid },
	{ "gmp_sleep", w_sleep, r_none },
	{ "gmp_stop", w_stop, r_none },
};

static void *wait_thread(void *arg)
{
	void (*const *wait)(void) = arg;

	tid = gettid();
	(*wait)();
	returned = true;
	while (!requested)
		sched_yield();
	pthread_testcancel();
	return NULL;
}

/* Waits until the thread sleeps in the kernel or has returned. */
static void await_sleep(void)
{
	char path[64], state = 0;

	while (!tid)
		sched_yield();
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	while (state != 'S' && !returned) {
		FILE *f = fopen(path, "r");

		if (!f)
			return; /* it has ended */
		if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		fclose(f);
	}
}

static void try_wait(const char *name, void (*wait)(void), void (*release)(void))
{
	pthread_t t;

	returned = false;
	tid = 0;
	requested = false;
	MUST(-pthread_create(&t, NULL, wait_thread, &wait));
	await_sleep();
	MUST(-pthread_cancel(t));
	requested = true;
	release();
	check_ended(t, name);
}

static void prepare_waits(void)
{
	MUST((empty = gmp_chan_new(sizeof(int), 0)) ? 0 : -1);
	MUST((gate = gmp_chan_new(sizeof(int), 0)) ? 0 : -1);
	MUST((full = gmp_chan_new(sizeof(int), 1)) ? 0 : -1);
	MUST((not_done = gmp_done_new()) ? 0 : -1);
	MUST((waiting_group = gmp_group_new(1, GMP_FOREVER)) ? 0 : -1);
	MUST(gmp_chan_send(full, &value));
	MUST(gmp_wg_add(&busy_wg, 1));
	MUST(gmp_mutex_lock(&locked));
	MUST(gmp_rwmutex_lock(&locked_rw));
	MUST(gmp_spawn(&sleeper, through_gate, NULL, NULL));
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, idle_pair));
	MUST(gmp_fd_adopt(idle_pair[0]));
	MUST(idle_listener = gmp_listen("tcp", "127.0.0.1:0"));
	MUST(gmp_local_addr(idle_listener, idle_address, sizeof idle_address));
	snprintf(fifo_name, sizeof fifo_name, "%s.fifo", file_name);
	MUST(mkfifo(fifo_name, 0600));
	MUST(idle_child = fork());
	if (idle_child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "names") == 0) {
		for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
			puts(calls[i].name);
		return 0;
	}
	file_name = argc > 1 ? argv[1] : "file";
	MUST(null = open("/dev/null", O_WRONLY));
	int made = open(file_name, O_CREAT | O_WRONLY, 0600);

	MUST(made);
	close(made);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	process_opts.argv = child_argv;
	process_opts.flags = GMP_PROCESS_SEARCH;
	process_opts.out.kind = GMP_PROCESS_PIPE;
	MUST(gmp_start(NULL));
	MUST(gmp_fd_adopt(sockets[1]));
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		try_call(calls[i].name, calls[i].call);
	prepare_waits();
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		pthread_t once_runner;

		if (waits[i].wait == w_group)
			MUST(gmp_group_go(waiting_group, through_gate_group, NULL));
		if (waits[i].wait == w_once) {
			at_gate = false;
			MUST(-pthread_create(&once_runner, NULL, once_thread, NULL));
			while (!at_gate)
				sched_yield();
		}
		if (waits[i].wait == w_stop) {
			requested = false;
			MUST(gmp_go(block_until_requested, NULL));
		}
		try_wait(waits[i].name, waits[i].wait, waits[i].release);
		if (waits[i].wait == w_once)
			MUST(-pthread_join(once_runner, NULL));
	}
	unlink(fifo_name);
	puts("all calls returned");
	return 0;
}
