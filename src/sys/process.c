/* SPDX-License-Identifier: MIT */
/*
 * gmp_process_spawn: posix_spawn(3) in a blocking section, with pipes to the child and a pidfd.
 *
 * Fork and exec of a large program take milliseconds, an exec from a file server may take longer,
 * so the call is a blocking section: the P runs other Gs meanwhile.  posix_spawn of libc shares the
 * memory with the child until the exec instead of copying page tables, closes what must be closed,
 * sets signal mask and dispositions in the child, and reports a failed exec as an error of the
 * call.
 *
 *   caller             ours[i]      child[i]         child
 *   gmp_write(p->in)  ──> pipe ──────────────────────> 0
 *   gmp_read(p->out)  <── pipe <────────────────────── 1
 *   gmp_read(p->err)  <── pipe <────────────────────── 2
 *
 * Invariants
 *   PROCESS-1  Every fd that is opened here has FD_CLOEXEC from the system call that creates it.
 *              So a child that another thread starts at the same time inherits none of them.
 *   PROCESS-2  An fd that the child dups to 0, 1 or 2 is itself 3 or above, also if the program has
 *              closed its standard fds and new ones get those numbers.  So no dup2 overwrites the
 *              source of a later one, and none is from an fd to itself, which would keep
 *              FD_CLOEXEC.
 *   PROCESS-3  Everything that can fail for want of memory or fds is done before the child exists.
 *              The pidfd, which is created after it, gets the number that `spare` has kept.
 *              Another thread can take that number first; then p->pidfd is -1, a legal result.
 *   PROCESS-4  Shutdown may kill the caller when the blocking section ends.  What it then holds is
 *              a leftover: the parent's ends of the pipes, and the pidfd.  The other fds are closed
 *              inside the section.
 *   PROCESS-5  An external thread is not inside the runtime (rt_enter) during the blocking section.
 *              If the run has ended by then, the call still succeeds: the pipes are plain fds, as
 *              those of any earlier run.
 *
 * Rejected
 *   fork and exec: a fork copies page tables, and the child runs code of gmp until the exec.
 *   clone3 with CLONE_PIDFD: libc does not know of the child, and gmp would have to guard its
 *   locks.
 *   The pidfd of posix_spawn is that of the right child too, unless another thread reaps it first.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/os.h"
#include "enter.h"
#include "io/cleanup.h"
#include "io/fd.h"
#include "monitor/faultsig.h"
#include "policy/spare.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { STREAMS = 3 };
enum {
	KNOWN_FLAGS =
		GMP_PROCESS_SEARCH | GMP_PROCESS_GROUP | GMP_PROCESS_SESSION | GMP_PROCESS_CLOSE
};

struct spawn {
	gmp_process_opts o;
	const gmp_process_stream *stream[STREAMS];
	int ours[STREAMS];      /* the parent's end of a pipe, registered; -1: no pipe */
	int child[STREAMS];     /* the fd that the child dups to i; -1: none */
	bool borrowed[STREAMS]; /* child[i] belongs to the caller */
	int spare;              /* PROCESS-3 */
	int pidfd;
	pid_t pid;
	struct leftover left;
};

extern char **environ;

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- options --- */

static bool stream_is_valid(const gmp_process_stream *s, int i)
{
	switch (s->kind) {
	case GMP_PROCESS_INHERIT:
	case GMP_PROCESS_NULL:
	case GMP_PROCESS_PIPE: return true;
	case GMP_PROCESS_FD: return s->fd >= 0;
	case GMP_PROCESS_STDOUT: return i == STDERR_FILENO;
	default: return false;
	}
}

/* Copy and check the options.  Returns 0 or -errno. */
static int process_load(struct spawn *s, const gmp_process_opts *user)
{
	*s = (struct spawn){ .o = GMP_PROCESS_OPTS_INIT,
			     .ours = { -1, -1, -1 },
			     .child = { -1, -1, -1 },
			     .spare = -1,
			     .pidfd = -1 };
	if (!user || user->size < sizeof(user->size))
		return -EINVAL;
	for (size_t i = sizeof(s->o); i < user->size; i++)
		if (((const char *)user)[i])
			return -E2BIG; /* an option of a later version */
	memcpy(&s->o, user, min_of(user->size, sizeof(s->o)));
	s->stream[0] = &s->o.in;
	s->stream[1] = &s->o.out;
	s->stream[2] = &s->o.err;
	if (!s->o.argv || !s->o.argv[0] || s->o.flags & ~(unsigned)KNOWN_FLAGS)
		return -EINVAL;
	for (int i = 0; i < STREAMS; i++)
		if (!stream_is_valid(s->stream[i], i))
			return -EINVAL;
	return s->o.flags & GMP_PROCESS_CLOSE && !LIBC_CLOSES_FROM ? -ENOTSUP : 0;
}

