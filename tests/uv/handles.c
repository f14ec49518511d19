/* SPDX-License-Identifier: MIT */
/*
 * Tests loops in green threads with each kind of handle and request. If a wakeup is lost, the case
 * does not end.
 */
#include <netinet/in.h>
#include <signal.h>

#include "uv_util.h"

/* --- async handles: a wakeup from any thread is seen --- */

enum { SENDERS = 4 };

struct counted {
	uv_async_t async; /* closed when `seen` is `all` */
	atomic_long sent;
	long seen, all, each;
};

static void count_sent(uv_async_t *a)
{
	struct counted *c = a->data;

	c->seen = atomic_load(&c->sent);
	if (c->seen == c->all && !uv_is_closing(HANDLE(a)))
		uv_close(HANDLE(a), NULL);
}

/* The next send follows only after the last one was seen, so that each of them must wake. */
static void send_counted(void *arg)
{
	struct counted *c = arg;

	for (long i = 0; i < c->each; i++) {
		atomic_fetch_add(&c->sent, 1);
		uv_async_send(&c->async);
		if (i % 8 == 0)
			gmp_yield();
	}
}

static void init_counted(struct counted *c, uv_loop_t *loop, long each)
{
	memset(c, 0, sizeof(*c));
	c->each = each;
	c->all = SENDERS * each;
	loop_init(loop);
	uv_async_init(loop, &c->async, count_sent);
	c->async.data = c;
}

RT(async_send_by_green_threads_wakes_the_loop)
{
	struct counted c;
	uv_loop_t loop;
	gmp_g *g[SENDERS];

	init_counted(&c, &loop, check_scaled(1000));
	for (int i = 0; i < SENDERS; i++)
		g[i] = spawn(send_counted, &c);
	run_out(&loop);
	for (int i = 0; i < SENDERS; i++)
		join(g[i]);
	CHECK_EQ(c.seen, c.all);
	loop_close(&loop);
}

RT(async_send_by_external_threads_wakes_the_loop)
{
	struct counted c;
	uv_loop_t loop;
	struct ext_thread t[SENDERS];

	init_counted(&c, &loop, check_scaled(1000));
	for (int i = 0; i < SENDERS; i++)
		ext_thread_start(&t[i], send_counted, &c);
	run_out(&loop);
	CHECK_EQ(c.seen, c.all);
	for (int i = 0; i < SENDERS; i++)
		ext_thread_join(&t[i]);
	loop_close(&loop);
}

/* --- a token goes round several loops: each wakeup is the only one --- */

enum { LOOPS = 5 };

struct place {
	uv_loop_t loop;
	uv_async_t async;
	struct place *next;
	atomic_long *rounds; /* left */
	gmp_g *g;
};

static void pass_on(uv_async_t *a)
{
	struct place *p = a->data;

	if (atomic_fetch_sub(p->rounds, 1) <= 0)
		uv_close(HANDLE(a), NULL);
	uv_async_send(&p->next->async);
}

static void run_place(void *arg)
{
	run_out(&((struct place *)arg)->loop);
}

RT(several_loops_wake_each_other)
{
	struct place places[LOOPS];
	atomic_long rounds = check_scaled(2000);

	for (int i = 0; i < LOOPS; i++) {
		struct place *p = &places[i];

		*p = (struct place){ .next = &places[(i + 1) % LOOPS], .rounds = &rounds };
		loop_init(&p->loop);
		uv_async_init(&p->loop, &p->async, pass_on);
		p->async.data = p;
	}
	for (int i = 0; i < LOOPS; i++)
		places[i].g = spawn(run_place, &places[i]);
	uv_async_send(&places[0].async);
	for (int i = 0; i < LOOPS; i++)
		join(places[i].g);
	for (int i = 0; i < LOOPS; i++)
		loop_close(&places[i].loop);
}

/* --- timers, idle, prepare, check --- */

struct phases {
	uv_timer_t timer;
	uv_idle_t idle;
	uv_prepare_t prepare;
	uv_check_t check;
	int timers, idles, prepares, checks;
};

static void on_phase_idle(uv_idle_t *h)
{
	struct phases *p = h->data;

	if (++p->idles == 10)
		uv_close(HANDLE(h), NULL);
}

static void on_phase_prepare(uv_prepare_t *h)
{
	struct phases *p = h->data;

	CHECK_EQ(p->checks, p->prepares);
	p->prepares++;
}

