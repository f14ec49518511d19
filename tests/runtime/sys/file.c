/* SPDX-License-Identifier: MIT */
/*
 * Tests the file calls: results and errors, that they block no P, and that shutdown and fork leak
 * nothing.
 */
#define _GNU_SOURCE 1
#include "io/io_util.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/time.h>

static char dir[] = "/tmp/gmp-file-XXXXXX", name[64], fifo[64];

/* Makes an empty directory; `name` and `fifo` are unused paths in it. */
static void begin(void)
{
	if (!name[0])
		CHECK(mkdtemp(dir) != NULL);
	snprintf(name, sizeof(name), "%s/file", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
}

static void end(void)
{
	unlink(name);
	unlink(fifo);
	CHECK_EQ(rmdir(dir), 0);
}

/* --- results and errors --- */

static void use_file(UNUSED void *arg)
{
	char path[96], buf[32];
	int fd;

	snprintf(path, sizeof(path), "%s-%p", name, (void *)buf);
	fd = gmp_open(path, O_RDWR | O_CREAT | O_EXCL, 0640);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(gmp_open(path, O_RDWR | O_CREAT | O_EXCL, 0640), -EEXIST);
	CHECK_EQ(gmp_write(fd, "0123456789", 10), 10);
	CHECK_EQ(gmp_pwrite(fd, "xyz", 3, 4), 3);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_pread(fd, buf, 4, 3), 4);
	CHECK(memcmp(buf, "3xyz", 4) == 0);
	CHECK_EQ(gmp_pread(fd, buf, 32, 8), 2);
	CHECK_EQ(gmp_pread(fd, buf, 32, 10), 0);
	CHECK_EQ(gmp_pread(fd, buf, 1, 1 << 20), 0);
	CHECK_EQ(gmp_read(fd, buf, 1), 0); /* the position has not moved since the write */
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK_EQ(gmp_read_full(fd, buf, 32), 10);
	CHECK(memcmp(buf, "0123xyz789", 10) == 0);
	CHECK_EQ(gmp_write_all(fd, "end", 3), 3);
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ | GMP_WRITE, 0), GMP_READ | GMP_WRITE);
	CHECK_EQ(gmp_close(fd), 0); /* the fd may be reused from here on */
	CHECK_EQ(unlink(path), 0);
}

RT(file_io_at_position_and_offset_returns_written_data)
{
	struct ext_thread f;
	gmp_g *g[8];

	begin();
	for (int i = 0; i < 8; i++)
		g[i] = spawn(use_file, NULL);
	ext_thread_start(&f, use_file, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(stats().descriptors, 0);
	end();
}

RT(file_calls_return_errors_of_kernel)
{
	char c;
	int fd, p[2];

	begin();
	CHECK_EQ(gmp_open(NULL, O_RDONLY, 0), -EINVAL);
	CHECK_EQ(gmp_open(name, O_RDONLY, 0), -ENOENT);
	CHECK_EQ(gmp_open(dir, O_WRONLY, 0), -EISDIR);
	fd = gmp_open(dir, O_RDONLY | O_DIRECTORY, 0);
	CHECK(fd >= 0);
	CHECK_EQ(gmp_read(fd, &c, 1), -EISDIR);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
	fd = gmp_open(name, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(gmp_pread(fd, &c, 1, 0), -EBADF);
	CHECK_EQ(gmp_read(fd, &c, 1), -EBADF);
	CHECK_EQ(gmp_pwrite(fd, &c, 1, -1), -EINVAL);
	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_WRITE, 0), -EPERM);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(gmp_pread(-1, &c, 1, 0), -EBADF);
	CHECK_EQ(gmp_pread(0, &c, 1, 0), -EBADF); /* not registered with gmp */
	CHECK_EQ(gmp_pwrite(9999, &c, 1, 0), -EBADF);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_pread(p[0], &c, 1, 0), -ESPIPE);
	CHECK_EQ(gmp_fsync(p[0]), -EINVAL);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
	end();
}

