/* SPDX-License-Identifier: MIT */
/*
 * Hostile clients of kvserver: each must cost the server and its other clients a bounded amount
 * only.
 *
 *   kvhostile [TEST...] -- KVSERVER [OPTION...]
 */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEGABYTE (1 << 20)

/* This client is built with the server's sanitizer, whose own memory grows with each free(). */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif
#define LATENCY_MOST                                                                               \
	2000 /* ms; a busy machine delays an answer too, but the faults took five times that */

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void ping(int fd)
{
	SEND(fd, "PING\r\n");
	EXPECT(fd, "+PONG\r\n");
}

static bool is_answered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* The resident memory of the server in MB, without pages that it shares. */
static long server_megabytes(void)
{
	char path[64], line[128];
	long kb = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", server_pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "RssAnon:", 8) == 0)
			kb = atol(line + 8);
	if (f)
		fclose(f);
	if (kb < 0)
		fail("no RssAnon");
	return kb / 1024;
}

static void set_value(int fd, const char *key, char byte, size_t n)
{
	char head[64];
	char *value = malloc(n);

	memset(value, byte, n);
	snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key,
		 n);
	send_bytes(fd, head, strlen(head));
	send_bytes(fd, value, n);
	SEND(fd, "\r\n");
	EXPECT(fd, "+OK\r\n");
	free(value);
}

static void expect_value(int fd, char byte, size_t n)
{
	char head[32];
	char *value = malloc(n);

	memset(value, byte, n);
	snprintf(head, sizeof(head), "$%zu\r\n", n);
	expect_bytes(fd, head, strlen(head));
	expect_bytes(fd, value, n);
	EXPECT(fd, "\r\n");
	free(value);
}

/* An MSET of n keys, which makes the i-th key with `make`, each of 16 bytes. */
static char *make_mset(size_t n, void (*make)(char *key, size_t i), size_t *len)
{
	char *text = malloc(64 + n * 32);
	char *at = text + sprintf(text, "*%zu\r\n$4\r\nMSET\r\n", 2 * n + 1);

	for (size_t i = 0; i < n; i++) {
		memcpy(at, "$16\r\n", 5);
		make(at + 5, i);
		memcpy(at + 21, "\r\n$1\r\nv\r\n", 9);
		at += 30;
	}
	*len = (size_t)(at - text);
	return text;
}

/* A hash that multiplies (first word ^ constant) by (second word ^ seed) is 0 for all of these. */
static void make_colliding_key(char *key, size_t i)
{
	const uint64_t factor = 0x9e3779b97f4a7c15u;
	const uint64_t number = i;

	memcpy(key, &factor, 8);
	memcpy(key + 8, &number, 8);
}

static void make_plain_key(char *key, size_t i)
{
	char text[32];

	snprintf(text, sizeof(text), "key:%012zu", i);
	memcpy(key, text, 16);
}

/* Send it, and one GET after another of a key among those until it is answered. Returns which part
 * of that time the slowest GET took; percent. */
static long run_beside_gets(int fd, int other, const char *mset, size_t len, const char *key)
{
	char get[64] = "*2\r\n$3\r\nGET\r\n$16\r\n";
	size_t n = strlen(get);
	long start = now_ms();
	long slowest = 0;
	int answers = 0;

	memcpy(get + n, key, 16);
	memcpy(get + n + 16, "\r\n", 2);
	n += 18;
	send_bytes(fd, mset, len);
	for (; !is_answered(fd); answers++) {
		long begun = now_ms();
		long took;

		ping(other);
		send_bytes(other, get, n);
		EXPECT(other, "$1\r\nv\r\n");
		took = now_ms() - begun;
		if (took > LATENCY_MOST)
			fail("another client has waited too long");
		slowest = took > slowest ? took : slowest;
	}
	start = now_ms() - start;
	fprintf(stderr, "  %d answers in %ld ms, the slowest after %ld ms\n", answers, start,
		slowest);
	EXPECT(fd, "+OK\r\n");
	return slowest * 100 / (start + 1);
}

static void keys_that_collide_in_unkeyed_hash_delay_no_client(void)
{
	enum { KEYS = 46000 };
	int fd = connect_to_server();
	int other = connect_to_server();
	char key[16];
	size_t len;
	char *mset = make_mset(1, make_colliding_key, &len);

	send_bytes(fd, mset, len);
	EXPECT(fd, "+OK\r\n");
	free(mset);
	mset = make_mset(KEYS, make_colliding_key, &len);
	make_colliding_key(key, 0);
	run_beside_gets(fd, other, mset, len, key);
	free(mset);
	close(other);
	close(fd);
}

