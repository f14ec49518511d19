/* SPDX-License-Identifier: MIT */
/*
 * Tests proxy: every byte and the end of each stream are forwarded, both ways.
 *
 *   proxyclient [TEST...] -- PROXY [OPTION...]
 *
 * The test is both the client and the target.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct ends {
	int client;
	int target;
};

static struct ends connect_through(void)
{
	struct ends e = { .client = connect_to_server() };

	e.target = accept_as_target();
	return e;
}

static void exchange(struct ends e)
{
	SEND(e.client, "question");
	EXPECT(e.target, "question");
	SEND(e.target, "answer");
	EXPECT(e.client, "answer");
}

/* Like expect_end, but the other direction stays. */
static void expect_half_end(int fd)
{
	char c;

	if (recv(fd, &c, 1, 0) != 0)
		fail("the end of a stream is not passed on");
}

static void say_all_and_hear(int one, int other)
{
	SEND(one, "all I have to say");
	shutdown(one, SHUT_WR);
	EXPECT(other, "all I have to say");
	expect_half_end(other);
	for (int i = 0; i < 100; i++) {
		SEND(other, "and I still talk");
		EXPECT(one, "and I still talk");
	}
	close(other);
	expect_end(one);
}

static void half_closed_client_still_receives(void)
{
	struct ends e = connect_through();

	say_all_and_hear(e.client, e.target);
}

static void half_closed_target_still_receives(void)
{
	struct ends e = connect_through();

	say_all_and_hear(e.target, e.client);
}

/* Both send and receive at a time, more than all buffers between them hold. */
static void large_streams_both_ways_arrive_whole(void)
{
	enum { SIZE = 16 << 20 };
	struct ends e = connect_through();
	unsigned char *bytes = malloc(SIZE), *got[2] = { malloc(SIZE), malloc(SIZE) };
	size_t sent[2] = { 0 }, have[2] = { 0 };

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 7 + (i >> 8) * 3 + (i >> 16));
	while (have[0] < SIZE || have[1] < SIZE) {
		struct pollfd polled[2] = { { .fd = e.client }, { .fd = e.target } };

		for (int i = 0; i < 2; i++)
			polled[i].events = (short)(POLLIN | (sent[i] < SIZE ? POLLOUT : 0));
		if (poll(polled, 2, PATIENCE * 1000) <= 0)
			fail("no byte moves");
		for (int i = 0; i < 2; i++) {
			int fd = polled[i].fd;
			ssize_t n;

			if (polled[i].revents & POLLOUT) {
				n = send(fd, bytes + sent[i], SIZE - sent[i], MSG_DONTWAIT);
				sent[i] += n > 0 ? (size_t)n : 0;
			}
			if (polled[i].revents & POLLIN) {
				n = recv(fd, got[i] + have[i], SIZE - have[i], MSG_DONTWAIT);
				if (n == 0)
					fail("a stream ends early");
				have[i] += n > 0 ? (size_t)n : 0;
			}
		}
	}
	if (memcmp(got[0], bytes, SIZE) != 0 || memcmp(got[1], bytes, SIZE) != 0)
		fail("other bytes came than were sent");
	free(got[0]);
	free(got[1]);
	free(bytes);
	close(e.client);
	expect_end(e.target);
	close(e.target);
}

static void reset_of_one_side_resets_other_side(void)
{
	struct ends other = connect_through();

	for (int i = 0; i < 50; i++) {
		struct ends e = connect_through();

		exchange(e);
		if (i % 2) {
			reset_connection(e.client);
			expect_reset(e.target);
		} else {
			reset_connection(e.target);
			expect_reset(e.client);
		}
		exchange(other);
	}
	close(other.client);
	expect_end(other.target);
}

