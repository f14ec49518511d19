/* SPDX-License-Identifier: MIT */
/*
 * Functions that the test clients of the servers of examples/ share.
 *
 * A client runs its tests one after the other. Each gets a server of its own on a free port, talks
 * to it over plain blocking sockets, and ends it with SIGTERM, which must give status 0. Tests that
 * wait for seconds run beside the others, each in a process of its own.
 *
 *   CLIENT [TEST...] -- SERVER [OPTION...]
 */
#ifndef TESTS_EXAMPLES_PEER_H
#define TESTS_EXAMPLES_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PATIENCE 20 /* seconds until an answer that does not come is a failure */

struct test {
	const char *name;
	void (*run)(void);
	bool waits; /* most of its time, for a timeout of the server or as a slow client */
};
#define TEST_OF(function)                                                                          \
	{                                                                                          \
#function, function, false                                                         \
	}
#define TEST_THAT_WAITS(function)                                                                  \
	{                                                                                          \
#function, function, true                                                          \
	}

/* The main function of a client: the tests that argv names before "--", or all. The exit status. */
int run_tests(const struct test *tests, size_t n, int argc, char **argv);

_Noreturn void fail(const char *what);

/* ------------------------------------------------------------------ The server */

extern pid_t server_pid; /* 0: there is none */
extern int server_port;

/* Options that every server gets after those of the command line, as "--to", "127.0.0.1:80". */
void add_server_option(char *option);

/* With so many descriptors at most; 0: as many as we may have. */
void start_server(unsigned descriptors);
void end_server(void);
void expect_server_to_end(void); /* which has got SIGTERM: with status 0 */

int count_descriptors(void); /* of the server */
void wait_for_descriptors(int at_most);

/* ------------------------------------------------------- The target of a proxy */

extern int target_listener;

void listen_as_target(void); /* and gives each server the option --to */
int accept_as_target(void);
void expect_reset_after_bytes(int fd); /* discards what comes before; closes fd */

/* ----------------------------------------------------------------- Connections */

int connect_to_server(void);

/* For a socket that was got otherwise: calls on it fail after PATIENCE, and it does not collect. */
void set_patience(int fd);

void send_bytes(int fd, const void *bytes, size_t n);
void expect_bytes(int fd, const void *wanted, size_t n);
void make_garbage(char *bytes, size_t n); /* other bytes each time, the same in each run */

/* Read n of these bytes at 256 KiB a second, for three times as long as the server waits for
 * progress; then the rest at once. */
void expect_bytes_slowly(int fd, const char *wanted, size_t n, int seconds);

void expect_end(int fd);   /* the peer closes, in order; closes fd */
void expect_reset(int fd); /* the peer resets the connection; closes fd */
void reset_connection(int fd);
void print_bytes(const char *what, const char *bytes, size_t n);
void sleep_ms(long ms);

/* One HTTP response, with that status and "Connection: close", and then the end; closes fd. */
void expect_one_error(int fd, int status, const char *request);

#define SEND(fd, text) send_bytes(fd, text, sizeof(text) - 1)
#define EXPECT(fd, text) expect_bytes(fd, text, sizeof(text) - 1)

#endif
