/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a release and a close of fds that belong to other connections now are
 * reported, and the program continues.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmp.h>

static int fd, waiting;

static void next_connection(void *arg)
{
	(void)arg;
	gmp_fd_adopt(fd);
	waiting = 1;
	gmp_fd_wait(fd, GMP_READ, GMP_FOREVER);
}

__attribute__((noinline)) int clean_up(void)
{
	int err = gmp_fd_release(fd);

	__asm__ volatile("");
	return err;
}

__attribute__((noinline)) int close_all(void)
{
	int err = gmp_close(fd);

	__asm__ volatile("");
	return err;
}

static void app(void *arg)
{
	int s[2], t[2], *status = arg;
	gmp_g *g;

	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	socketpair(AF_UNIX, SOCK_STREAM, 0, t);
	fd = gmp_fd_adopt(s[0]);
	dup2(t[0], fd); /* what a library does: close and reopen */
	gmp_spawn(&g, next_connection, NULL, NULL);
	while (!waiting)
		gmp_yield();
	*status |= clean_up() == 0;
	*status |= close_all() == 0;
	*status |= write(t[1], "x", 1) != 1;
	gmp_join(g);
	dup2(STDERR_FILENO, fd); /* once more, without an adoption */
	*status |= close_all() != 0;
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;
	int status = 0;

	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	return gmp_run(app, &status, &c) != 0 || status;
}
