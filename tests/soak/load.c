/* SPDX-License-Identifier: MIT */
/*
 * Long-running load for the example servers, with good and bad clients; checks for fd leaks.
 *
 *   load SECONDS SEED ROUND_SECONDS FOLDER NAME:PORT:PID...
 *
 * NAME is echo (also behind a proxy), http (which serves the files of FOLDER; load makes them) or
 * kv. Good clients check every byte.  Bad clients send half a request, single bytes or nonsense,
 * read nothing, reset, or vanish silently.  Bad clients of kv also send keys that collide under an
 * unkeyed hash, request large answers and read nothing, or announce too large requests.  From time
 * to time a whole client process is killed.  At the end of each round all clients have ended; then
 * each server must soon have as many file descriptors as at the start.
 */
#define _GNU_SOURCE 1
#include "soak.h"

#include <linux/tcp.h>
#include <spawn.h>
#include <sys/stat.h>

enum { CLIENTS = 8, TARGETS = 8, SMALL_FILE = 300, LARGE_FILE = 300000, KEYS = 16 };

struct target {
	const char *name, *pid;
	char addr[32];
	int fds; /* of its process, before the first client */
};

#define HTTPD_WAITS (2 * SEC) /* its --timeout in scripts/soak */
#define KV_WAITS (5 * SEC)    /* the --timeout and --write-timeout of kvserver there */

static struct target targets[TARGETS];
static int ntargets;
static bool is_victim; /* is going to be killed */

static void nap(struct rng *r, unsigned us)
{
	gmp_sleep((int64_t)draw(r, us) * US);
}

/* The deadlines are long: only a hang exceeds them, also on a slow machine. */
static int dial(struct target *t, struct rng *r)
{
	int fd = gmp_dial_until("tcp", t->addr, gmp_deadline(PATIENCE / 2));

	if (fd < 0) {
		CHECK(is_short(fd) || fd == -ECONNRESET);
		nap(r, 20000);
		return fd;
	}
	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(PATIENCE / 2)), 0);
	return fd;
}

/* ------------------------------------------------------------- Good clients */

/* A connection with its unused input. */
struct stream {
	int fd;
	int64_t leaves_at; /* from then on the server may close by timeout; 0: never */
	bool left;         /* the server has closed */
	size_t start, end;
	char buf[8192];
};

/* Accepts an error as the timeout of the server, if this client was slow; otherwise fails. */
static void has_left(struct stream *s, const char *what, long result)
{
	if (s->leaves_at == 0 || gmp_now() < s->leaves_at)
		FAILED("%s: %ld", what, result);
	s->left = true;
}

/* Returns false if the server has closed by timeout. */
static bool fill_stream(struct stream *s)
{
	ssize_t n;

	if (s->start == s->end)
		s->start = s->end = 0;
	CHECK(s->end < sizeof(s->buf));
	n = gmp_read(s->fd, s->buf + s->end, sizeof(s->buf) - s->end);
	if (n > 0)
		s->end += (size_t)n;
	else
		has_left(s, "an answer ends", n);
	return n > 0;
}

/* Reads a line, without its end. */
static void read_line(struct stream *s, char *line, size_t size)
{
	char *end;

	line[0] = '\0';
	while (!(end = memmem(s->buf + s->start, s->end - s->start, "\r\n", 2))) {
		memmove(s->buf, s->buf + s->start, s->end - s->start);
		s->end -= s->start;
		s->start = 0;
		if (!fill_stream(s))
			return;
	}
	size_t n = (size_t)(end - s->buf) - s->start;

	CHECK(n < size);
	memcpy(line, s->buf + s->start, n);
	line[n] = '\0';
	s->start += n + 2;
}

/* Reads n bytes and checks the pattern. */
static void read_fill(struct stream *s, size_t n, unsigned salt)
{
	size_t done = 0;

	while (done < n) {
		size_t part;

		if (s->start == s->end && !fill_stream(s))
			return;
		part = s->end - s->start < n - done ? s->end - s->start : n - done;
		check_fill((unsigned char *)s->buf + s->start, part, salt, done);
		s->start += part;
		done += part;
	}
}

struct sending {
	int fd;
	size_t n;
	unsigned salt;
};