static void long_mset_lets_other_clients_run(void)
{
	enum { KEYS = 500000 };
	int fd = connect_to_server();
	int other = connect_to_server();
	size_t len;
	char *mset = make_mset(1, make_plain_key, &len);
	char key[16];
	int answers;

	send_bytes(fd, mset, len);
	EXPECT(fd, "+OK\r\n");
	free(mset);
	mset = make_mset(KEYS, make_plain_key, &len);
	make_plain_key(key, 0);
	/* The server knows all but the end of it: what follows is the time of the command alone. */
	send_bytes(fd, mset, len - 1);
	sleep_ms(100);
	ping(other);
	if (run_beside_gets(fd, other, mset + len - 1, 1, key) > 60)
		fail("another client has waited for most of an MSET");
	SEND(fd, "DBSIZE\r\n");
	EXPECT(fd, ":500000\r\n");

	SEND(fd, "FLUSHALL\r\n");
	for (answers = 0; !is_answered(fd); answers++)
		ping(other);
	fprintf(stderr, "  %d answers meanwhile\n", answers);
	if (answers < 5)
		fail("other clients have waited for all of a FLUSHALL");
	EXPECT(fd, "+OK\r\n");
	SEND(fd, "DBSIZE\r\n");
	EXPECT(fd, ":0\r\n");
	free(mset);
	close(other);
	close(fd);
}

static bool has_event_loop; /* the server has --arch reactor */

/* While the server is stopped, a client sends `commands` and then another one asks for the counter
 * that they increment. Returns its value. */
static int count_before_other_client(int fd, int other, const char *commands, size_t n)
{
	char answer[32] = "";
	ssize_t len;

	SEND(fd, "SET counter 0\r\n");
	EXPECT(fd, "+OK\r\n");
	ping(other);
	kill(server_pid, SIGSTOP);
	send_bytes(fd, commands, n);
	SEND(other, "GET counter\r\n");
	kill(server_pid, SIGCONT);
	len = recv(other, answer, sizeof(answer) - 1, 0);
	if (len <= 0 || answer[0] != '$' || !strchr(answer, '\n'))
		fail("no counter");
	return atoi(strchr(answer, '\n') + 1);
}

/* The long request first makes the server's input buffer large, so that one read could take all of
 * the commands. */
static void event_loop_runs_limited_part_of_pipeline(void)
{
	enum { LONG = 60 * MEGABYTE, COUNT = 20000, LIMIT = 1000 };
	static const char incr[] = "INCR counter\r\n";
	int fd = connect_to_server();
	int other = connect_to_server();
	char *bytes = calloc(1, LONG);
	int count;

	if (!has_event_loop) {
		free(bytes);
		return;
	}
	SEND(fd, "*2\r\n$6\r\nEXISTS\r\n$62914560\r\n");
	send_bytes(fd, bytes, LONG);
	SEND(fd, "\r\n");
	EXPECT(fd, ":0\r\n");
	for (int i = 0; i < COUNT; i++)
		memcpy(bytes + (size_t)i * (sizeof(incr) - 1), incr, sizeof(incr) - 1);
	count = count_before_other_client(fd, other, bytes, COUNT * (sizeof(incr) - 1));
	fprintf(stderr, "  %d commands before another client's\n", count);
	if (count > LIMIT)
		fail("another client waits for a whole pipeline");
	for (int i = 1; i <= COUNT; i++) {
		char text[32];

		snprintf(text, sizeof(text), ":%d\r\n", i);
		expect_bytes(fd, text, strlen(text));
	}
	ping(fd);
	free(bytes);
	close(other);
	close(fd);
}

/* A child process discards the answers as fast as they come, so that the socket rarely becomes
 * full. */