/* The proxy writes to the side that is reset, and the other side sends. */
static void reset_under_load_is_no_end_of_stream(void)
{
	static char much[1 << 16];

	for (int i = 0; i < 100; i++) {
		struct ends e = connect_through();
		ssize_t n;
		char c;

		for (int k = 0; k < 200; k++)
			if (send(e.target, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
				break;
		reset_connection(e.client);
		n = recv(e.target, &c, 1, 0);
		if (n != -1 || errno != ECONNRESET)
			fail("a reset becomes an end of stream");
		close(e.target);
	}
}

static void concurrent_connections_keep_their_streams(void)
{
	enum { MANY = 400 };
	struct ends e[MANY];
	int before = count_descriptors();

	for (int i = 0; i < MANY; i++)
		e[i] = connect_through();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MANY; i++)
			send_bytes(e[i].client, &i, sizeof(i));
		for (int i = 0; i < MANY; i++)
			expect_bytes(e[i].target, &i, sizeof(i));
		for (int i = 0; i < MANY; i++)
			send_bytes(e[i].target, &i, sizeof(i));
		for (int i = 0; i < MANY; i++)
			expect_bytes(e[i].client, &i, sizeof(i));
	}
	for (int i = 0; i < MANY; i++) {
		if (i % 3 == 0) {
			reset_connection(e[i].client);
			expect_reset(e[i].target);
		} else {
			close(i % 3 == 1 ? e[i].client : e[i].target);
			expect_end(i % 3 == 1 ? e[i].target : e[i].client);
		}
	}
	wait_for_descriptors(before);
}

/* The target's end of the client's connection, after the connections whose clients have gone; -1 if
 * the client was refused. It has sent a byte. */
static int accept_from(int client)
{
	struct pollfd p[2] = { { .fd = target_listener, .events = POLLIN },
			       { .fd = client, .events = POLLIN } };

	for (;;) {
		char first;

		if (poll(p, 2, PATIENCE * 1000) <= 0)
			fail("a client is neither served nor sent away");
		if (!p[0].revents)
			return -1;
		int accepted = accept(target_listener, NULL, NULL);

		if (accepted < 0)
			fail("cannot accept");
		set_patience(accepted);
		if (recv(accepted, &first, 1, 0) == 1)
			return accepted;
		close(accepted);
	}
}

/* Twenty pairs of descriptors and sixty clients: some wait, some are sent away, and when all have
 * gone the next one is served. */
static void lack_of_descriptors_ends_and_next_client_is_served(void)
{
	enum { CLIENTS = 60 };
	struct pollfd polled = { .fd = target_listener, .events = POLLIN };
	int fds[CLIENTS];
	int client, accepted;
	int before;

	end_server();
	start_server(40);
	before = count_descriptors();
	for (int i = 0; i < CLIENTS; i++)
		fds[i] = connect_to_server();
	sleep_ms(100);
	for (int i = 0; i < CLIENTS; i++)
		reset_connection(fds[i]);
	/* The proxy may not have closed them all yet, and send one more away. */
	for (int i = 0;; i++) {
		client = connect_to_server();
		send(client, "question", 8, MSG_NOSIGNAL);
		accepted = accept_from(client);
		if (accepted >= 0)
			break;
		if (i == PATIENCE * 100)
			fail("no client is served any more");
		close(client);
		sleep_ms(10);
	}
	EXPECT(accepted, "uestion");
	SEND(accepted, "answer");
	EXPECT(client, "answer");
	close(client);
	close(accepted);
	wait_for_descriptors(before);
	while (poll(&polled, 1, 0) > 0)
		close(accept(target_listener, NULL, NULL));
}

/* A stream that the end of the proxy cuts off must not look complete. */
static void sigterm_with_open_streams_resets_them(void)
{
	static char much[1 << 16];
	struct ends idle = connect_through();
	struct ends half = connect_through();
	struct ends stuck = connect_through();

	exchange(idle);
	shutdown(half.client, SHUT_WR);
	expect_half_end(half.target);
	while (send(stuck.client, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	end_server();
	expect_reset(idle.client);
	expect_reset(idle.target);
	expect_reset(half.client);
	close(half.target);
	close(stuck.client);
	close(stuck.target);
	start_server(0);
}

static const struct test tests[] = {
	TEST_OF(half_closed_client_still_receives),
	TEST_OF(half_closed_target_still_receives),
	TEST_OF(large_streams_both_ways_arrive_whole),
	TEST_OF(reset_of_one_side_resets_other_side),
	TEST_OF(reset_under_load_is_no_end_of_stream),
	TEST_OF(concurrent_connections_keep_their_streams),
	TEST_OF(lack_of_descriptors_ends_and_next_client_is_served),
	TEST_OF(sigterm_with_open_streams_resets_them),
};

int main(int argc, char **argv)
{
	listen_as_target();
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