static void send_fill(void *arg)
{
	struct sending *s = arg;
	unsigned char buf[3000];

	for (size_t done = 0; done < s->n;) {
		size_t part = s->n - done < sizeof(buf) ? s->n - done : sizeof(buf);

		for (size_t i = 0; i < part; i++)
			buf[i] = (unsigned char)(s->salt + (done + i) * 7 + (done + i) / 251);
		CHECK_EQ(gmp_write_all(s->fd, buf, part), part);
		done += part;
	}
}

static void good_echo(struct target *t, struct rng *r)
{
	struct stream s = { .fd = dial(t, r) };
	char b;

	if (s.fd < 0)
		return;
	for (unsigned n = draw(r, 20); n > 0; n--) {
		struct sending q = { s.fd, 1 + (draw(r, 10) ? draw(r, 500) : draw(r, 500000)), n };
		gmp_g *g = spawn(send_fill, &q);

		read_fill(&s, q.n, q.salt);
		join(g);
	}
	if (draw(r, 2)) { /* a half-close is answered by the end of the stream */
		CHECK_EQ(gmp_shutdown(s.fd, SHUT_WR), 0);
		CHECK_EQ(gmp_read(s.fd, &b, 1), 0);
	}
	CHECK_EQ(gmp_close(s.fd), 0);
}

/* Sends the text at once or byte by byte. */
static void say(struct stream *s, struct rng *r, const char *text, size_t n)
{
	bool slowly = n < 300 && draw(r, 20) == 0;
	size_t most = slowly ? 1 : n;

	for (size_t done = 0; done < n && !s->left; done += most) {
		ssize_t sent = gmp_write_all(s->fd, text + done, most);

		if (sent != (ssize_t)most)
			has_left(s, "a request fails", sent);
		if (slowly && draw(r, 20) == 0)
			nap(r, 3000);
	}
}

static void read_http(struct stream *s, int kind)
{
	static const int statuses[] = { 200, 200, 404, 200 };
	char line[300];
	long status, length = -1;

	read_line(s, line, sizeof(line));
	if (s->left)
		return;
	CHECK(strncmp(line, "HTTP/1.1 ", 9) == 0);
	status = strtol(line + 9, NULL, 10);
	if (status == 408) {
		has_left(s, "too slow", status);
		return;
	}
	CHECK_EQ(status, statuses[kind]);
	for (;;) {
		read_line(s, line, sizeof(line));
		if (s->left)
			return;
		if (line[0] == '\0')
			break;
		if (strncasecmp(line, "Content-Length:", 15) == 0)
			length = strtol(line + 15, NULL, 10);
	}
	CHECK(length >= 0);
	if (kind == 2) { /* the error page */
		while (length-- > 0) {
			if (s->start == s->end && !fill_stream(s))
				return;
			s->start++;
		}
	} else if (kind == 3) {
		CHECK_EQ(length, LARGE_FILE);
	} else {
		CHECK_EQ(length, kind == 0 ? SMALL_FILE : LARGE_FILE);
		read_fill(s, (size_t)length, (unsigned)kind);
	}
}

static void good_http(struct target *t, struct rng *r)
{
	static const char *const requests[] = { "GET /small", "GET /large", "GET /none",
						"HEAD /large" };
	struct stream *s = malloc(sizeof(*s));
	int64_t begun;

	CHECK(s != NULL);
	memset(s, 0, sizeof(*s));
	begun = gmp_now();
	s->fd = dial(t, r);
	for (unsigned n = s->fd >= 0 ? draw(r, 20) : 0; n > 0 && !s->left; n--) {
		/* k requests in a pipeline */
		int kinds[8], k = draw(r, 3) ? 1 : 1 + (int)draw(r, 8);
		char text[1000];
		size_t length = 0;

		for (int i = 0; i < k; i++) {
			kinds[i] = (int)(draw(r, 4) ? 0 : draw(r, 4));
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s HTTP/1.1\r\nHost: soak\r\n\r\n",
						   requests[kinds[i]]);
		}
		/* The server waits for this request from some time after the one before on. */
		s->leaves_at = begun + HTTPD_WAITS;
		begun = gmp_now();
		say(s, r, text, length);
		for (int i = 0; i < k && !s->left; i++)
			read_http(s, kinds[i]);
	}
	if (s->fd >= 0)
		CHECK_EQ(gmp_close(s->fd), 0);
	free(s);
}