static void on_phase_check(uv_check_t *h)
{
	struct phases *p = h->data;

	p->checks++;
	CHECK_EQ(p->checks, p->prepares);
}

static void on_phase_timer(uv_timer_t *h)
{
	struct phases *p = h->data;

	if (++p->timers < 3)
		return;
	uv_close(HANDLE(h), NULL);
	uv_close(HANDLE(&p->prepare), NULL);
	uv_close(HANDLE(&p->check), NULL);
}

RT(timer_idle_prepare_check_run_in_order)
{
	struct phases p = { 0 };
	uv_loop_t loop;

	loop_init(&loop);
	uv_timer_init(&loop, &p.timer);
	uv_idle_init(&loop, &p.idle);
	uv_prepare_init(&loop, &p.prepare);
	uv_check_init(&loop, &p.check);
	p.timer.data = p.idle.data = p.prepare.data = p.check.data = &p;
	uv_timer_start(&p.timer, on_phase_timer, 1, 2);
	uv_idle_start(&p.idle, on_phase_idle);
	uv_prepare_start(&p.prepare, on_phase_prepare);
	uv_check_start(&p.check, on_phase_check);
	run_out(&loop);
	CHECK_EQ(p.timers, 3);
	CHECK_EQ(p.idles, 10);
	CHECK(p.checks >= 10);
	loop_close(&loop);
}

static void check_elapsed(uv_timer_t *t)
{
	int64_t *begun = t->data;

	CHECK(gmp_now() - *begun >= 19 * MS); /* libuv counts whole milliseconds */
	uv_close(HANDLE(t), NULL);
}

RT(timer_does_not_run_early)
{
	int64_t begun = gmp_now();
	uv_loop_t loop;
	uv_timer_t t;

	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, check_elapsed, 20, 0);
	t.data = &begun;
	run_out(&loop);
	loop_close(&loop);
}

/* --- tcp --- */

enum { CLIENTS = 8, LINES = 20 };

struct conn {
	uv_tcp_t tcp;
	uv_write_t write;
	char buf[64];
};

static void free_conn(uv_handle_t *h)
{
	free(h->data);
}

static void on_echoed(uv_write_t *w, int status)
{
	CHECK_EQ(status, 0);
	((struct conn *)w->data)->buf[0] = '\0';
}

static void on_alloc(uv_handle_t *h, UNUSED size_t size, uv_buf_t *buf)
{
	struct conn *c = h->data;

	*buf = uv_buf_init(c->buf, sizeof(c->buf));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = s->data;

	if (n < 0) {
		CHECK_EQ(n, UV_EOF);
		uv_close(HANDLE(s), free_conn);
		return;
	}
	uv_buf_t out = uv_buf_init(buf->base, (unsigned)n);

	c->write.data = c;
	CHECK_EQ(uv_write(&c->write, s, &out, 1, on_echoed), 0);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct conn *c = calloc(1, sizeof(*c));
	int *left = listener->data;

	CHECK_EQ(status, 0);
	CHECK(c != NULL);
	uv_tcp_init(listener->loop, &c->tcp);
	c->tcp.data = c;
	CHECK_EQ(uv_accept(listener, (uv_stream_t *)&c->tcp), 0);
	CHECK_EQ(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read), 0);
	if (--*left == 0)
		uv_close(HANDLE(listener), NULL);
}

/* Returns the port. */
static int listen_uv(uv_loop_t *loop, uv_tcp_t *listener, int *clients)
{
	struct sockaddr_in a;
	int length = sizeof(a);

	uv_tcp_init(loop, listener);
	uv_ip4_addr("127.0.0.1", 0, &a);
	CHECK_EQ(uv_tcp_bind(listener, (struct sockaddr *)&a, 0), 0);
	CHECK_EQ(uv_listen((uv_stream_t *)listener, 128, on_connection), 0);
	CHECK_EQ(uv_tcp_getsockname(listener, (struct sockaddr *)&a, &length), 0);
	listener->data = clients;
	return ntohs(a.sin_port);
}

/* Each line is sent after the answer to the one before. */
static void client(void *arg)
{
	char addr[32], line[24] = { 0 }, answer[24];
	int fd;

	snprintf(addr, sizeof(addr), "127.0.0.1:%d", *(int *)arg);
	fd = gmp_dial("tcp", addr);
	CHECK(fd >= 0);
	for (int i = 0; i < LINES; i++) {
		snprintf(line, sizeof(line), "line %10d", i);
		CHECK_EQ(gmp_write_all(fd, line, sizeof(line)), sizeof(line));
		CHECK_EQ(gmp_read_full(fd, answer, sizeof(answer)), sizeof(answer));
		CHECK_EQ(memcmp(line, answer, sizeof(line)), 0);
	}
	CHECK_EQ(gmp_close(fd), 0);
}

