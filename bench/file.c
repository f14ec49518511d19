/* SPDX-License-Identifier: MIT */
/*
 * Measures gmp_pread and gmp_pwrite on files, and compares them with system calls in blocking code.
 *
 * "file/pread": reads 4 KiB that are in memory. "file/pwrite": writes 4 KiB to memory.
 * "file/synced 16": sixteen green threads each write 4 KiB to a file opened with O_SYNC, where
 * io_uring may help; time per write.  "... blocking": the system call itself in blocking code.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <gmp.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 4096, WRITERS_MAX = 64 };
enum { GMP, BLOCKING };

static char block[BLOCK];

static int open_file(int flags)
{
	char name[] = "/var/tmp/gmp-bench-XXXXXX"; /* on a disk; /tmp may be in memory */
	int fd = mkostemp(name, flags);

	bench_check(fd >= 0, "no file in /var/tmp");
	bench_check(unlink(name) == 0, "unlink");
	bench_check(pwrite(fd, block, BLOCK, 0) == BLOCK, "pwrite");
	bench_check(gmp_fd_adopt(fd) == fd, "gmp_fd_adopt");
	return fd;
}

static ssize_t read_block(int fd, char *buf, int mode)
{
	return mode == GMP ? gmp_pread(fd, buf, BLOCK, 0)
			   : gmp_blocking_sys(pread(fd, buf, BLOCK, 0));
}

static ssize_t write_block(int fd, int mode)
{
	return mode == GMP ? gmp_pwrite(fd, block, BLOCK, 0)
			   : gmp_blocking_sys(pwrite(fd, block, BLOCK, 0));
}

static void reads(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int fd = open_file(0);
	char buf[BLOCK];
	int64_t t0 = bench_clock();

	for (int64_t i = 0; i < c->count; i++)
		bench_check(read_block(fd, buf, c->mode) == BLOCK, "short read");
	bench_time(st, bench_clock() - t0, c->count);
	gmp_close(fd);
}

static void writes(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int fd = open_file(0);
	int64_t t0 = bench_clock();

	for (int64_t i = 0; i < c->count; i++)
		bench_check(write_block(fd, c->mode) == BLOCK, "short write");
	bench_time(st, bench_clock() - t0, c->count);
	gmp_close(fd);
}

/* --- to the disk --- */

static gmp_wg done;
static int64_t each;
static int mode;

static void write_through(void *arg)
{
	int fd = *(int *)arg;

	for (int64_t i = 0; i < each; i++)
		bench_check(write_block(fd, mode) == BLOCK, "short write");
	gmp_wg_done(&done);
}

static void synced(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int fd[WRITERS_MAX];

	for (int i = 0; i < c->n; i++)
		fd[i] = open_file(O_SYNC);
	each = c->count / c->n;
	mode = c->mode;
	gmp_wg_add(&done, (int)c->n);
	int64_t t0 = bench_clock();

	for (int i = 0; i < c->n; i++)
		bench_check(gmp_go(write_through, &fd[i]) == 0, "gmp_go");
	gmp_wg_wait(&done);
	bench_time(st, bench_clock() - t0, each * c->n);
	for (int i = 0; i < c->n; i++)
		gmp_close(fd[i]);
}

BENCH(reads, "file/pread", .procs = 1, .count = 200000, .mode = GMP);
BENCH(reads, "file/pread blocking", .procs = 1, .count = 200000, .mode = BLOCKING);
BENCH(writes, "file/pwrite", .procs = 1, .count = 100000, .mode = GMP);
BENCH(writes, "file/pwrite blocking", .procs = 1, .count = 100000, .mode = BLOCKING);
BENCH(synced, "file/synced 16", .procs = 1, .n = 16, .count = 1600, .mode = GMP);
BENCH(synced, "file/synced 16 blocking", .procs = 1, .n = 16, .count = 1600, .mode = BLOCKING);
