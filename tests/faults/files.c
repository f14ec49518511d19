/* SPDX-License-Identifier: MIT */
/* A failed file, child, name or signal operation reports its error and leaks nothing. */
#define _GNU_SOURCE 1
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void write_and_read(int fd)
{
	char buf[8];

	if (ASK(gmp_pwrite(fd, "12345678", 8, 0)) < 0)
		return;
	ASK(gmp_fsync(fd));
	if (ASK(gmp_pread(fd, buf, 8, 0)) == 8)
		CHECK(memcmp(buf, "12345678", 8) == 0);
}

static void use_file(void *arg)
{
	char path[] = "/tmp/gmp-faults-XXXXXX";
	int made = mkstemp(path), fd;

	(void)arg;
	CHECK(made >= 0);
	fd = (int)ASK(gmp_open(path, O_RDWR, 0));
	unlink(path);
	if (fd >= 0) {
		write_and_read(fd);
		ASK_ONCE(gmp_close(fd));
	}
	close(made);
}

SWEEP(file_write_and_read_succeed_or_report_error)
{
	in_run(procs, use_file, NULL);
}

SWEEP(file_write_and_read_without_io_uring_succeed)
{
	setenv("GMP_DEBUG", "nouring", 1);
	in_run(procs, use_file, NULL);
	unsetenv("GMP_DEBUG");
}

/* A FIFO can be polled: gmp_open returns a pollable fd. */
static void use_fifo(void *arg)
{
	char path[64], buf[4];

	(void)arg;
	snprintf(path, sizeof(path), "/tmp/gmp-faults-%d", (int)getpid());
	CHECK_EQ(mkfifo(path, 0600), 0);
	int fd = (int)ASK(gmp_open(path, O_RDWR, 0));

	unlink(path);
	if (fd < 0)
		return;
	gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(1000000));
	CHECK(gmp_read(fd, buf, 4) == -ETIMEDOUT || plan_fired());
	gmp_fd_set_deadline(fd, GMP_READ, GMP_FOREVER);
	if (ASK(gmp_write(fd, "1234", 4)) == 4 && ASK(gmp_read(fd, buf, 4)) == 4)
		CHECK(memcmp(buf, "1234", 4) == 0);
	ASK_ONCE(gmp_close(fd));
}

SWEEP(fifo_open_is_pollable_or_reports_error)
{
	in_run(procs, use_fifo, NULL);
}

static void copy_to_socket(void *arg)
{
	int p[2], in = memfd_create("in", MFD_CLOEXEC), arrived = 0;
	off_t at = 0;

	(void)arg;
	CHECK(in >= 0);
	CHECK_EQ(ftruncate(in, 4), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	int s = (int)ASK(gmp_fd_adopt(p[0]));

	if (s >= 0) {
		if (ASK(gmp_sendfile(s, in, &at, 4)) == 4)
			CHECK(ioctl(p[1], FIONREAD, &arrived) == 0 && arrived == 4);
		ASK_ONCE(gmp_close(s));
	} else {
		close(p[0]);
	}
	close(p[1]);
	close(in);
}

SWEEP(sendfile_sends_file_or_reports_error)
{
	in_run(procs, copy_to_socket, NULL);
}

static void wait_for_child(void *arg)
{
	int status = 0;
	pid_t pid = fork();

	(void)arg;
	CHECK(pid >= 0);
	if (pid == 0) {
		usleep(1000);
		_exit(7);
	}
	CHECK_EQ(ASK(gmp_waitpid(pid, &status, 0)), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

SWEEP(waitpid_without_pidfd_still_reaps_child)
{
	in_run(procs, wait_for_child, NULL);
}

static void receive_signal(void *arg)
{
	gmp_chan *c = ASK_PTR(gmp_chan_new(sizeof(int), 4));
	int signo;

	(void)arg;
	if (!c)
		return;
	if (ASK(gmp_signal_notify(c, SIGUSR1)) == 0) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(gmp_chan_recv(c, &signo), 0);
		CHECK_EQ(signo, SIGUSR1);
		CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	}
	gmp_chan_free(c);
}

SWEEP(signal_is_received_or_reports_error)
{
	in_run(procs, receive_signal, NULL);
}

static void look_up(void *arg)
{
	struct addrinfo *found = NULL;

	(void)arg;
	if (ASK(gmp_getaddrinfo("127.0.0.1", "80", NULL, &found)) == 0)
		freeaddrinfo(found);
	found = NULL;
	long err = gmp_getaddrinfo("localhost", NULL, NULL, &found);

	CHECK(err == 0 || plan_fired()); /* the error is EAI_AGAIN or EAI_MEMORY, no errno value */
	if (err == 0)
		freeaddrinfo(found);
}

SWEEP(getaddrinfo_finds_name_or_reports_error)
{
	in_run(procs, look_up, NULL);
}

static void sleep_long(void *arg)
{
	(void)arg;
	gmp_sleep(INT64_C(1000000000));
}

static void dump_run(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;
	int fd = memfd_create("dump", MFD_CLOEXEC);

	(void)arg;
	CHECK(fd >= 0);
	ASK(gmp_go(sleep_long, NULL));
	gmp_yield();
	ASK(gmp_dump(fd));
	CHECK_EQ(gmp_stats_get(&s), 0);
	close(fd);
}

SWEEP(dump_is_written_or_reports_error)
{
	in_run(procs, dump_run, NULL);
}