static void event_loop_sends_limited_part_of_answers(void)
{
	enum { VALUE = 100000, COUNT = 3000, LIMIT = 25 }; /* one call sends 2 MiB at most */
	static const char pair[] = "GET v\r\nINCR counter\r\n";
	int fd = connect_to_server();
	int other = connect_to_server();
	char *bytes = malloc(COUNT * sizeof(pair));
	int count;
	pid_t pid;

	if (!has_event_loop) {
		free(bytes);
		return;
	}
	set_value(fd, "v", 'v', VALUE);
	for (int i = 0; i < COUNT; i++)
		memcpy(bytes + (size_t)i * (sizeof(pair) - 1), pair, sizeof(pair) - 1);
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		/* The parent reads the answer to SET first. */
		while (recv(fd, bytes, 1, MSG_PEEK) == 1 && *bytes != '$')
			sleep_ms(1);
		while (recv(fd, bytes, COUNT, MSG_TRUNC) > 0)
			;
		_exit(0);
	}
	count = count_before_other_client(fd, other, bytes, COUNT * (sizeof(pair) - 1));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fprintf(stderr, "  %d answers before another client's\n", count);
	if (count > LIMIT)
		fail("another client waits for many answers");
	free(bytes);
	close(other);
	close(fd);
}

/* Commands that do more than one step: the answers are the same as of one step. */
static void commands_of_many_steps_answer_once(void)
{
	enum { KEYS = 1000 };
	int fd = connect_to_server();
	size_t len;
	char *mset = make_mset(KEYS, make_plain_key, &len);
	char *keys = malloc(KEYS * 2 * 24);
	char head[64];
	size_t n = 0;

	send_bytes(fd, mset, len);
	EXPECT(fd, "+OK\r\n");
	for (size_t i = 0; i < 2 * KEYS; i++) { /* every other one is not there */
		memcpy(keys + n, "$16\r\n", 5);
		make_plain_key(keys + n + 5, i % 2 ? KEYS + i : i / 2);
		memcpy(keys + n + 21, "\r\n", 2);
		n += 23;
	}
	for (int pass = 0; pass < 4; pass++) {
		static const char *const names[] = { "EXISTS", "MGET", "DEL", "EXISTS" };

		snprintf(head, sizeof(head), "*%d\r\n$%zu\r\n%s\r\n", 2 * KEYS + 1,
			 strlen(names[pass]), names[pass]);
		send_bytes(fd, head, strlen(head));
		send_bytes(fd, keys, n);
		if (pass == 1) {
			EXPECT(fd, "*2000\r\n");
			for (int i = 0; i < KEYS; i++)
				EXPECT(fd, "$1\r\nv\r\n$-1\r\n");
		} else if (pass == 3) {
			EXPECT(fd, ":0\r\n");
		} else {
			EXPECT(fd, ":1000\r\n");
		}
	}
	ping(fd);
	free(keys);
	free(mset);
	close(fd);
}

/* An MGET of the same key `times` times, whose answer is not read until the memory has been
 * measured. */
static void check_mget(size_t size, int times)
{
	int fd = connect_to_server();
	int other = connect_to_server();
	char head[32];
	long before;
	long grown;

	set_value(fd, "k", 'v', size);
	before = server_megabytes();
	snprintf(head, sizeof(head), "*%d\r\n$4\r\nMGET\r\n", times + 1);
	send_bytes(fd, head, strlen(head));
	for (int i = 0; i < times; i++)
		SEND(fd, "$1\r\nk\r\n");
	sleep_ms(500);
	ping(other);
	grown = server_megabytes() - before;
	fprintf(stderr, "  %ld MB for an answer of %zu MB\n", grown, times * size / MEGABYTE);
	if (grown > 8 && !IS_SANITIZED)
		fail("an answer that is not read takes memory");
	snprintf(head, sizeof(head), "*%d\r\n", times);
	expect_bytes(fd, head, strlen(head));
	for (int i = 0; i < times; i++)
		expect_value(fd, 'v', size);
	ping(fd);
	close(other);
	close(fd);
}

static void mget_answers_take_bounded_memory(void)
{
	check_mget(MEGABYTE, 300);   /* sent from the table */
	check_mget(50 * 1024, 4000); /* copied */
}

