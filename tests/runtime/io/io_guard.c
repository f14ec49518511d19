/* SPDX-License-Identifier: MIT */
/* Tests I/O calls with a buffer, iovec, message or address in the guard of the caller's stack. */
#include <sys/uio.h>

#include "io_util.h"

enum { SIZE = 64 << 10 };

static int a, b, file, listener;
static char message[] = "hello";

/* The address of an array as large as the stack: it begins in the guard, and ends in the stack. */
static char *whole_stack(void)
{
	return (char *)__builtin_frame_address(0) - SIZE;
}

static ssize_t receive(struct msghdr *m)
{
	return gmp_recvmsg(b, m, 0);
}

static ssize_t send_it(struct msghdr *m)
{
	return gmp_sendmsg(a, m, 0);
}

static void check_messages(char *low, ssize_t (*call)(struct msghdr *))
{
	struct iovec fine = { message, 1 }, wrong = { low, SIZE }, both[] = { fine, wrong };
	struct msghdr m = { .msg_iov = both, .msg_iovlen = 2 };

	CHECK_EQ(call(&m), -EFAULT);
	m.msg_iov = (struct iovec *)low;
	CHECK_EQ(call(&m), -EFAULT);
	m = (struct msghdr){ .msg_iov = &fine, .msg_iovlen = 1 };
	m.msg_name = low;
	m.msg_namelen = sizeof(struct sockaddr_un);
	CHECK_EQ(call(&m), -EFAULT);
	m.msg_name = NULL;
	m.msg_namelen = 0;
	m.msg_control = low;
	m.msg_controllen = 64;
	CHECK_EQ(call(&m), -EFAULT);
	CHECK_EQ(call((struct msghdr *)low), -EFAULT);
}

static void check_all(void)
{
	char *low = whole_stack(), c = 0;
	struct iovec v[] = { { &c, 1 }, { low, SIZE } };
	struct sockaddr_un un;
	socklen_t n = sizeof(un);

	CHECK_EQ(gmp_read(b, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_read(b, low, 1), -EFAULT);
	CHECK_EQ(gmp_read_full(b, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_write(a, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_write_all(a, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_readv(b, v, 2), -EFAULT);
	CHECK_EQ(gmp_writev(a, v, 2), -EFAULT);
	CHECK_EQ(gmp_readv(b, (struct iovec *)low, 2), -EFAULT);
	CHECK_EQ(gmp_writev(a, (struct iovec *)low, 2), -EFAULT);
	CHECK_EQ(gmp_recvfrom(b, low, SIZE, 0, NULL, NULL), -EFAULT);
	CHECK_EQ(gmp_recvfrom(b, &c, 1, 0, (struct sockaddr *)low, &n), -EFAULT);
	CHECK_EQ(gmp_recvfrom(b, &c, 1, 0, (struct sockaddr *)&un, (socklen_t *)low), -EFAULT);
	CHECK_EQ(gmp_sendto(a, low, SIZE, 0, NULL, 0), -EFAULT);
	CHECK_EQ(gmp_sendto(a, &c, 1, 0, (struct sockaddr *)low, n), -EFAULT);
	check_messages(low, receive);
	check_messages(low, send_it);
	CHECK_EQ(gmp_sendfile(a, file, (off_t *)low, 1), -EFAULT);
	CHECK_EQ(gmp_pread(file, low, SIZE, 0), -EFAULT);
	CHECK_EQ(gmp_pwrite(file, low, SIZE, 0), -EFAULT);
	CHECK_EQ(gmp_local_addr(a, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_peer_addr(a, low, SIZE), -EFAULT);
	CHECK_EQ(gmp_accept_from(listener, (struct sockaddr *)low, &n), -EFAULT);
	CHECK_EQ(gmp_accept_from(listener, (struct sockaddr *)&un, (socklen_t *)low), -EFAULT);
}

/* Checks that no call has transferred a byte or accepted the connection. */
static void check_untouched(void)
{
	char got[sizeof(message) + 1];
	int c = gmp_accept(listener);

	CHECK_EQ(gmp_write(a, message, sizeof(message)), sizeof(message));
	CHECK_EQ(gmp_recvfrom(b, got, sizeof(got), MSG_PEEK, NULL, NULL), sizeof(message));
	CHECK_EQ(gmp_read(b, got, sizeof(got)), sizeof(message));
	CHECK(memcmp(got, message, sizeof(message)) == 0);
	CHECK(c >= 0);
	CHECK_EQ(gmp_close(c), 0);
}

static void on_small_stack(gmp_fn fn)
{
	gmp_attr attr = GMP_ATTR_INIT;
	char path[] = "/tmp/gmp-guard-XXXXXX", addr[128];
	gmp_g *g;
	int fd = mkstemp(path), client;

	CHECK(fd >= 0);
	close(fd);
	file = gmp_open(path, O_RDWR, 0);
	CHECK(file >= 0);
	unlink(path);
	CHECK_EQ(gmp_pwrite(file, message, 1, 0), 1);
	make_pair("unix", &a, &b);
	listener = listen_any("tcp", addr);
	client = gmp_dial("tcp", addr);
	CHECK(client >= 0);
	attr.stack_size = SIZE;
	CHECK_EQ(gmp_spawn(&g, fn, NULL, &attr), 0);
	CHECK_EQ(gmp_join(g), 0);
	check_untouched();
	close_pair(a, b);
	close_pair(client, listener);
	CHECK_EQ(gmp_close(file), 0);
}

static void calls(UNUSED void *arg)
{
	check_all();
}

RT(buffer_in_stack_guard_returns_efault)
{
	on_small_stack(calls);
}

static void calls_in_blocking_code(UNUSED void *arg)
{
	gmp_block_enter();
	check_all();
	gmp_block_leave();
}

RT(buffer_in_stack_guard_in_blocking_code_returns_efault)
{
	on_small_stack(calls_in_blocking_code);
}

static void calls_with_buffer_in_stack(UNUSED void *arg)
{
	char *low = (char *)__builtin_frame_address(0) - SIZE / 2, c = 'x';

	/* the half of the stack below this frame is free */
	CHECK_EQ(gmp_write(a, &c, 1), 1);
	CHECK_EQ(gmp_recvfrom(b, low, 1, MSG_PEEK, NULL, NULL), 1);
	CHECK_EQ(gmp_read(b, low, 1), 1);
	CHECK_EQ(*low, 'x');
}

RT(buffer_in_stack_of_caller_is_filled)
{
	on_small_stack(calls_with_buffer_in_stack);
}
