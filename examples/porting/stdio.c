/* SPDX-License-Identifier: MIT */
/*
 * Line server that keeps its stdio after a port to gmp: it uses FILEs over gmp_read and
 * gmp_write_all, logs to stderr, and ends on a signal.
 *
 *   $ porting_stdio 7000 &
 *   $ nc 127.0.0.1 7000         answers each line with its number and the line
 *
 * A connection that sends nothing for 30 seconds is closed. SIGTERM or SIGINT ends the server.
 * docs/porting.md explains the design. To compile it with the installed library:
 *
 *   $ cc -o porting_stdio stdio.c $(pkg-config --cflags --libs gmprt)
 */
#define _GNU_SOURCE /* fopencookie */
#include <errno.h>
#include <gmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1000, IDLE_SECONDS = 30 };

static ssize_t read_side(void *fd, char *buf, size_t n)
{
	ssize_t done;

	gmp_fd_set_deadline((int)(intptr_t)fd, GMP_READ, gmp_deadline(IDLE_SECONDS * GMP_S));
	done = gmp_read((int)(intptr_t)fd, buf, n);
	if (done >= 0)
		return done;
	*gmp_errno_here() = (int)-done;
	return -1;
}

static ssize_t write_side(void *fd, const char *buf, size_t n)
{
	ssize_t done = gmp_write_all((int)(intptr_t)fd, buf, n);

	if (done >= 0)
		return done;
	*gmp_errno_here() = (int)-done;
	return 0; /* not -1: fopencookie(3) */
}

static int close_side(void *fd)
{
	gmp_close((int)(intptr_t)fd);
	return 0;
}

/* The lock of a FILE belongs to an OS thread: these are used without. */
static FILE *open_side(int fd, const char *mode, cookie_io_functions_t calls)
{
	FILE *f = fopencookie((void *)(intptr_t)fd, mode, calls);

	if (f)
		__fsetlocking(f, FSETLOCKING_BYCALLER);
	return f;
}

static gmp_mutex log_lock;

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	gmp_mutex_lock(&log_lock);
	gmp_blocking(vfprintf(stderr, format, args));
	gmp_mutex_unlock(&log_lock);
	va_end(args);
}

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg, number = 0;
	FILE *in = open_side(fd, "r", (cookie_io_functions_t){ .read = read_side });
	FILE *out = open_side(fd, "w",
			      (cookie_io_functions_t){ .write = write_side, .close = close_side });
	char line[LONGEST];

	while (in && out && fgets(line, sizeof(line), in)) {
		fprintf(out, "%d %s", ++number, line);
		if (fflush(out) != 0)
			break;
	}
	if (in && ferror(in))
		log_line("porting_stdio: a connection ends after %d lines\n", number);
	if (in)
		fclose(in);
	if (out)
		fclose(out);
	else
		gmp_close(fd);
}

static gmp_chan *signals;

static void shut_down_at_signal(void *arg)
{
	int signo;

	gmp_chan_recv(signals, &signo);
	gmp_shutdown(*(int *)arg, SHUT_RDWR); /* ends this gmp_accept and each later one */
}

static void accept_clients(int listener)
{
	for (;;) {
		int fd = gmp_accept(listener);

		if (fd == -EINVAL || fd == -ECANCELED)
			break; /* shut down, or this green thread was cancelled */
		if (fd < 0)
			gmp_sleep(1 * GMP_S); /* out of descriptors: others give some back */
		else if (gmp_go(serve, (void *)(intptr_t)fd) != 0)
			gmp_close(fd);
	}
	gmp_close(listener);
}

static void die(const char *what, int err)
{
	fprintf(stderr, "porting_stdio: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void app(void *port)
{
	char addr[64];
	int listener;

	snprintf(addr, sizeof(addr), "127.0.0.1:%s", (char *)port);
	listener = gmp_listen("tcp", addr);
	if (listener < 0)
		die("listen", listener);
	signals = gmp_chan_new(sizeof(int), 1);
	if (!signals || gmp_signal_notify(signals, SIGTERM) || gmp_signal_notify(signals, SIGINT) ||
	    gmp_go(shut_down_at_signal, &listener))
		die("signals", -ENOMEM);
	gmp_local_addr(listener, addr, sizeof(addr));
	printf("listening on %s\n", addr);
	fflush(stdout);
	accept_clients(listener);
}

int main(int argc, char **argv)
{
	int err;

	if (argc != 2) {
		fprintf(stderr, "usage: porting_stdio PORT\n");
		return 2;
	}
	err = gmp_run(app, argv[1], NULL);
	if (err)
		die("gmp_run", err);
	return 0;
}