/* Many clients that do not read share one value, which stays the same when its key changes. */
static void unread_values_are_shared(void)
{
	enum { CLIENTS = 16, SIZE = 24 * MEGABYTE };
	int fd = connect_to_server();
	int readers[CLIENTS];
	long before;
	long grown;

	set_value(fd, "k", 'a', SIZE);
	before = server_megabytes();
	for (int i = 0; i < CLIENTS; i++) {
		readers[i] = connect_to_server();
		SEND(readers[i], "GET k\r\n");
	}
	sleep_ms(500);
	grown = server_megabytes() - before;
	fprintf(stderr, "  %ld MB for %d answers of 24 MB\n", grown, CLIENTS);
	if (grown > 16 && !IS_SANITIZED)
		fail("answers that are not read take memory");
	set_value(fd, "k", 'b', SIZE);
	SEND(readers[0], "GET k\r\n");
	expect_value(readers[0], 'a', SIZE);
	expect_value(readers[0], 'b', SIZE);
	SEND(fd, "DEL k\r\n");
	EXPECT(fd, ":1\r\n");
	expect_value(readers[1], 'a', SIZE);
	for (int i = 0; i < CLIENTS; i++)
		close(readers[i]);
	ping(fd);
	close(fd);
}

static void requests_are_bounded(void)
{
	static const char *const requests[] = {
		"*1\r\n$67108865\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108860\r\n",
	};
	static const char *const answers[] = {
		"-ERR Protocol error: invalid bulk length\r\n",
		"-ERR Protocol error: too big request\r\n",
	};

	for (int i = 0; i < 2; i++) {
		int fd = connect_to_server();

		send_bytes(fd, requests[i], strlen(requests[i]));
		expect_bytes(fd, answers[i], strlen(answers[i]));
		expect_end(fd);
	}
}

/* ------------------------------------------------------------------- Timeouts */

/* Timeouts in seconds. Of an option that is given twice, the last one counts. */
static void restart_with(char *timeout, char *write_timeout)
{
	static char option_timeout[] = "--timeout", option_write[] = "--write-timeout";

	end_server();
	add_server_option(option_timeout);
	add_server_option(timeout);
	add_server_option(option_write);
	add_server_option(write_timeout);
	start_server(0);
}

static char never[] = "0", second[] = "1", two_seconds[] = "2";

static void idle_clients_are_closed(void)
{
	int before, silent, halfway, active;

	restart_with(second, never);
	before = count_descriptors();
	silent = connect_to_server();
	halfway = connect_to_server();
	active = connect_to_server();
	ping(halfway);
	SEND(halfway, "*2\r\n$3\r\nGET\r\n$5\r\nke");
	for (int i = 0; i < 15; i++) {
		ping(active);
		sleep_ms(200);
	}
	ping(active);
	expect_end(silent);
	expect_end(halfway);
	expect_end(active); /* from now on it is silent too */
	wait_for_descriptors(before);
}

static void clients_that_do_not_read_are_closed(void)
{
	int before, fd, half_closed;

	restart_with(never, second);
	before = count_descriptors();
	fd = connect_to_server();
	set_value(fd, "k", 'v', 16 * MEGABYTE);
	half_closed = connect_to_server();
	SEND(fd, "GET k\r\nGET k\r\n");
	SEND(half_closed, "GET k\r\nGET k\r\n");
	shutdown(half_closed, SHUT_WR);
	wait_for_descriptors(before);
	close(fd);
	close(half_closed);
}

/* It reads less in the timeout than makes a socket writable again. */
static void steady_slow_reader_gets_whole_value(void)
{
	enum { SIZE = 24 * MEGABYTE };
	char *value = malloc(SIZE);
	int fd;

	restart_with(never, two_seconds);
	fd = connect_to_server();
	memset(value, 'v', SIZE);
	set_value(fd, "k", 'v', SIZE);
	SEND(fd, "GET k\r\n");
	EXPECT(fd, "$25165824\r\n");
	expect_bytes_slowly(fd, value, SIZE, 2);
	EXPECT(fd, "\r\n");
	ping(fd);
	free(value);
	close(fd);
}

static const struct test tests[] = {
	TEST_OF(keys_that_collide_in_unkeyed_hash_delay_no_client),
	TEST_OF(long_mset_lets_other_clients_run),
	TEST_OF(event_loop_runs_limited_part_of_pipeline),
	TEST_OF(event_loop_sends_limited_part_of_answers),
	TEST_OF(commands_of_many_steps_answer_once),
	TEST_OF(mget_answers_take_bounded_memory),
	TEST_OF(unread_values_are_shared),
	TEST_OF(requests_are_bounded),
	TEST_THAT_WAITS(idle_clients_are_closed),
	TEST_THAT_WAITS(clients_that_do_not_read_are_closed),
	TEST_THAT_WAITS(steady_slow_reader_gets_whole_value),
};

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		has_event_loop |= strcmp(argv[i], "reactor") == 0;
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
