/* SPDX-License-Identifier: MIT */
/* Functions that the test clients of the servers of examples/ share. */
#include "peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t server_pid;
int server_port;

static const char *test_name = "(no test)";
static char **server_argv;       /* from the command line */
static char *server_options[16]; /* the client's own */
static int server_options_count;

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "FAILED %s: %s\n", test_name, what);
	if (server_pid > 0)
		kill(server_pid, SIGKILL);
	while (wait(NULL) > 0) /* tests that wait end by themselves, and then their servers */
		;
	exit(1);
}

/* ------------------------------------------------------------------ The server */

void add_server_option(char *option)
{
	if (server_options_count == sizeof(server_options) / sizeof(server_options[0]))
		fail("too many options");
	server_options[server_options_count++] = option;
}

static _Noreturn void become_server(void)
{
	char *argv[64];
	int argc = 0;

	for (char **arg = server_argv; *arg && argc < 40; arg++)
		argv[argc++] = *arg;
	for (int i = 0; i < server_options_count; i++)
		argv[argc++] = server_options[i];
	argv[argc] = NULL;
	for (int fd = 3; fd < 64; fd++)
		close(fd); /* what the client has open is nothing to the server */
	execv(argv[0], argv);
	_exit(127);
}

static bool can_be_read(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE * 1000) > 0;
}

void start_server(unsigned descriptors)
{
	char line[256];
	int out[2];
	FILE *f;

	if (pipe(out) != 0)
		fail("pipe");
	server_pid = fork();
	if (server_pid == 0) {
		struct rlimit limit = { descriptors, descriptors };

		if (descriptors > 0)
			setrlimit(RLIMIT_NOFILE, &limit);
		dup2(out[1], 1);
		become_server();
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	if (server_pid < 0 || !f || !can_be_read(out[0]) || !fgets(line, sizeof(line), f) ||
	    !strrchr(line, ':'))
		fail("the server does not start");
	server_port = atoi(strrchr(line, ':') + 1);
	fclose(f);
}

/* Print why the server may not have ended: whether the signal came, is blocked, has a
 * handler. */
static void print_state_of_server(void)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", server_pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "State", 5) == 0 || strstr(line, "Pnd:") ||
		    strncmp(line, "Sig", 3) == 0)
			fputs(line, stderr);
	if (f)
		fclose(f);
}

void expect_server_to_end(void)
{
	int status = -1;

	for (int i = 0; waitpid(server_pid, &status, WNOHANG) == 0; i++) {
		if (i == PATIENCE * 1000) {
			print_state_of_server();
			fail("the server does not end on SIGTERM");
		}
		sleep_ms(1);
	}
	server_pid = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail("the server does not end with 0 on SIGTERM");
}

void end_server(void)
{
	kill(server_pid, SIGTERM);
	expect_server_to_end();
}

/* Not counted is a ring: the runtime makes it when it first wants one, and keeps it. */
int count_descriptors(void)
{
	char path[64], target[32];
	struct dirent *e;
	ssize_t len;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", server_pid);
	d = opendir(path);
	if (!d)
		fail("no /proc");
	while ((e = readdir(d))) {
		len = readlinkat(dirfd(d), e->d_name, target, sizeof(target));
		n += len > 0 && strncmp(target, "anon_inode:[io_uring]", (size_t)len) != 0;
	}
	closedir(d);
	return n;
}

void wait_for_descriptors(int at_most)
{
	for (int i = 0; count_descriptors() > at_most; i++) {
		if (i == PATIENCE * 100)
			fail("descriptors are leaked");
		sleep_ms(10);
	}
}

/* ----------------------------------------------------------------- Connections */

/* Only between two polls of another process's state (its exit with a time limit, its descriptors),
 * or as a slow client: the server gives no event for them. */
void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

void set_patience(int fd)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

int connect_to_server(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_port = htons((uint16_t)server_port);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	set_patience(fd);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
		fail("cannot connect");
	return fd;
}

void send_bytes(int fd, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);

		if (sent < 0)
			fail("cannot send");
		at += sent;
		n -= (size_t)sent;
	}
}

void print_bytes(const char *what, const char *bytes, size_t n)
{
	fprintf(stderr, "%s \"", what);
	for (size_t i = 0; i < n && i < 300; i++) {
		unsigned char c = (unsigned char)bytes[i];

		fprintf(stderr, c < ' ' || c > '~' ? "\\x%02x" : "%c", c);
	}
	fprintf(stderr, "\" (%zu bytes)\n", n);
}

void expect_bytes(int fd, const void *wanted, size_t n)
{
	char *got = malloc(n + 1);
	size_t have = 0;

	while (have < n) {
		ssize_t r = recv(fd, got + have, n - have, 0);

		if (r <= 0)
			break;
		have += (size_t)r;
	}
	if (have != n || memcmp(got, wanted, n) != 0) {
		print_bytes("wanted", wanted, n);
		print_bytes("got   ", got, have);
		fail("a wrong answer");
	}
	free(got);
}