static void good_kv(struct target *t, struct rng *r)
{
	/* Each client has its own keys: the server may execute requests of a killed client late. */
	unsigned me = r->actor % 100 + (is_victim ? 100 * (1 + (unsigned)(soak_seed % 10)) : 0);
	int64_t begun = gmp_now();
	struct stream s = { .fd = dial(t, r) };
	char *text = malloc(4000), line[64];

	CHECK(text != NULL);
	for (unsigned n = s.fd >= 0 ? draw(r, 50) : 0; n > 0 && !s.left; n--) {
		unsigned key = draw(r, KEYS), salt = draw(r, 256);
		size_t size = draw(r, 1000);
		int at = snprintf(text, 4000, "*3\r\n$3\r\nSET\r\n$%d\r\n%04u:%02u\r\n$%zu\r\n", 7,
				  me, key, size);

		fill((unsigned char *)text + at, size, salt);
		at += (int)size;
		at += snprintf(text + at, 4000 - (size_t)at,
			       "\r\n*2\r\n$3\r\nGET\r\n$7\r\n%04u:%02u\r\n", me, key);
		/* The server waits for this request from some time after the one before on. */
		s.leaves_at = begun + KV_WAITS;
		begun = gmp_now();
		say(&s, r, text, (size_t)at);
		if (!s.left)
			read_line(&s, line, sizeof(line));
		if (s.left)
			break;
		CHECK(strcmp(line, "+OK") == 0);
		read_line(&s, line, sizeof(line));
		if (s.left)
			break;
		CHECK(line[0] == '$' && strtoul(line + 1, NULL, 10) == size);
		read_fill(&s, size, salt);
		if (!s.left)
			read_line(&s, line, sizeof(line));
		if (s.left)
			break;
		CHECK(line[0] == '\0');
		if (draw(r, 10) == 0) { /* a key that expires */
			at = snprintf(text, 4000, "SET gone:%u %u EX 1\r\n", draw(r, 2000), salt);
			say(&s, r, text, (size_t)at);
			if (!s.left)
				read_line(&s, line, sizeof(line));
			CHECK(s.left || strcmp(line, "+OK") == 0);
		}
	}
	if (s.fd >= 0)
		CHECK_EQ(gmp_close(s.fd), 0);
	free(text);
}

/* -------------------------------------------------------------- Bad clients */

/* Makes the kernel forget the connection without a packet to the server.  Needs privilege. */
static void vanish(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) != 0)
		reset_on_close(fd);
}

static const char *request_of(struct target *t)
{
	switch (t->name[0]) {
	case 'h': return "GET /large HTTP/1.1\r\nHost: soak\r\n\r\n";
	case 'k': return "*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n";
	default: return "some words that come back\r\n";
	}
}

/* MSET of keys that collide under an unkeyed hash; an answer in time shows that they do not. */
static void send_colliding_keys(int fd, struct rng *r)
{
	enum { KEYS = 5000, SIZE = 30 };
	const uint64_t factor = 0x9e3779b97f4a7c15u;
	char *text = malloc(64 + KEYS * SIZE), *at = text, answer[5];

	CHECK(text != NULL);
	at += sprintf(at, "*%d\r\n$4\r\nMSET\r\n", 2 * KEYS + 1);
	for (uint64_t i = 0; i < KEYS; i++, at += SIZE) {
		uint64_t number = i + draw(r, 2) * KEYS;

		memcpy(at, "$16\r\n", 5);
		memcpy(at + 5, &factor, 8);
		memcpy(at + 13, &number, 8);
		memcpy(at + 21, "\r\n$1\r\nv\r\n", 9);
	}
	if (gmp_write_all(fd, text, (size_t)(at - text)) == at - text)
		(void)gmp_read(fd, answer, sizeof(answer));
	free(text);
}

/* Two MGETs of a large value, 200 times each; the answers of 13 MB are not read. */
static void ask_for_much(int fd)
{
	enum { SIZE = 65000, TIMES = 200 };
	char *text = malloc(SIZE + 100), answer[5];
	int n = sprintf(text, "*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n", SIZE);

	CHECK(text != NULL);
	memset(text + n, 'v', SIZE);
	memcpy(text + n + SIZE, "\r\n", 2);
	if (gmp_write_all(fd, text, (size_t)n + SIZE + 2) > 0 &&
	    gmp_read(fd, answer, sizeof(answer)) > 0) {
		n = sprintf(text, "*%d\r\n$4\r\nMGET\r\n", TIMES + 1);
		for (int i = 0; i < TIMES; i++)
			n += sprintf(text + n, "$5\r\nlarge\r\n");
		(void)gmp_write_all(fd, text, (size_t)n);
		(void)gmp_write_all(fd, text, (size_t)n);
	}
	free(text);
}

