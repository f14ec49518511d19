/* SPDX-License-Identifier: MIT */
/* Actors for names, children and signals (actors.h). */
#ifndef TESTS_SOAK_ACTORS_OUTSIDE_H
#define TESTS_SOAK_ACTORS_OUTSIDE_H

/* ------------------------------------------------- Names, children, signals */

static void names(struct rng *r)
{
	const char *host = draw(r, 4) ? "localhost" : "127.0.0.1";
	struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM };
	int err;

	if (draw(r, 2))
		err = gmp_getaddrinfo(host, "80", &hints, &found);
	else
		err = gmp_getaddrinfo_until(host, "80", &hints, &found,
					    gmp_deadline(draw(r, 2000) * US));
	if (err == 0)
		freeaddrinfo(found);
	else /* without a free fd, libc cannot read its files and reports any of these */
		CHECK(err == EAI_AGAIN || err == EAI_SYSTEM || err == EAI_NONAME ||
		      err == EAI_MEMORY || err == EAI_FAIL);
	nap(r, 5000);
}

static int pipes(int *from, int *to)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return -errno;
	*from = p[0];
	*to = p[1];
	return 0;
}

struct cat_child {
	int to;
	size_t n;
};

static void feed(void *arg)
{
	struct cat_child *c = arg;
	unsigned char buf[1000];
	size_t done = 0;

	while (done < c->n) {
		size_t part = c->n - done < sizeof(buf) ? c->n - done : sizeof(buf);

		for (size_t i = 0; i < part; i++)
			buf[i] = (unsigned char)(5 + (done + i) * 7 + (done + i) / 251);
		CHECK_EQ(gmp_write_all(c->to, buf, part), part);
		done += part;
	}
	CHECK_EQ(gmp_close(c->to), 0);
}

static pid_t start_program(char *const argv[], int in, int out)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int err;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	err = gmp_blocking(posix_spawnp(&pid, argv[0], &actions, &attr, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return err ? -err : pid;
}

static void children(struct rng *r)
{
	char *cat[] = { "cat", NULL }, *sleeper[] = { "sleep", "100", NULL };
	int in = -1, out = -1, to = -1, from = -1, status = -1, wanted = (int)draw(r, 100);
	unsigned char buf[1000];
	struct cat_child c;
	gmp_g *feeder;
	ssize_t n;
	size_t got = 0;
	pid_t pid;

	switch (draw(r, 3)) {
	case 0: /* a fork while all other actors run */
		pid = fork();
		CHECK(pid >= 0 || is_short(-errno));
		if (pid == 0)
			_exit(wanted);
		if (pid > 0) {
			CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
		}
		break;
	case 1: /* a child that is killed */
		pid = start_program(sleeper, -1, -1);
		if (pid > 0) {
			nap(r, 2000);
			CHECK_EQ(kill(pid, SIGKILL), 0);
			CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
			CHECK(WIFSIGNALED(status));
		} else {
			CHECK(is_short(pid));
		}
		break;
	default: /* through a child and back */
		if (pipes(&in, &to) == 0 && pipes(&from, &out) == 0) {
			CHECK_EQ(gmp_fd_adopt(to), to);
			CHECK_EQ(gmp_fd_adopt(from), from);
			pid = start_program(cat, in, out);
			CHECK(pid > 0 || is_short(pid));
			close(in);
			close(out);
			in = out = -1;
			if (pid > 0) {
				c = (struct cat_child){ to, draw(r, 200000) };
				feeder = spawn(feed, &c);
				while ((n = gmp_read(from, buf, sizeof(buf))) > 0) {
					check_fill(buf, (size_t)n, 5, got);
					got += (size_t)n;
				}
				CHECK_EQ(n, 0);
				CHECK_EQ(got, c.n);
				join(feeder);
				to = -1;
				CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
				CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			}
			if (to >= 0)
				CHECK_EQ(gmp_close(to), 0);
			CHECK_EQ(gmp_close(from), 0);
			to = from = -1;
		}
		if (in >= 0)
			close(in);
		if (to >= 0)
			close(to);
		break;
	}
	nap(r, 10000);
}

static void on_signal(int signo)
{
	(void)signo; /* a late signal must not kill the process */
}

static void signals(struct rng *r)
{
	int signo = draw(r, 2) ? SIGUSR1 : SIGUSR2, got;
	gmp_chan *c = gmp_chan_new(sizeof(int), 1 + draw(r, 3));

	CHECK(c != NULL);
	got = gmp_signal_notify(c, signo);
	if (got == 0) {
		for (unsigned n = draw(r, 5); n > 0; n--) {
			CHECK_EQ(kill(getpid(), signo), 0);
			CHECK_EQ(gmp_chan_recv_until(c, &got, gmp_deadline(PATIENCE / 2)), 0);
			CHECK_EQ(got, signo);
		}
		CHECK_EQ(gmp_signal_stop(c, signo), 0);
	} else {
		CHECK(is_short(got));
	}
	gmp_chan_free(c);
	nap(r, 2000);
}

/* Sends a signal every 100 us or 10 ms for a while: interrupted calls must continue. */
static void interrupts(struct rng *r)
{
	long us = draw(r, 4) ? 10000 : 100;
	struct itimerval v = { { 0, us }, { 0, us } }, none = { { 0, 0 }, { 0, 0 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &v, NULL), 0);
	nap(r, 200000);
	CHECK_EQ(setitimer(ITIMER_REAL, &none, NULL), 0);
	nap(r, 300000);
}

#endif
