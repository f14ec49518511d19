/* SPDX-License-Identifier: MIT */
/* A program that uses each part of gmp once: exits with 0 if all parts work. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

/* Without stdio, which takes 8 KiB of a stack that may have 16 (small_stack.sh). */
static void must(int line, const char *call, long result)
{
	char text[128];

	if (result >= 0)
		return;
	snprintf(text, sizeof text, "everything: line %d: %s: %ld\n", line, call, result);
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		exit(2);
	exit(1);
}

#define MUST(x) must(__LINE__, #x, (long)(x))

enum { GREENS = 200, ROUNDS = 20 };

static gmp_mutex mutex;
static gmp_wg done;
static gmp_chan *chan;
static long sum;

static void adder(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		MUST(gmp_mutex_lock(&mutex));
		sum += (long)arg;
		MUST(gmp_mutex_unlock(&mutex));
		MUST(gmp_chan_send(chan, &i));
		gmp_yield();
	}
	gmp_wg_done(&done);
}

static void echo(void *arg)
{
	int fd = gmp_accept(*(int *)arg);
	char buf[16];

	MUST(fd);
	MUST(gmp_read_full(fd, buf, 5));
	MUST(gmp_write_all(fd, buf, 5));
	MUST(gmp_close(fd));
}

static void network(void)
{
	int fd, peer;
	char addr[64], buf[16];

	fd = gmp_listen("tcp", "127.0.0.1:0");
	if (fd == -EACCES || fd == -EAFNOSUPPORT)
		return;
	MUST(fd);
	MUST(gmp_local_addr(fd, addr, sizeof(addr)));
	MUST(gmp_go(echo, &fd));
	MUST(peer = gmp_dial("tcp", addr));
	MUST(gmp_write_all(peer, "hello", 5));
	if (gmp_read_full(peer, buf, 5) != 5 || memcmp(buf, "hello", 5) != 0)
		exit(1);
	MUST(gmp_close(peer));
	MUST(gmp_close(fd));
}

static void files(void)
{
	char name[] = "/tmp/gmp-hostile-XXXXXX", buf[8];
	int fd = mkstemp(name);

	if (fd < 0)
		return;
	close(fd);
	MUST(fd = gmp_open(name, O_RDWR, 0));
	MUST(gmp_pwrite(fd, "file", 4, 0));
	if (gmp_pread(fd, buf, 4, 0) != 4 || memcmp(buf, "file", 4) != 0)
		exit(1);
	MUST(gmp_fsync(fd));
	MUST(gmp_close(fd));
	unlink(name);
}

static void app(void *arg)
{
	long want = 0;
	int v;

	(void)arg;
	MUST((chan = gmp_chan_new(sizeof(int), 4)) ? 0 : -ENOMEM);
	gmp_wg_add(&done, GREENS);
	for (long i = 0; i < GREENS; i++) {
		MUST(gmp_go(adder, (void *)i));
		want += i * ROUNDS;
	}
	for (int i = 0; i < GREENS * ROUNDS; i++)
		MUST(gmp_chan_recv(chan, &v));
	MUST(gmp_wg_wait(&done));
	if (sum != want)
		exit(1);
	MUST(gmp_sleep(5 * GMP_MS));
	gmp_blocking(usleep(1000));
	network();
	files();
	gmp_chan_free(chan);
}

int main(void)
{
	MUST(gmp_run(app, NULL, NULL));
	MUST(gmp_start(NULL)); /* the same process, once more */
	MUST(gmp_stop());
	return 0;
}