/*
 * Sends half a request, a long command, or a request whose answer stays unread; then waits until
 * the server closes the connection or a deadline expires.
 */
static void bad_kv(struct target *t, struct rng *r)
{
	char byte;
	int fd = dial(t, r);

	if (fd < 0)
		return;
	gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(3 * SEC));
	switch (draw(r, 5)) {
	case 0: send_colliding_keys(fd, r); break;
	case 1: ask_for_much(fd); break;
	case 2: /* the same, then a half-close */
		ask_for_much(fd);
		(void)gmp_shutdown(fd, SHUT_WR);
		nap(r, 1000000);
		break;
	case 3: /* announces a too large request */
		(void)gmp_write(fd, "*2\r\n$67108864\r\n", 15);
		(void)gmp_read(fd, &byte, 1);
		break;
	default: /* idle after half a request, sometimes until the timeout of the server */
		(void)gmp_write(fd, "*2\r\n$3\r\nGET\r\n$4\r\nno", draw(r, 20));
		gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(draw(r, 4) ? SEC : 3 * KV_WAITS));
		(void)gmp_read(fd, &byte, 1);
		break;
	}
	if (draw(r, 4) == 0)
		vanish(fd);
	CHECK_EQ(gmp_close(fd), 0);
}

static void bad(struct target *t, struct rng *r)
{
	const char *request = request_of(t);
	size_t n = strlen(request);
	char buf[2000];
	int fd = dial(t, r);

	if (fd < 0)
		return;
	gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(draw(r, 3000) * MS));
	switch (draw(r, 7)) {
	case 0: /* a part of a request, then a long pause */
		(void)gmp_write(fd, request, draw(r, (unsigned)n));
		nap(r, 1000000);
		break;
	case 1: /* many requests; the answers stay unread */
		for (int i = 0; i < 2000 && gmp_write_all(fd, request, n) == (ssize_t)n; i++)
			;
		nap(r, 100000);
		break;
	case 2: /* the same; reads some answers byte by byte */
		for (int i = 0; i < 20; i++)
			(void)gmp_write_all(fd, request, n);
		for (int i = 0; i < 200 && gmp_read(fd, buf, 1) == 1; i++)
			nap(r, 2000);
		break;
	case 3: /* nonsense */
		for (size_t i = 0; i < sizeof(buf); i++)
			buf[i] = (char)draw(r, 256);
		(void)gmp_write_all(fd, buf, draw(r, sizeof(buf)));
		gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(100 * MS));
		while (gmp_read(fd, buf, sizeof(buf)) > 0)
			;
		break;
	case 4: /* resets in the middle of an answer */
		(void)gmp_write_all(fd, request, n);
		(void)gmp_read(fd, buf, 10);
		reset_on_close(fd);
		break;
	case 5: /* half-closes, then closes before the answer */
		(void)gmp_write_all(fd, request, n);
		(void)gmp_shutdown(fd, SHUT_WR);
		break;
	default: /* vanishes silently; httpd and kvserver have a timeout for that */
		(void)gmp_write_all(fd, request, draw(r, (unsigned)n));
		if (t->name[0] != 'e')
			vanish(fd);
		break;
	}
	CHECK_EQ(gmp_close(fd), 0);
}

/* Opens many connections and closes them unused. */
static void storm(struct target *t, struct rng *r)
{
	int fds[40], n = (int)draw(r, 40);

	for (int i = 0; i < n; i++)
		fds[i] = dial(t, r);
	for (int i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		if (draw(r, 2))
			reset_on_close(fds[i]);
		CHECK_EQ(gmp_close(fds[i]), 0);
	}
}

static void good(struct target *t, struct rng *r)
{
	switch (t->name[0]) {
	case 'h': good_http(t, r); break;
	case 'k': good_kv(t, r); break;
	default: good_echo(t, r);
	}
}

static void any_good(struct rng *r)
{
	good(&targets[draw(r, (unsigned)ntargets)], r);
}

static void any_bad(struct rng *r)
{
	bad(&targets[draw(r, (unsigned)ntargets)], r);
}