void expect_bytes_slowly(int fd, const char *wanted, size_t n, int seconds)
{
	enum { PIECE = 64 << 10 };
	size_t slow = (size_t)seconds * 3 * 4 * PIECE;

	if (slow > n)
		fail("too few bytes");
	for (size_t at = 0; at < slow; at += PIECE) {
		sleep_ms(250);
		expect_bytes(fd, wanted + at, PIECE);
	}
	expect_bytes(fd, wanted + slow, n - slow);
}

void make_garbage(char *bytes, size_t n)
{
	static uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		bytes[i] = (char)x;
	}
}

void expect_end(int fd)
{
	char c;

	if (recv(fd, &c, 1, 0) != 0)
		fail("the connection is not closed");
	close(fd);
}

void expect_reset(int fd)
{
	char c;

	if (recv(fd, &c, 1, 0) != -1 || errno != ECONNRESET)
		fail("the connection is not reset");
	close(fd);
}

void expect_reset_after_bytes(int fd)
{
	char bytes[4096];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		;
	if (n == 0)
		fail("an end of stream instead of a reset");
	if (errno != ECONNRESET)
		fail("the connection is not reset");
	close(fd);
}

void reset_connection(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* ----------------------------------------------------------------------- Tests */

static bool is_wanted(const char *name, int count, char **names)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return count == 0;
}

static void run_test(const struct test *t)
{
	test_name = t->name;
	fprintf(stderr, "%s\n", test_name);
	start_server(0);
	t->run();
	end_server();
}

/* The process of a test that waits, and what it prints. */
struct waiting {
	pid_t pid;
	FILE *output;
};

static struct waiting begin_waiting(const struct test *t)
{
	struct waiting w = { .output = tmpfile() };

	test_name = t->name;
	if (!w.output)
		fail("no temporary file");
	w.pid = fork();
	if (w.pid < 0)
		fail("fork");
	if (w.pid == 0) {
		dup2(fileno(w.output), 2);
		run_test(t);
		exit(0);
	}
	return w;
}

static void end_waiting(const struct test *t, struct waiting *w)
{
	char line[512];
	int status;

	test_name = t->name;
	if (waitpid(w->pid, &status, 0) != w->pid)
		fail("waitpid");
	rewind(w->output);
	while (fgets(line, sizeof(line), w->output))
		fputs(line, stderr);
	fclose(w->output);
	if (status != 0)
		fail("beside the others");
}

int run_tests(const struct test *tests, size_t n, int argc, char **argv)
{
	struct waiting waiting[16];
	size_t n_waiting = 0;
	int names = 0;

	while (1 + names < argc && strcmp(argv[1 + names], "--") != 0)
		names++;
	if (names + 2 >= argc) {
		fprintf(stderr, "usage: %s [TEST...] -- SERVER [OPTION...]\n", argv[0]);
		return 2;
	}
	server_argv = argv + names + 2;
	for (size_t i = 0; i < n; i++) {
		if (!tests[i].waits || !is_wanted(tests[i].name, names, argv + 1))
			continue;
		if (n_waiting == sizeof(waiting) / sizeof(waiting[0]))
			fail("too many tests that wait");
		waiting[n_waiting++] = begin_waiting(&tests[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (!tests[i].waits && is_wanted(tests[i].name, names, argv + 1))
			run_test(&tests[i]);
	n_waiting = 0;
	for (size_t i = 0; i < n; i++)
		if (tests[i].waits && is_wanted(tests[i].name, names, argv + 1))
			end_waiting(&tests[i], &waiting[n_waiting++]);
	fprintf(stderr, "all passed\n");
	return 0;
}

void expect_one_error(int fd, int status, const char *request)
{
	char bytes[4096], wanted[32];
	ssize_t n = recv(fd, bytes, sizeof(bytes) - 1, MSG_WAITALL);

	bytes[n > 0 ? n : 0] = '\0';
	snprintf(wanted, sizeof(wanted), "HTTP/1.1 %d ", status);
	if (n <= 0 || strncmp(bytes, wanted, strlen(wanted)) != 0 ||
	    !strstr(bytes, "\r\nConnection: close\r\n") || strstr(bytes + 1, "HTTP/1.1 ")) {
		print_bytes("got", bytes, n > 0 ? (size_t)n : 0);
		fail(request);
	}
	close(fd);
}

/* ------------------------------------------------------- The target of a proxy */

int target_listener;

void listen_as_target(void)
{
	static char to[32];
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(fd, 1000) != 0 || getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
		fail("cannot listen");
	set_patience(fd);
	snprintf(to, sizeof(to), "127.0.0.1:%d", ntohs(addr.sin_port));
	add_server_option("--to");
	add_server_option(to);
	target_listener = fd;
}

int accept_as_target(void)
{
	int fd = accept(target_listener, NULL, NULL);

	if (fd < 0)
		fail("the proxy does not dial");
	set_patience(fd);
	return fd;
}
