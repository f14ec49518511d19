/* SPDX-License-Identifier: MIT */
/*
 * Measures the rows of the benchmarks that libuv can do.
 *
 * One loop runs on one thread.  The rows are timers, with times of whole milliseconds, and round
 * trips of a byte over pipes or a unix socket.  The servers with libuv are in bench/net.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <uv.h>

#include "peer.h"

static uv_loop_t *loop;

#define HOUR 3600000

static int64_t fired;

static void fire(uv_timer_t *t)
{
	(void)t;
	fired++;
}

static void reset(struct row *row)
{
	int64_t t0 = now();
	uv_timer_t t;

	uv_timer_init(loop, &t);
	for (int64_t i = 0; i < row->count; i++) {
		uv_update_time(loop);
		uv_timer_start(&t, fire, HOUR, 0);
		uv_timer_stop(&t);
	}
	took(row, now() - t0, row->count);
	check(fired == 0, "it fired");
}

static void freed(uv_handle_t *h)
{
	fired++;
	free(h);
}

/* Only the loop can free a handle, so run it once per timer. */
static void create(struct row *row)
{
	int64_t t0 = now();

	for (int64_t i = 0; i < row->count; i++) {
		uv_timer_t *t = malloc(sizeof(*t));

		uv_timer_init(loop, t);
		uv_timer_start(t, fire, HOUR, 0);
		uv_timer_stop(t);
		uv_close((uv_handle_t *)t, freed);
		uv_run(loop, UV_RUN_NOWAIT);
	}
	took(row, now() - t0, row->count);
	check(fired == row->count, "%lld freed", (long long)fired);
}

struct sleeper {
	uv_timer_t timer;
	int64_t wish, began, late;
};

static void wake(uv_timer_t *t)
{
	struct sleeper *s = (struct sleeper *)t;

	s->late = now() - s->began - s->wish;
	if (s->late < 0)
		uv_timer_start(t, wake, 1, 0); /* fired too early: the loop's clock is coarse */
	else
		fired++;
}

static int64_t cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

static void sleepers(struct row *row)
{
	struct sleeper *s = calloc((size_t)row->n, sizeof(*s));
	int64_t *late = calloc((size_t)row->n, sizeof(*late)), cpu = cpu_now();
	uint64_t x = FIRST_SLEEP;

	for (int64_t i = 0; i < row->n; i++) {
		s[i].wish = next_sleep(&x);
		uv_update_time(loop);
		s[i].began = now();
		uv_timer_init(loop, &s[i].timer);
		uv_timer_start(&s[i].timer, wake, (uint64_t)(s[i].wish / 1000000 + 1), 0);
	}
	uv_run(loop, UV_RUN_DEFAULT);
	value(row, "cpu", "ms", (double)(cpu_now() - cpu) / 1e6);
	check(fired == row->n, "%lld woke", (long long)fired);
	for (int64_t i = 0; i < row->n; i++)
		late[i] = s[i].late;
	report_lateness(row, late, row->n);
}

/* --- a byte back and forth --- */

struct end {
	uv_pipe_t in, out;
	uv_write_t req;
	char buf[64];
	unsigned char b;
};

static struct end ends[2];
static int64_t trips, most;

static void room(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	(void)size;
	*buf = uv_buf_init(((struct end *)h)->buf, sizeof(ends[0].buf));
}

static void send_byte(struct end *e)
{
	uv_buf_t buf = uv_buf_init((char *)&e->b, 1);

	check(uv_try_write((uv_stream_t *)&e->out, &buf, 1) == 1, "uv_try_write");
}

static void came(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct end *e = (struct end *)stream;

	check(n == 1, "read: %zd", n);
	if (e == &ends[0]) {
		check((unsigned char)buf->base[0] == (unsigned char)(e->b + 1), "got %d",
		      buf->base[0]);
		if (++trips == most) {
			uv_stop(loop);
			return;
		}
		e->b = (unsigned char)trips;
	} else {
		e->b = (unsigned char)(buf->base[0] + 1);
	}
	send_byte(e);
}

static void ping(struct row *row)
{
	int there[2], back[2];
	int64_t t0;

	if (!strcmp(row->name, "ping/unix")) {
		check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, there) == 0,
		      "socketpair");
		back[0] = dup(there[1]);
		back[1] = dup(there[0]);
	} else {
		check(pipe2(there, O_NONBLOCK) == 0 && pipe2(back, O_NONBLOCK) == 0, "pipe2");
	}
	for (int i = 0; i < 2; i++) {
		uv_pipe_init(loop, &ends[i].in, 0);
		uv_pipe_init(loop, &ends[i].out, 0);
	}
	uv_pipe_open(&ends[0].in, back[0]);
	uv_pipe_open(&ends[0].out, there[1]);
	uv_pipe_open(&ends[1].in, there[0]);
	uv_pipe_open(&ends[1].out, back[1]);
	most = row->count;
	for (int i = 0; i < 2; i++)
		check(uv_read_start((uv_stream_t *)&ends[i].in, room, came) == 0, "uv_read_start");
	t0 = now();
	send_byte(&ends[0]);
	uv_run(loop, UV_RUN_DEFAULT);
	took(row, now() - t0, row->count);
	check(trips == row->count, "%lld trips", (long long)trips);
}

static struct row rows[] = {
	{ "timer/reset", 1, reset, 0, 0 },        { "timer/create", 1, create, 0, 0 },
	{ "sleepers/100000", 2, sleepers, 0, 0 }, { "ping/pipe", 1, ping, 0, 0 },
	{ "ping/unix", 1, ping, 0, 0 },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("libuv %s\n", uv_version_string());
		return 0;
	}
	loop = uv_default_loop();
	return peer_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