/* A connection is watched by a callback of the poll, so that the next one must enter it. */
RT(tcp_server_answers_green_threads)
{
	uv_loop_t loop;
	uv_tcp_t listener;
	int clients = CLIENTS, port;
	gmp_g *g[CLIENTS];

	loop_init(&loop);
	port = listen_uv(&loop, &listener, &clients);
	for (int i = 0; i < CLIENTS; i++)
		g[i] = spawn(client, &port);
	run_out(&loop);
	for (int i = 0; i < CLIENTS; i++)
		join(g[i]);
	loop_close(&loop);
}

/* --- pipes --- */

struct watched {
	uv_pipe_t pipe;
	uv_check_t check;
	uv_timer_t timer;
	int fd;
	char buf[8];
	int n;
};

static void on_pipe_alloc(uv_handle_t *h, UNUSED size_t size, uv_buf_t *buf)
{
	struct watched *w = h->data;

	*buf = uv_buf_init(w->buf, sizeof(w->buf));
}

static void on_pipe_read(uv_stream_t *s, ssize_t n, UNUSED const uv_buf_t *buf)
{
	struct watched *w = s->data;

	if (n < 0) {
		CHECK_EQ(n, UV_EOF);
		uv_close(HANDLE(s), NULL);
		return;
	}
	w->n += (int)n;
}

static void watch_pipe(uv_handle_t *h)
{
	struct watched *w = h->data;

	CHECK_EQ(uv_pipe_init(h->loop, &w->pipe, 0), 0);
	CHECK_EQ(uv_pipe_open(&w->pipe, w->fd), 0);
	w->pipe.data = w;
	CHECK_EQ(uv_read_start((uv_stream_t *)&w->pipe, on_pipe_alloc, on_pipe_read), 0);
}

static void close_and_watch(uv_check_t *h)
{
	uv_close(HANDLE(h), watch_pipe);
}

static void timer_to_wake(uv_timer_t *t)
{
	uv_close(HANDLE(t), NULL);
}

static void write_later(void *arg)
{
	int fd = *(int *)arg;

	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(write(fd, "abc", 3), 3);
	CHECK_EQ(close(fd), 0);
}

/* The close callback is the last thing that a round of the loop does before the loop parks. */
RT(descriptor_watched_by_close_callback_is_seen)
{
	struct watched w = { 0 };
	uv_loop_t loop;
	int fds[2];
	gmp_g *g;

	CHECK_EQ(pipe(fds), 0);
	w.fd = fds[0];
	loop_init(&loop);
	uv_check_init(&loop, &w.check);
	uv_timer_init(&loop, &w.timer);
	uv_timer_start(&w.timer, timer_to_wake, 1, 0);
	uv_check_start(&w.check, close_and_watch);
	w.check.data = &w;
	g = spawn(write_later, &fds[1]);
	run_out(&loop);
	CHECK_EQ(w.n, 3);
	join(g);
	loop_close(&loop);
}

/* --- the thread pool --- */

enum { JOBS = 50 };

struct jobs {
	uv_work_t work[JOBS];
	atomic_int worked;
	int finished;
};

static void on_work(uv_work_t *w)
{
	struct jobs *j = w->data;

	atomic_fetch_add(&j->worked, 1);
}

static void on_worked(uv_work_t *w, int status)
{
	struct jobs *j = w->data;

	CHECK_EQ(status, 0);
	j->finished++;
}

RT(queue_work_finishes_on_the_loop)
{
	static struct jobs j;
	uv_loop_t loop;

	memset(&j, 0, sizeof(j));
	loop_init(&loop);
	for (int i = 0; i < JOBS; i++) {
		j.work[i].data = &j;
		CHECK_EQ(uv_queue_work(&loop, &j.work[i], on_work, on_worked), 0);
	}
	run_out(&loop);
	CHECK_EQ(atomic_load(&j.worked), JOBS);
	CHECK_EQ(j.finished, JOBS);
	loop_close(&loop);
}

struct file {
	uv_fs_t req;
	uv_file fd;
	char buf[64];
	ssize_t n;
};