RT(file_device_without_poll_is_read_and_written)
{
	char buf[64] = "x";
	int fd = gmp_open("/dev/zero", O_RDWR, 0);

	CHECK(fd >= 0);
	CHECK_EQ(gmp_read(fd, buf, sizeof(buf)), (ssize_t)sizeof(buf));
	CHECK_EQ(buf[0], 0);
	CHECK_EQ(gmp_write(fd, buf, 5), 5);
	CHECK_EQ(gmp_close(fd), 0);
}

/* An O_PATH fd can be neither read nor polled. */
RT(file_open_with_o_path_succeeds_and_read_is_ebadf)
{
	const char *paths[] = { "/tmp", "/dev/null", "/etc/passwd" };
	struct stat st;
	char c;

	for (int i = 0; i < 3; i++) {
		int fd = gmp_open(paths[i], O_PATH, 0);

		CHECK(fd >= 0);
		CHECK_EQ(fstat(fd, &st), 0);
		CHECK_EQ(gmp_read(fd, &c, 1), -EBADF);
		CHECK_EQ(gmp_close(fd), 0);
		CHECK_EQ(fcntl(fd, F_GETFD), -1);
	}
}

/* /proc/self/mounts becomes readable to poll when it changes. */
RT(file_in_proc_that_can_be_polled_accepts_deadline)
{
	int fd = gmp_open("/proc/self/mounts", O_RDONLY, 0);
	char c;

	CHECK(fd >= 0);
	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ, GMP_FOREVER), 0);
	CHECK_EQ(gmp_read(fd, &c, 1), 1);
	CHECK_EQ(gmp_close(fd), 0);
}

RT(file_open_at_fd_limit_returns_emfile)
{
	struct rlimit r, few;
	int fd[64], n = 0;

	begin();
	CHECK_EQ(close(open(name, O_CREAT | O_WRONLY, 0600)), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	few = (struct rlimit){ 40, r.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int i = 0; i < 3; i++) {
		while ((fd[n] = gmp_open(name, O_RDONLY, 0)) >= 0)
			n++;
		CHECK_EQ(fd[n], -EMFILE);
		CHECK_EQ(gmp_open(name, O_RDONLY, 0), -EMFILE);
		CHECK(n > 0);
		while (n > 0)
			CHECK_EQ(gmp_close(fd[--n]), 0);
	}
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	CHECK_EQ(stats().descriptors, 0);
	end();
}

RT(file_fd_closed_outside_gmp_can_be_reused)
{
	int fd, p[2];
	char c = 0;

	begin();
	fd = gmp_open(name, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(gmp_open(name, O_RDWR, 0), fd); /* the same file again */
	CHECK_EQ(stats().descriptors, 1);
	CHECK_EQ(gmp_write(fd, "a", 1), 1);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(pipe(p), 0); /* the fd is reused by a pipe */
	CHECK_EQ(p[0], fd);
	CHECK_EQ(gmp_fd_adopt(p[0]), fd);
	CHECK_EQ(write(p[1], "b", 1), 1);
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(gmp_fd_set_deadline(p[0], GMP_READ, gmp_deadline(MS)), 0);
	CHECK_EQ(gmp_read(p[0], &c, 1), -ETIMEDOUT);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(open(name, O_RDONLY), fd); /* and by a file that gmp did not open */
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	CHECK_EQ(gmp_read(fd, &c, 1), 1);
	CHECK_EQ(c, 'a');
	CHECK_EQ(stats().descriptors, 1);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(p[1]), 0);
	end();
}

/* --- FIFOs --- */

struct opening {
	int flags;
	int fd;
	atomic_int done;
};

static void open_fifo(void *arg)
{
	struct opening *o = arg;

	o->fd = gmp_open(fifo, o->flags, 0);
	atomic_store(&o->done, 1);
}

static void sleep_20_ms(void)
{
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_sleep(MS), 0);
}