/* --- file descriptors --- */

/* PROCESS-2.  Returns a duplicate of fd, or -errno; fd stays open. */
static int dup_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, STREAMS);

	return high < 0 ? -errno : high;
}

/* Replace *fd by a duplicate if it is a stream number.  Returns 0, or -errno with *fd unchanged. */
static int raise_above_streams(int *fd)
{
	if (*fd >= STREAMS)
		return 0;
	int high = dup_high(*fd);

	if (high < 0)
		return high;
	close(*fd);
	*fd = high;
	return 0;
}

/* Create the pipe of stream i. */
static int make_pipe(struct spawn *s, int i)
{
	int p[2], write_end = i == STDIN_FILENO;

	if (pipe2(p, O_CLOEXEC) < 0) /* PROCESS-1 */
		return -errno;
	int ours = p[write_end];

	s->child[i] = p[!write_end];
	int err = raise_above_streams(&s->child[i]);

	if (!err)
		err = raise_above_streams(&ours);
	if (!err)
		err = os_nonblock(ours, true);
	if (err < 0) {
		close(ours);
		return err;
	}
	ours = fd_register(ours, false);
	if (ours < 0)
		return ours;
	s->ours[i] = ours;
	return 0;
}

/* Use the fd of the caller for stream i. */
static int borrow_fd(struct spawn *s, int i)
{
	int fd = s->stream[i]->fd;

	s->borrowed[i] = fd >= STREAMS;
	if (!s->borrowed[i])
		fd = dup_high(fd);
	else if (fcntl(fd, F_GETFD) < 0)
		fd = -errno;
	if (fd < 0)
		return fd;
	s->child[i] = fd;
	return 0;
}

static int open_streams(struct spawn *s)
{
	int err = 0;

	/* first: a pipe may get the number of an fd that is not open */
	for (int i = 0; i < STREAMS && !err; i++)
		if (s->stream[i]->kind == GMP_PROCESS_FD)
			err = borrow_fd(s, i);
	for (int i = 0; i < STREAMS && !err; i++)
		if (s->stream[i]->kind == GMP_PROCESS_PIPE)
			err = make_pipe(s, i);
	if (err)
		return err;
	s->spare = eventfd(0, EFD_CLOEXEC);
	return s->spare < 0 ? -errno : 0;
}

static void close_childs(struct spawn *s)
{
	for (int i = 0; i < STREAMS; i++)
		if (!s->borrowed[i])
			close_if_open(&s->child[i]);
	close_if_open(&s->spare);
}

/* Close an fd that was registered with the poller. */
static void close_registered(int *fd)
{
	int err = *fd < 0 ? 0 : fd_close(*fd);

	if (err == -ESRCH || err == -EBADF) /* its record ended with its run */
		close(*fd);
	*fd = -1;
}

static void close_ours(struct spawn *s)
{
	for (int i = 0; i < STREAMS; i++)
		close_registered(&s->ours[i]);
}

/* PROCESS-4 */
static void close_left(void *spawn)
{
	struct spawn *s = spawn;

	for (int i = 0; i < STREAMS; i++)
		close_if_open(&s->ours[i]);
	close_if_open(&s->pidfd);
}

/* --- child; functions of libc return positive error codes here --- */

static int add_stream(const struct spawn *s, posix_spawn_file_actions_t *actions, int i)
{
	switch (s->stream[i]->kind) {
	case GMP_PROCESS_NULL:
		return posix_spawn_file_actions_addopen(actions, i, "/dev/null",
							i ? O_WRONLY : O_RDONLY, 0);
	case GMP_PROCESS_STDOUT: return posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, i);
	default:
		if (s->child[i] < 0)
			return 0;
		return posix_spawn_file_actions_adddup2(actions, s->child[i], i);
	}
}

static int add_actions(const struct spawn *s, posix_spawn_file_actions_t *actions)
{
	int err = 0;

	for (int i = 0; i < STREAMS && !err; i++)
		err = add_stream(s, actions, i);
	if (!err && s->o.flags & GMP_PROCESS_CLOSE)
		err = posix_spawn_file_actions_addclosefrom_np(actions, STREAMS);
	if (!err && s->o.cwd)
		err = posix_spawn_file_actions_addchdir_np(actions, s->o.cwd);
	return err;
}