static void on_file_closed(uv_fs_t *req)
{
	CHECK_EQ(req->result, 0);
	uv_fs_req_cleanup(req);
}

static void on_file_read(uv_fs_t *req)
{
	struct file *f = req->data;

	f->n = req->result;
	uv_fs_req_cleanup(req);
	CHECK_EQ(uv_fs_close(req->loop, req, f->fd, on_file_closed), 0);
}

static void on_file_opened(uv_fs_t *req)
{
	struct file *f = req->data;
	uv_buf_t buf = uv_buf_init(f->buf, sizeof(f->buf));

	CHECK(req->result >= 0);
	f->fd = (uv_file)req->result;
	uv_fs_req_cleanup(req);
	CHECK_EQ(uv_fs_read(req->loop, req, f->fd, &buf, 1, 0, on_file_read), 0);
}

RT(fs_requests_read_a_file)
{
	struct file f = { .req.data = &f };
	uv_loop_t loop;

	loop_init(&loop);
	CHECK_EQ(uv_fs_open(&loop, &f.req, "/proc/self/stat", O_RDONLY, 0, on_file_opened), 0);
	run_out(&loop);
	CHECK(f.n > 0 && f.n <= (ssize_t)sizeof(f.buf));
	CHECK_EQ(strtol(f.buf, NULL, 10), getpid());
	loop_close(&loop);
}

static void on_address(uv_getaddrinfo_t *req, int status, struct addrinfo *res)
{
	CHECK_EQ(status, 0);
	*(int *)req->data = ntohs(((struct sockaddr_in *)res->ai_addr)->sin_port);
	uv_freeaddrinfo(res);
}

RT(getaddrinfo_finds_an_address)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_flags = AI_NUMERICHOST };
	int port = 0;
	uv_getaddrinfo_t req = { .data = &port };
	uv_loop_t loop;

	loop_init(&loop);
	CHECK_EQ(uv_getaddrinfo(&loop, &req, on_address, "127.0.0.1", "80", &hints), 0);
	run_out(&loop);
	CHECK_EQ(port, 80);
	loop_close(&loop);
}

/* --- signals and children --- */

static void on_signal(uv_signal_t *s, int signo)
{
	if (++*(int *)s->data == 3)
		uv_close(HANDLE(s), NULL);
	else
		CHECK_EQ(kill(getpid(), signo), 0);
}

RT(signal_handle_sees_each_signal)
{
	uv_loop_t loop;
	uv_signal_t s;
	int seen = 0;

	loop_init(&loop);
	uv_signal_init(&loop, &s);
	s.data = &seen;
	CHECK_EQ(uv_signal_start(&s, on_signal, SIGWINCH), 0);
	CHECK_EQ(kill(getpid(), SIGWINCH), 0);
	run_out(&loop);
	CHECK_EQ(seen, 3);
	loop_close(&loop);
}

struct child {
	uv_process_t process;
	struct watched out;
	int64_t status;
};

static void on_exit_of_child(uv_process_t *p, int64_t status, int signo)
{
	struct child *c = p->data;

	CHECK_EQ(signo, 0);
	c->status = status;
	uv_close(HANDLE(p), NULL);
}

RT(process_writes_and_ends)
{
	char *args[] = { "/bin/sh", "-c", "printf abcd; exit 7", NULL };
	struct child c = { .process.data = &c, .out.pipe.data = &c.out };
	uv_stdio_container_t io[2] = { { .flags = UV_IGNORE } };
	uv_process_options_t o = { .exit_cb = on_exit_of_child, .file = args[0], .args = args };
	uv_loop_t loop;

	loop_init(&loop);
	CHECK_EQ(uv_pipe_init(&loop, &c.out.pipe, 0), 0);
	c.out.pipe.data = &c.out;
	io[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	io[1].data.stream = (uv_stream_t *)&c.out.pipe;
	o.stdio = io;
	o.stdio_count = 2;
	CHECK_EQ(uv_spawn(&loop, &c.process, &o), 0);
	c.process.data = &c;
	CHECK_EQ(uv_read_start((uv_stream_t *)&c.out.pipe, on_pipe_alloc, on_pipe_read), 0);
	run_out(&loop);
	CHECK_EQ(c.status, 7);
	CHECK_EQ(c.out.n, 4);
	CHECK_EQ(memcmp(c.out.buf, "abcd", 4), 0);
	loop_close(&loop);
}