RT(file_open_of_fifo_waits_for_peer_without_p)
{
	struct opening in[4], out = { .flags = O_WRONLY };
	gmp_g *g[4];
	char c;

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	for (int i = 0; i < 4; i++) {
		in[i] = (struct opening){ .flags = O_RDONLY };
		g[i] = spawn(open_fifo, &in[i]);
	}
	sleep_20_ms();
	WAIT_FOR(stats().greens_blocked == 4);
	for (int i = 0; i < 4; i++)
		CHECK(!atomic_load(&in[i].done));
	open_fifo(&out); /* all four opens return */
	CHECK(out.fd >= 0);
	for (int i = 0; i < 4; i++) {
		join(g[i]);
		CHECK(in[i].fd >= 0);
		/* the fd is non-blocking and polled */
		CHECK(fcntl(in[i].fd, F_GETFL) & O_NONBLOCK);
		CHECK_EQ(gmp_fd_set_deadline(in[i].fd, GMP_READ, gmp_now()), 0);
		CHECK_EQ(gmp_read(in[i].fd, &c, 1), -ETIMEDOUT);
		CHECK_EQ(gmp_fd_set_deadline(in[i].fd, GMP_READ, GMP_FOREVER), 0);
	}
	CHECK_EQ(gmp_write(out.fd, "x", 1), 1);
	CHECK_EQ(gmp_read(in[2].fd, &c, 1), 1);
	CHECK_EQ(gmp_close(out.fd), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(gmp_read(in[i].fd, &c, 1), 0);
		CHECK_EQ(gmp_close(in[i].fd), 0);
	}
	end();
}

RT(file_open_of_fifo_nonblock_does_not_wait)
{
	int fd;

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK_EQ(gmp_open(fifo, O_WRONLY | O_NONBLOCK, 0), -ENXIO);
	fd = gmp_open(fifo, O_RDONLY | O_NONBLOCK, 0);
	CHECK(fd >= 0);
	CHECK_EQ(gmp_close(fd), 0);
	end();
}