/*
 * Signal mask, dispositions, group and session of the child.  The exec resets handlers to the
 * default.  A SIGPIPE that the program ignores would stay ignored, and filters would write to a
 * broken pipe indefinitely; so it is reset too.
 */
static void set_attributes(const struct spawn *s, posix_spawnattr_t *attr)
{
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	sigset_t set;

	signal_program_mask(&set);
	posix_spawnattr_setsigmask(attr, &set);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	posix_spawnattr_setsigdefault(attr, &set);
	if (s->o.flags & GMP_PROCESS_SESSION)
		flags |= POSIX_SPAWN_SETSID;
	else if (s->o.flags & GMP_PROCESS_GROUP)
		flags |= POSIX_SPAWN_SETPGROUP; /* a new group: the default of the attribute is 0 */
	posix_spawnattr_setflags(attr, flags);
}

/* Returns 0 or a positive error code. */
static int process_spawn_with(struct spawn *s, const posix_spawn_file_actions_t *actions,
			      const posix_spawnattr_t *attr)
{
	const char *file = s->o.file ? s->o.file : s->o.argv[0];
	char *const *argv = (char *const *)(uintptr_t)s->o.argv;
	char *const *envp = s->o.envp ? (char *const *)(uintptr_t)s->o.envp : environ;

	if (s->o.flags & GMP_PROCESS_SEARCH)
		return posix_spawnp(&s->pid, file, actions, attr, argv, envp);
	return posix_spawn(&s->pid, file, actions, attr, argv, envp);
}

/* process_spawn_with without the timer slack of an M and its slice for the kernel's scheduler,
 * which the child would inherit. */
static int process_spawn_from_m(struct spawn *s, const posix_spawn_file_actions_t *actions,
				const posix_spawnattr_t *attr)
{
	if (!gmp__blockedm())
		return process_spawn_with(s, actions, attr);
	int slack = os_timer_slack(sched.slack);

	if (sched.preempts)
		os_thread_slice(0, 0);
	int err = process_spawn_with(s, actions, attr);

	if (sched.preempts)
		os_thread_slice(0, m_slice());
	os_timer_slack(slack);
	return err;
}

/* Returns 0 or -errno. */
static int process_spawn(struct spawn *s)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return -err;
	err = posix_spawnattr_init(&attr);
	if (!err) {
		set_attributes(s, &attr);
		err = add_actions(s, &actions);
		if (!err)
			err = process_spawn_from_m(s, &actions, &attr);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

/* In a blocking section.  Returns 0 with the child running, or -errno; closes the child's ends. */
static int process_launch(struct spawn *s)
{
	int err = process_spawn(s);

	close_childs(s);
	if (!err)
		s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	return err;
}

/* PROCESS-4: launch with the leftover entered. */
static int process_launch_blocking(struct spawn *s)
{
	bool green = gmp_self() != NULL;

	if (green)
		leftover_add(&s->left, close_left, s);
	gmp_block_enter();
	int err = process_launch(s);

	gmp_block_leave();
	if (green)
		leftover_del(&s->left);
	return err;
}

/* --- the calls --- */

/* PROCESS-3: the child exists, so this cannot fail: without a pidfd, s->pidfd is -1. */
static void register_pidfd(struct spawn *s)
{
	if (s->pidfd < 0) {
		s->pidfd = -1;
	} else if (!rt_enter()) {
		close_if_open(&s->pidfd);
	} else {
		int fd = fd_register(s->pidfd, false);

		s->pidfd = max_of(fd, -1);
		rt_leave();
	}
}

int gmp_process_spawn(gmp_process *p, const gmp_process_opts *opts)
{
	struct spawn s;
	int err = process_load(&s, opts);

	if (!p)
		return -EINVAL;
	if (err)
		return err;
	if (!rt_enter())
		return -ESRCH;
	cancel_hold();
	err = open_streams(&s);
	rt_leave(); /* PROCESS-5 */
	if (err)
		close_childs(&s);
	else
		err = process_launch_blocking(&s);
	if (err)
		close_ours(&s);
	else
		register_pidfd(&s);
	cancel_release();
	if (err)
		return err;
	*p = (gmp_process){
		.pid = s.pid, .pidfd = s.pidfd, .in = s.ours[0], .out = s.ours[1], .err = s.ours[2]
	};
	return 0;
}

void gmp_process_close(gmp_process *p)
{
	if (!p)
		return;
	cancel_hold();
	close_registered(&p->in);
	close_registered(&p->out);
	close_registered(&p->err);
	close_registered(&p->pidfd);
	cancel_release();
}