static void any_bad_kv(struct rng *r)
{
	struct target *t = &targets[draw(r, (unsigned)ntargets)];

	if (t->name[0] == 'k')
		bad_kv(t, r);
	nap(r, 50000);
}

static void any_storm(struct rng *r)
{
	storm(&targets[draw(r, (unsigned)ntargets)], r);
	nap(r, 50000);
}

/* ------------------------------------------------------- Processes of clients */

static char **arguments;

static void victims(struct rng *r)
{
	extern char **environ;
	char seed[32], *argv[TARGETS + 8];
	int n = 0, status;
	pid_t pid;

	snprintf(seed, sizeof(seed), "%u", draw(r, 1 << 30));
	argv[n++] = arguments[0];
	argv[n++] = (char *)"victim";
	argv[n++] = seed;
	for (int i = 3; arguments[i]; i++)
		argv[n++] = arguments[i];
	argv[n] = NULL;
	CHECK_EQ(gmp_blocking(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ)), 0);
	gmp_sleep(200 * MS + draw(r, 800) * MS);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	nap(r, 1000000);
}

/* ----------------------------------------------------------------------- Main */

static struct actor actors[] = {
	{ "good", any_good, 2 * CLIENTS, 0 }, { "bad", any_bad, CLIENTS, 0 },
	{ "storm", any_storm, 1, 0 },         { "bad kv", any_bad_kv, 2, 0 },
	{ "victims", victims, 1, 0 },
};
enum { ACTORS = sizeof(actors) / sizeof(actors[0]) };

static unsigned rounds_done;

static void make_file(const char *folder, const char *name, size_t n, unsigned salt)
{
	unsigned char *buf = malloc(n);
	char path[300];
	int fd;

	CHECK(buf != NULL);
	fill(buf, n, salt);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = gmp_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(gmp_write_all(fd, buf, n), n);
	CHECK_EQ(gmp_close(fd), 0);
	free(buf);
}

/* Waits, since servers observe closed connections late: packets and timeouts of httpd. */
static void check_servers(void)
{
	for (int i = 0; i < ntargets; i++) {
		int64_t limit = gmp_deadline(PATIENCE / 2);
		int n;

		while ((n = count_fds(targets[i].pid, false)) != targets[i].fds) {
			if (n < 0)
				FAILED("%s has died", targets[i].name);
			if (gmp_now() > limit) {
				(void)count_fds(targets[i].pid, true);
				FAILED("%s has %d descriptors, had %d at the start",
				       targets[i].name, n, targets[i].fds);
			}
			gmp_sleep(20 * MS);
		}
	}
}

static void app(void *arg)
{
	(void)arg;
	begin_run();
	if (is_victim) {
		actors[ACTORS - 1].n = 0;
		run_actors(actors, ACTORS, 0);
		return;
	}
	make_file(arguments[4], "small", SMALL_FILE, 0);
	make_file(arguments[4], "large", LARGE_FILE, 1);
	do {
		run_actors(actors, ACTORS, rounds_done++);
		check_nothing_is_left();
		check_servers();
	} while (gmp_now() < soak_end);
}

/* NAME:PORT:PID */
static void add_target(char *text)
{
	struct target *t = &targets[ntargets++];
	char *port = strchr(text, ':'), *pid = port ? strchr(port + 1, ':') : NULL;

	CHECK(pid != NULL && ntargets <= TARGETS);
	snprintf(t->addr, sizeof(t->addr), "127.0.0.1:%.*s", (int)(pid - port - 1), port + 1);
	t->name = text;
	t->pid = pid + 1;
	t->fds = count_fds(t->pid, false);
	CHECK(t->fds > 0);
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (argc < 6) {
		fputs("usage: load SECONDS SEED ROUND_SECONDS FOLDER NAME:PORT:PID...\n", stderr);
		return 2;
	}
	arguments = argv;
	is_victim = strcmp(argv[1], "victim") == 0;
	/* a process that is going to be killed must not end by itself */
	soak_begin("load", is_victim ? "0" : argv[1], argv[2], is_victim ? "3600" : argv[3],
		   !is_victim);
	for (int i = 5; i < argc; i++)
		add_target(argv[i]);
	c.procs = 2;
	c.seed = soak_seed;
	CHECK_EQ(gmp_run(app, NULL, &c), 0);
	print_actors(actors, ACTORS);
	printf("%s: %u rounds\n", soak_name, rounds_done);
	return 0;
}