RT(file_open_of_fifo_is_not_ended_by_cancel)
{
	struct opening in = { .flags = O_RDONLY };
	gmp_g *g;
	int fd;

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	g = spawn(open_fifo, &in);
	sleep_20_ms();
	CHECK_EQ(gmp_cancel(g), 0);
	sleep_20_ms();
	CHECK(!atomic_load(&in.done));
	fd = gmp_open(fifo, O_WRONLY, 0);
	CHECK(fd >= 0);
	join(g);
	CHECK(in.fd >= 0);
	CHECK_EQ(gmp_close(in.fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
	end();
}

static struct opening late;
static atomic_int leaving, other_end; /* the run ends; the other end is opened */

static void leave_fifo_open(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(open_fifo, &late), 0);
	sleep_20_ms();
	atomic_store(&leaving, 1);
}

static void open_the_other_end(UNUSED void *arg)
{
	while (!atomic_load(&leaving))
		usleep(1000);
	usleep(20000);
	atomic_store(&other_end, 1);
	late.fd = open(fifo, O_WRONLY);
}

TEST_PROCS(shutdown_waits_for_green_thread_in_fifo_open)
{
	struct ext_thread f;
	int fds = count_fds();

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	late = (struct opening){ .flags = O_RDONLY, .fd = -1 };
	ext_thread_start(&f, open_the_other_end, NULL);
	run_procs(procs, leave_fifo_open, NULL);
	CHECK(atomic_load(&other_end));
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK(!atomic_load(&late.done));
	CHECK_EQ(close(late.fd), 0);
	end();
	CHECK_EQ(count_fds(), fds); /* the fd of the killed green thread was closed */
}

static atomic_int opener_tid; /* thread id of the external thread */

static void open_fifo_with_tid(void *arg)
{
	atomic_store(&opener_tid, gettid());
	open_fifo(arg);
}

/* True if the external thread sleeps: once its thread id is set, that can only be in open(2). */
static bool opener_sleeps(void)
{
	char path[64], stat[256] = "";
	int fd, tid = atomic_load(&opener_tid);

	if (!tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	CHECK(read(fd, stat, sizeof(stat) - 1) > 0);
	CHECK_EQ(close(fd), 0);
	char *state = strrchr(stat, ')');

	return state && state[2] == 'S';
}

TEST(shutdown_does_not_wait_for_external_fifo_open)
{
	struct opening in = { .flags = O_RDONLY };
	struct ext_thread f;
	int fds, fd;

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	fds = count_fds();
	CHECK_EQ(gmp_start(NULL), 0);
	ext_thread_start(&f, open_fifo_with_tid, &in);
	while (!opener_sleeps())
		usleep(1000);
	CHECK_EQ(gmp_stop(), 0);
	CHECK(!atomic_load(&in.done));
	fd = open(fifo, O_WRONLY);
	CHECK(fd >= 0);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK_EQ(in.fd, -ESRCH);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(count_fds(), fds);
	end();
}

TEST(file_calls_without_runtime_return_esrch)
{
	char c;

	CHECK_EQ(gmp_open("/dev/null", O_RDONLY, 0), -ESRCH);
	CHECK_EQ(gmp_pread(0, &c, 1, 0), -ESRCH);
	CHECK_EQ(gmp_pwrite(0, &c, 1, 0), -ESRCH);
	CHECK_EQ(gmp_fsync(0), -ESRCH);
}

/* --- faults --- */

static void ignore(UNUSED int signo)
{
}

static void start_signal_storm(int usec)
{
	struct itimerval t = { { 0, usec }, { 0, usec } };
	struct sigaction sa = { .sa_handler = ignore, .sa_flags = SA_ONSTACK }; /* no SA_RESTART */

	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

RT(file_calls_under_signal_storm_never_return_eintr)
{
	struct opening in, out;
	gmp_g *g;

	begin();
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	start_signal_storm(100);
	for (int i = 0; i < check_scaled(50); i++) {
		in = (struct opening){ .flags = O_RDONLY };
		out = (struct opening){ .flags = O_WRONLY };
		g = spawn(open_fifo, i & 1 ? &in : &out);
		gmp_sleep(500 * US);
		open_fifo(i & 1 ? &out : &in);
		join(g);
		CHECK(in.fd >= 0);
		CHECK(out.fd >= 0);
		CHECK_EQ(gmp_close(in.fd), 0);
		CHECK_EQ(gmp_close(out.fd), 0);
		use_file(NULL);
	}
	start_signal_storm(0); /* stop */
	end();
}

static void write_blocks(void *arg)
{
	int fd = *(int *)arg;
	char block[512], back[512];

	for (int i = 0; i < 50; i++) {
		off_t at = (off_t)(intptr_t)arg % 4096 * 512;

		memset(block, i, sizeof(block));
		CHECK_EQ(gmp_pwrite(fd, block, sizeof(block), at), (ssize_t)sizeof(block));
		CHECK_EQ(gmp_pread(fd, back, sizeof(back), at), (ssize_t)sizeof(back));
		CHECK(memcmp(block, back, sizeof(block)) == 0);
		if (i % 25 == 0)
			CHECK_EQ(gmp_fsync(fd), 0);
	}
}

RT(file_concurrent_pread_pwrite_keep_blocks_whole)
{
	enum { N = 16 };
	int fd, arg[N];
	gmp_g *g[N];

	begin();
	fd = gmp_open(name, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	for (int i = 0; i < N; i++) {
		arg[i] = fd;
		g[i] = spawn(write_blocks, &arg[i]);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(gmp_close(fd), 0);
	end();
}

/* --- files that are not in the page cache --- */

enum { BLOCK = 4096, BLOCKS = 1024 };

/*
 * Opens a file whose blocks hold their index, and none of which is in the page cache (if the file
 * system can drop them).
 */
static int open_cold(int flags)
{
	static _Alignas(BLOCK) uint32_t block[BLOCK / 4];
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		block[0] = block[BLOCK / 4 - 1] = i;
		CHECK_EQ(pwrite(fd, block, BLOCK, (off_t)i * BLOCK), BLOCK);
	}
	CHECK_EQ(fsync(fd), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(close(fd), 0);
	return gmp_open(name, O_RDWR | flags, 0);
}

struct reading {
	int fd;
	unsigned seed;
};

static void read_some(void *arg)
{
	struct reading *r = arg;
	uint32_t *block;

	CHECK_EQ(posix_memalign((void **)&block, BLOCK, BLOCK), 0);
	for (int i = 0; i < check_scaled(64); i++) {
		uint32_t n = (r->seed = r->seed * 1103515245 + 12345) >> 8 & (BLOCKS - 1);

		CHECK_EQ(gmp_pread(r->fd, block, BLOCK, (off_t)n * BLOCK), BLOCK);
		CHECK_EQ(block[0], n);
		CHECK_EQ(block[BLOCK / 4 - 1], n);
	}
	free(block);
}

static void read_by_many(int flags)
{
	enum { N = 64 };
	struct reading r[N];
	gmp_g *g[N];
	int fd = open_cold(flags);

	if (fd == -EINVAL && flags) /* the file system has no O_DIRECT */
		return;
	CHECK(fd >= 0);
	for (int i = 0; i < N; i++) {
		r[i] = (struct reading){ fd, (unsigned)i };
		g[i] = spawn(read_some, &r[i]);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(gmp_close(fd), 0);
}

RT(file_cold_blocks_are_read_by_many_gs)
{
	begin();
	read_by_many(0);
	read_by_many(O_DIRECT);
	end();
}

RT(file_pread_across_cached_and_cold_blocks_is_whole)
{
	uint32_t *all = malloc((BLOCKS + 1) * BLOCK), block[BLOCK / 4];
	int fd;

	begin();
	fd = open_cold(0);
	CHECK(fd >= 0 && all);
	for (off_t i = 0; i < BLOCKS; i += 3) /* into the page cache */
		CHECK_EQ(gmp_pread(fd, block, BLOCK, i * BLOCK), BLOCK);
	CHECK_EQ(gmp_pread(fd, all, (BLOCKS + 1) * BLOCK, BLOCK), (BLOCKS - 1) * BLOCK);
	for (uint32_t i = 1; i < BLOCKS; i++)
		CHECK_EQ(all[(i - 1) * (BLOCK / 4)], i);
	CHECK_EQ(gmp_close(fd), 0);
	free(all);
	end();
}

static void write_until_killed(void *arg)
{
	char block[BLOCK]; /* on the stack of this G, which is freed at shutdown */

	memset(block, 'x', sizeof(block));
	for (;;) {
		if (gmp_pwrite(*(int *)arg, block, sizeof(block), 0) != BLOCK)
			return;
		CHECK_EQ(gmp_fsync(*(int *)arg), 0);
	}
}

static int synced;

static void leave_writers(UNUSED void *arg)
{
	synced = gmp_open(name, O_RDWR | O_CREAT | O_SYNC, 0600);
	CHECK(synced >= 0);
	for (int i = 0; i < 32; i++)
		CHECK_EQ(gmp_go(write_until_killed, &synced), 0);
	gmp_sleep(3 * MS);
}

TEST_PROCS(shutdown_during_file_writes_leaks_no_fd)
{
	begin();
	int fds = count_fds();

	for (int i = 0; i < 10; i++) {
		run_procs(procs, leave_writers, NULL);
		CHECK_EQ(close(synced), 0);
		CHECK_EQ(count_fds(), fds);
	}
	end();
}

static void use_file_in_child(UNUSED void *arg)
{
	int fd = gmp_open(name, O_RDWR | O_SYNC, 0);
	char c = 0;

	CHECK(fd >= 0);
	CHECK_EQ(gmp_pwrite(fd, "c", 1, 2 * BLOCK), 1);
	CHECK_EQ(gmp_pread(fd, &c, 1, 2 * BLOCK), 1);
	CHECK_EQ(c, 'c');
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

static int written; /* static: used until shutdown */

RT(fork_during_file_writes_disturbs_neither_process)
{
	int fd, status;
	pid_t child;
	char c;

	begin();
	fd = written = gmp_open(name, O_RDWR | O_CREAT | O_SYNC, 0600);
	CHECK(fd >= 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_go(write_until_killed, &written), 0);
	for (int i = 0; i < 5; i++) {
		gmp_sleep(2 * MS);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			if (gmp_pread(fd, &c, 1, 0) != -ESRCH)
				_exit(2);
			/* a sanitizer's allocator locks may have been held at the fork */
			if (!SANITIZED)
				run_procs(procs, use_file_in_child, NULL);
			_exit(0);
		}
		CHECK_EQ(gmp_waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
		CHECK_EQ(gmp_pwrite(fd, "p", 1, 0), 1);
	}
	end();
}
