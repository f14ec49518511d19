/* SPDX-License-Identifier: MIT */
/*
 * Tests kvserver: the bytes of the answer to each request, valid or not.
 *
 *   kvclient [TEST...] -- KVSERVER [OPTION...]
 *
 * What is sent and what must come back are written out in full, so that nothing of the server's own
 * code takes part in the judgement.
 */
#include "peer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void ping(int fd)
{
	SEND(fd, "PING\r\n");
	EXPECT(fd, "+PONG\r\n");
}

/* ----------------------------------------------------------------------- Tests */

struct exchange {
	const char *request;
	const char *answer;
};

static const struct exchange exchanges[] = {
	{ "PING\r\n", "+PONG\r\n" },
	{ "ping hi\r\n", "$2\r\nhi\r\n" },
	{ "PING a b\r\n", "-ERR wrong number of arguments for 'ping' command\r\n" },
	{ "*1\r\n$4\r\nPING\r\n", "+PONG\r\n" },
	{ "ECHO x\r\n", "$1\r\nx\r\n" },
	{ "ECHO\r\n", "-ERR wrong number of arguments for 'echo' command\r\n" },
	{ "ECHO \"\"\r\n", "$0\r\n\r\n" },

	{ "GET k\r\n", "$-1\r\n" },
	{ "SET k v\r\n", "+OK\r\n" },
	{ "GET k\r\n", "$1\r\nv\r\n" },
	{ "SET k \"\"\r\n", "+OK\r\n" },
	{ "GET k\r\n", "$0\r\n\r\n" },
	{ "SET \"\" empty\r\n", "+OK\r\n" },
	{ "GET \"\"\r\n", "$5\r\nempty\r\n" },
	{ "GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n" },
	{ "GET a b\r\n", "-ERR wrong number of arguments for 'get' command\r\n" },
	{ "SET k\r\n", "-ERR wrong number of arguments for 'set' command\r\n" },

	{ "SET k old\r\n", "+OK\r\n" },
	{ "SET k new NX\r\n", "$-1\r\n" },
	{ "GET k\r\n", "$3\r\nold\r\n" },
	{ "SET k new XX\r\n", "+OK\r\n" },
	{ "GET k\r\n", "$3\r\nnew\r\n" },
	{ "SET none x xx\r\n", "$-1\r\n" },
	{ "EXISTS none\r\n", ":0\r\n" },
	{ "SET none x nx\r\n", "+OK\r\n" },
	{ "EXISTS none\r\n", ":1\r\n" },
	{ "SET k v NX XX\r\n", "-ERR syntax error\r\n" },
	{ "SET k v EX 10 PX 10\r\n", "-ERR syntax error\r\n" },
	{ "SET k v EX\r\n", "-ERR syntax error\r\n" },
	{ "SET k v FOO\r\n", "-ERR syntax error\r\n" },
	{ "SET k v EX x\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "SET k v EX 0\r\n", "-ERR invalid expire time in 'set' command\r\n" },
	{ "SET k v PX -1\r\n", "-ERR invalid expire time in 'set' command\r\n" },
	{ "SET k v EX 9223372036854775807\r\n", "-ERR invalid expire time in 'set' command\r\n" },
	{ "SET k v EX 9223372036854775808\r\n",
	  "-ERR value is not an integer or out of range\r\n" },

	{ "SET k v EX 100\r\n", "+OK\r\n" },
	{ "TTL k\r\n", ":100\r\n" },
	{ "SET k v PX 100000 XX\r\n", "+OK\r\n" },
	{ "TTL k\r\n", ":100\r\n" },
	{ "SET k v\r\n", "+OK\r\n" },
	{ "TTL k\r\n", ":-1\r\n" },
	{ "TTL missing\r\n", ":-2\r\n" },
	{ "EXPIRE k 50\r\n", ":1\r\n" },
	{ "TTL k\r\n", ":50\r\n" },
	{ "EXPIRE missing 50\r\n", ":0\r\n" },
	{ "EXPIRE k x\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "EXPIRE k 9223372036854775807\r\n", "-ERR invalid expire time in 'expire' command\r\n" },
	{ "EXPIRE k -1\r\n", ":1\r\n" },
	{ "EXISTS k\r\n", ":0\r\n" },
	{ "SET k v\r\n", "+OK\r\n" },
	{ "EXPIRE k 0\r\n", ":1\r\n" },
	{ "GET k\r\n", "$-1\r\n" },
	{ "EXPIRE k\r\n", "-ERR wrong number of arguments for 'expire' command\r\n" },

	{ "INCR n\r\n", ":1\r\n" },
	{ "INCR n\r\n", ":2\r\n" },
	{ "GET n\r\n", "$1\r\n2\r\n" },
	{ "SET n 9\r\n", "+OK\r\n" },
	{ "INCR n\r\n", ":10\r\n" },
	{ "SET n -1\r\n", "+OK\r\n" },
	{ "INCR n\r\n", ":0\r\n" },
	{ "SET n -9223372036854775808\r\n", "+OK\r\n" },
	{ "INCR n\r\n", ":-9223372036854775807\r\n" },
	{ "SET n 9223372036854775807\r\n", "+OK\r\n" },
	{ "INCR n\r\n", "-ERR increment or decrement would overflow\r\n" },
	{ "SET n 9223372036854775808\r\n", "+OK\r\n" },
	{ "INCR n\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "SET n 01\r\n", "+OK\r\n" },
	{ "INCR n\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "SET n 5 EX 100\r\n", "+OK\r\n" },
	{ "INCR n\r\n", ":6\r\n" },
	{ "TTL n\r\n", ":100\r\n" },

	{ "FLUSHALL\r\n", "+OK\r\n" },
	{ "DBSIZE\r\n", ":0\r\n" },
	{ "MSET a 1 b 2 c 3 a 4\r\n", "+OK\r\n" },
	{ "MGET a b c d\r\n", "*4\r\n$1\r\n4\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n" },
	{ "MSET a 1 b\r\n", "-ERR wrong number of arguments for 'mset' command\r\n" },
	{ "DBSIZE\r\n", ":3\r\n" },
	{ "EXISTS a b a d\r\n", ":3\r\n" },
	{ "DEL a a b d\r\n", ":2\r\n" },
	{ "DBSIZE\r\n", ":1\r\n" },
	{ "FLUSHALL ASYNC\r\n", "+OK\r\n" },
	{ "FLUSHALL now\r\n", "-ERR syntax error\r\n" },
	{ "DBSIZE\r\n", ":0\r\n" },

	{ "SELECT 0\r\n", "+OK\r\n" },
	{ "SELECT 99\r\n", "-ERR DB index is out of range\r\n" },
	{ "SELECT x\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "CONFIG GET save\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n" },
	{ "config get APPENDONLY\r\n", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n" },
	{ "CONFIG GET nothing\r\n", "*0\r\n" },
	{ "CONFIG GET\r\n", "-ERR wrong number of arguments for 'config|get' command\r\n" },
	{ "CONFIG FOO\r\n", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP.\r\n" },
	{ "CLIENT SETNAME me\r\n", "+OK\r\n" },
	{ "CLIENT SETINFO lib-name me\r\n", "+OK\r\n" },
	{ "CLIENT foo\r\n", "-ERR unknown subcommand 'foo'. Try CLIENT HELP.\r\n" },
	{ "CLIENT\r\n", "-ERR wrong number of arguments for 'client' command\r\n" },
	{ "HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n" },
	{ "HELLO x\r\n", "-ERR Protocol version is not an integer or out of range\r\n" },
	{ "HELLO 2 foo\r\n", "-ERR Syntax error in HELLO option 'foo'\r\n" },
	{ "COMPUTE 1\r\n", ":1018463418\r\n" },
	{ "COMPUTE 1000000\r\nPING\r\n", ":848723116\r\n+PONG\r\n" },
	{ "COMPUTE 0\r\n", "-ERR rounds must be 1 to 1000000000\r\n" },
	{ "COMPUTE x\r\n", "-ERR value is not an integer or out of range\r\n" },
	{ "COMPUTE\r\n", "-ERR wrong number of arguments for 'compute' command\r\n" },
	{ "COMMAND\r\n", "*0\r\n" },
	{ "COMMAND DOCS\r\n", "*0\r\n" },
	{ "FOO\r\n", "-ERR unknown command 'FOO', with args beginning with: \r\n" },
	{ "foo a 'b c'\r\n",
	  "-ERR unknown command 'foo', with args beginning with: 'a' 'b c' \r\n" },
	{ "*2\r\n$3\r\nf\r\n\r\n$2\r\n\r\n\r\n",
	  "-ERR unknown command 'f  ', with args beginning with: '  ' \r\n" },

	/* Empty requests have no answer. */
	{ "\r\n\n*0\r\n*-1\r\n   \r\nPING\r\n", "+PONG\r\n" },
	/* Inline requests. */
	{ "  SET   k\t\"a\\x00\\n\\\"b\"  \r\n", "+OK\r\n" },
	{ "ECHO 'it\\'s \\n'\n", "$7\r\nit's \\n\r\n" },
	{ "ECHO \"\\x41\\t\\q\"\r\n", "$3\r\nA\tq\r\n" },
	{ "ECHO a'b'\r\n", "$2\r\nab\r\n" },
};

/* A time to live that was so many seconds: where others have had the CPU, some of them are over. */
static void expect_seconds_left(int fd, long most)
{
	char line[16];
	size_t n = 0;
	long left;

	do
		if (n == sizeof(line) - 1 || recv(fd, line + n, 1, 0) != 1)
			fail("no time to live");
	while (line[n++] != '\n');
	line[n] = '\0';
	left = atol(line + 1);
	if (line[0] != ':' || left > most || left < most - PATIENCE) {
		print_bytes("got   ", line, n);
		fail("another time to live");
	}
}

static void command_gets_its_documented_answer(void)
{
	int fd = connect_to_server();

	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++) {
		const struct exchange *e = &exchanges[i];

		print_bytes("  ", e->request, strlen(e->request));
		send_bytes(fd, e->request, strlen(e->request));
		if (strncmp(e->request, "TTL ", 4) == 0 && atol(e->answer + 1) > 0)
			expect_seconds_left(fd, atol(e->answer + 1));
		else
			expect_bytes(fd, e->answer, strlen(e->answer));
	}
	SEND(fd, "GET k\r\n");
	EXPECT(fd, "$5\r\na\0\n\"b\r\n");
	ping(fd); /* nothing came that was not asked for */
	SEND(fd, "QUIT\r\nPING\r\n");
	EXPECT(fd, "+OK\r\n");
	expect_end(fd);
}

static void value_of_any_bytes_is_kept(void)
{
	int fd = connect_to_server();
	char all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	SEND(fd, "*3\r\n$3\r\nSET\r\n$256\r\n");
	send_bytes(fd, all, sizeof(all));
	SEND(fd, "\r\n$256\r\n");
	send_bytes(fd, all, sizeof(all));
	SEND(fd, "\r\n*2\r\n$3\r\nGET\r\n$256\r\n");
	send_bytes(fd, all, sizeof(all));
	SEND(fd, "\r\n");
	EXPECT(fd, "+OK\r\n$256\r\n");
	expect_bytes(fd, all, sizeof(all));
	EXPECT(fd, "\r\n");
	close(fd);
}

#define PIPELINE                                                                                   \
	"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n$1\r\nPING\r\n*0\r\n"                             \
	"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nECHO 'a b'\r\n\r\n"                                         \
	"*-1\r\n*3\r\n$4\r\nMGET\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"
#define PIPELINE_ANSWER                                                                            \
	"+OK\r\n+PONG\r\n$4\r\n\r\n$1\r\n$3\r\na b\r\n*2\r\n$4\r\n\r\n$1\r\n$-1\r\n:1\r\n"

static void pipeline_cut_anywhere_gets_same_answers(void)
{
	int fd = connect_to_server();

	for (size_t cut = 0; cut < sizeof(PIPELINE); cut++) {
		send_bytes(fd, PIPELINE, cut);
		sleep_ms(1);
		send_bytes(fd, PIPELINE + cut, sizeof(PIPELINE) - 1 - cut);
		EXPECT(fd, PIPELINE_ANSWER);
	}
	for (size_t i = 0; i < sizeof(PIPELINE) - 1; i++) {
		send_bytes(fd, PIPELINE + i, 1);
		sleep_ms(1);
	}
	EXPECT(fd, PIPELINE_ANSWER);
	close(fd);
}

static const struct exchange faults[] = {
	{ "*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n" },
	{ "*\r\n", "-ERR Protocol error: invalid multibulk length\r\n" },
	{ "*1 \r\n", "-ERR Protocol error: invalid multibulk length\r\n" },
	{ "*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n" },
	{ "*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n" },
	{ "*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\n" },
	{ "*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n" },
	{ "*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n" },
	{ "*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n" },
	{ "*1\r\n$\r\n", "-ERR Protocol error: invalid bulk length\r\n" },
	{ "*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n" },
	{ "SET k \"v\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n" },
	{ "SET k 'v\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n" },
	{ "SET k \"v\"w\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n" },
	{ "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET x\r\n",
	  "-ERR wrong number of arguments for 'get' command\r\n" },
	{ "POST / HTTP/1.1\r\nSET k v\r\n\r\n", "" },
};

static void protocol_fault_is_named_and_ends_connection(void)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		int fd = connect_to_server();

		print_bytes("  ", faults[i].request, strlen(faults[i].request));
		SEND(fd, "PING\r\n");
		send_bytes(fd, faults[i].request, strlen(faults[i].request));
		SEND(fd, "PING\r\n");
		EXPECT(fd, "+PONG\r\n");
		expect_bytes(fd, faults[i].answer, strlen(faults[i].answer));
		expect_end(fd);
	}
}

static void line_without_end_is_refused(void)
{
	static const struct exchange starts[] = {
		{ "", "-ERR Protocol error: too big inline request\r\n" },
		{ "*", "-ERR Protocol error: too big mbulk count string\r\n" },
		{ "*1\r\n$", "-ERR Protocol error: too big bulk count string\r\n" },
	};
	static char ones[70000];

	memset(ones, '1', sizeof(ones));
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		int fd = connect_to_server();

		send_bytes(fd, starts[i].request, strlen(starts[i].request));
		send_bytes(fd, ones, sizeof(ones));
		expect_bytes(fd, starts[i].answer, strlen(starts[i].answer));
		expect_end(fd);
	}
}

static void garbage_disturbs_no_other_client(void)
{
	int other = connect_to_server();

	for (int i = 0; i < 200; i++) {
		int fd = connect_to_server();
		char bytes[2000];

		make_garbage(bytes, sizeof(bytes));
		if (i % 2)
			bytes[0] = '*';
		send_bytes(fd, bytes, sizeof(bytes));
		close(fd);
		ping(other);
	}
	close(other);
}

static void key_of_a_megabyte_is_found(void)
{
	enum { MEGABYTE = 1 << 20 };
	int fd = connect_to_server();
	char *key = malloc(MEGABYTE);

	for (size_t i = 0; i < MEGABYTE; i++)
		key[i] = (char)(i * 7 + i / 256);
	SEND(fd, "*3\r\n$3\r\nSET\r\n$1048576\r\n");
	send_bytes(fd, key, MEGABYTE);
	SEND(fd, "\r\n$1048576\r\n");
	send_bytes(fd, key, MEGABYTE);
	SEND(fd, "\r\n");
	EXPECT(fd, "+OK\r\n");
	SEND(fd, "*2\r\n$3\r\nGET\r\n$1048576\r\n");
	send_bytes(fd, key, MEGABYTE);
	SEND(fd, "\r\n");
	EXPECT(fd, "$1048576\r\n");
	expect_bytes(fd, key, MEGABYTE);
	EXPECT(fd, "\r\n");
	key[MEGABYTE - 1]++;
	SEND(fd, "*2\r\n$6\r\nEXISTS\r\n$1048576\r\n");
	send_bytes(fd, key, MEGABYTE);
	SEND(fd, "\r\nPING\r\n");
	EXPECT(fd, ":0\r\n+PONG\r\n");
	free(key);
	close(fd);
}

/* A request of as many arguments as there may be, and one of more. */
static void command_of_a_million_arguments_is_answered(void)
{
	enum { ARGS = 1 << 20 };
	static const char arg[] = "$1\r\nk\r\n";
	int fd = connect_to_server();
	char *args = malloc((ARGS - 1) * (sizeof(arg) - 1));

	for (size_t i = 0; i < ARGS - 1; i++)
		memcpy(args + i * (sizeof(arg) - 1), arg, sizeof(arg) - 1);
	SEND(fd, "SET k v\r\n*1048576\r\n$6\r\nEXISTS\r\n");
	send_bytes(fd, args, (ARGS - 1) * (sizeof(arg) - 1));
	EXPECT(fd, "+OK\r\n:1048575\r\n");
	free(args);
	SEND(fd, "*1048577\r\n");
	EXPECT(fd, "-ERR Protocol error: invalid multibulk length\r\n");
	expect_end(fd);
}

/* Only the key with a long time is asked for while it must exist: the others may end before the
 * server reads the question. */
static void key_with_expiry_ends_in_time(void)
{
	int fd = connect_to_server();

	SEND(fd, "SET a 1 PX 50\r\nSET b 1 PX 50\r\nSET c 1 EX 1\r\nSET d 1 EX 100\r\nGET d\r\n");
	EXPECT(fd, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\n1\r\n");
	sleep_ms(100);
	SEND(fd, "GET a\r\nTTL b\r\nEXISTS d\r\nSET a 2 XX\r\nSET b 2 NX\r\nDEL a b\r\n");
	EXPECT(fd, "$-1\r\n:-2\r\n:1\r\n$-1\r\n+OK\r\n:1\r\n");
	sleep_ms(1000);
	SEND(fd, "GET c\r\nEXISTS d\r\n");
	EXPECT(fd, "$-1\r\n:1\r\n");
	close(fd);
}

static void expired_keys_without_reader_are_removed(void)
{
	enum { KEYS = 20000, BATCH = 200 };
	int fd = connect_to_server();
	char requests[BATCH * 32];

	/* To wait for each answer takes a minute where others want the CPUs too. */
	for (int i = 0; i < KEYS; i += BATCH) {
		size_t len = 0;

		for (int k = i; k < i + BATCH; k++)
			len += (size_t)snprintf(requests + len, sizeof(requests) - len,
						"SET k%d v%s\r\n", k, k % 10 ? " PX 1" : "");
		send_bytes(fd, requests, len);
		for (int k = 0; k < BATCH; k++)
			EXPECT(fd, "+OK\r\n");
	}
	for (int i = 0; i < PATIENCE * 10; i++) {
		char answer[16];
		ssize_t n;

		sleep_ms(100);
		SEND(fd, "DBSIZE\r\n");
		n = recv(fd, answer, sizeof(answer) - 1, 0);
		if (n == 7 && memcmp(answer, ":2000\r\n", 7) == 0) {
			close(fd);
			return;
		}
	}
	fail("keys whose time is over stay");
}

/* Sends much, reads nothing for a while: only its own commands must wait. */
static void client_that_does_not_read_delays_no_other_client(void)
{
	enum { SIZE = 1 << 20, TIMES = 64 };
	int fd = connect_to_server();
	int other = connect_to_server();
	char *value = malloc(SIZE);

	memset(value, 'v', SIZE);
	SEND(fd, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n");
	send_bytes(fd, value, SIZE);
	SEND(fd, "\r\n");
	EXPECT(fd, "+OK\r\n");
	for (int i = 0; i < TIMES; i++)
		SEND(fd, "GET k\r\n");
	sleep_ms(50);
	for (int i = 0; i < 1000; i++)
		ping(other);
	for (int i = 0; i < TIMES; i++) {
		EXPECT(fd, "$1048576\r\n");
		expect_bytes(fd, value, SIZE);
		EXPECT(fd, "\r\n");
	}
	ping(fd);
	free(value);
	close(other);
	close(fd);
}

static void half_open_and_reset_connections_leak_nothing(void)
{
	int other = connect_to_server();
	int before;

	ping(other);
	before = count_descriptors();
	for (int i = 0; i < 500; i++) {
		int fd = connect_to_server();

		if (i % 3 == 0)
			SEND(fd, "*3\r\n$3\r\nSET\r\n$100\r\nincomplete");
		if (i % 3 == 1)
			SEND(fd, "GET k\r\nGET k\r\n");
		if (i % 2 == 0)
			reset_connection(fd);
		else
			close(fd);
	}
	ping(other);

	/* The sending side alone is closed: what was asked is still answered. */
	int fd = connect_to_server();

	SEND(fd, "PING\r\nPING\r\n*1\r\n$4\r\nPI");
	shutdown(fd, SHUT_WR);
	EXPECT(fd, "+PONG\r\n+PONG\r\n");
	expect_end(fd);
	wait_for_descriptors(before);
	close(other);
}

static void ten_thousand_connections_leak_nothing(void)
{
	enum { ALIVE = 400, TOTAL = 10000 };
	int fds[ALIVE];
	int before = count_descriptors();

	for (int round = 0; round < TOTAL / ALIVE; round++) {
		for (int i = 0; i < ALIVE; i++)
			fds[i] = connect_to_server();
		if (round % 5 == 0)
			for (int i = 0; i < ALIVE; i++)
				ping(fds[i]);
		for (int i = 0; i < ALIVE; i++)
			reset_connection(fds[i]);
	}
	wait_for_descriptors(before);
	fds[0] = connect_to_server();
	ping(fds[0]);
	close(fds[0]);
}

/* The server gets 40 descriptors, and three times as many clients. */
static void lack_of_descriptors_ends_and_next_client_is_served(void)
{
	enum { CLIENTS = 120 };
	int fds[CLIENTS];

	end_server();
	start_server(40);
	for (int i = 0; i < CLIENTS; i++)
		fds[i] = connect_to_server();
	ping(fds[0]);
	sleep_ms(100);
	ping(fds[0]);
	/* As the first ones go, the others are served, in the order in which they came. */
	for (int i = 0; i < CLIENTS; i++) {
		ping(fds[i]);
		close(fds[i]);
	}
}

static void sigterm_with_waiting_clients_ends_server(void)
{
	int idle = connect_to_server();
	int halfway = connect_to_server();
	int stuck = connect_to_server();
	static char value[1 << 16];

	ping(idle);
	ping(halfway); /* it has been accepted; otherwise its end is a reset */
	SEND(halfway, "*2\r\n$3\r\nGET\r\n$5\r\nke");
	memset(value, 'v', sizeof(value));
	SEND(stuck, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$65536\r\n");
	send_bytes(stuck, value, sizeof(value));
	SEND(stuck, "\r\n");
	for (int i = 0; i < 1000; i++)
		SEND(stuck, "GET k\r\n");
	sleep_ms(50);
	end_server();
	expect_end(idle);
	expect_end(halfway);
	close(stuck);
	start_server(0);
}

static const struct test tests[] = {
	TEST_OF(command_gets_its_documented_answer),
	TEST_OF(value_of_any_bytes_is_kept),
	TEST_OF(pipeline_cut_anywhere_gets_same_answers),
	TEST_OF(protocol_fault_is_named_and_ends_connection),
	TEST_OF(line_without_end_is_refused),
	TEST_OF(garbage_disturbs_no_other_client),
	TEST_OF(key_of_a_megabyte_is_found),
	TEST_OF(command_of_a_million_arguments_is_answered),
	TEST_OF(key_with_expiry_ends_in_time),
	TEST_OF(expired_keys_without_reader_are_removed),
	TEST_OF(client_that_does_not_read_delays_no_other_client),
	TEST_OF(half_open_and_reset_connections_leak_nothing),
	TEST_OF(ten_thousand_connections_leak_nothing),
	TEST_OF(lack_of_descriptors_ends_and_next_client_is_served),
	TEST_OF(sigterm_with_waiting_clients_ends_server),
};

int main(int argc, char **argv)
{
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
