/* SPDX-License-Identifier: MIT */
/*
 * gmp-top: shows what the green threads of a running program do, in a terminal.
 *
 *   $ gmp-top 127.0.0.1:6060
 *   $ gmp-top -b -n 2 6060
 *
 * It polls GET /debug/vars of the program's debug server, and shows a sample beside the one before.
 *
 * TOP-1  Every wait is top_wait: for the server, for the next sample, and while paused. Keys and
 *        signals are therefore served while an answer is outstanding.
 * TOP-2  Signals that end the program or change the size are blocked, and read from a signalfd.
 */
#include "http.h"
#include "screen.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define BATCH_COLUMNS 100
#define FOREVER INT64_MAX

static const char usage_text[] =
	"usage: gmp-top [-b] [-d SECONDS] [-n COUNT] ADDR\n"
	"\n"
	"Shows what the green threads of a running gmp program do. The program must have\n"
	"called gmp_debug_listen. ADDR is host:port, [v6]:port, :port or port (127.0.0.1).\n"
	"\n"
	"  -b          batch mode: plain text to standard output\n"
	"  -d SECONDS  between two samples, 0.1 to 60 (1)\n"
	"  -n COUNT    stop after so many samples\n"
	"  -h          this text\n"
	"  --version   the version\n"
	"\n"
	"Exit status: 0; 1 if the program cannot be asked; 2 for wrong usage.\n";

struct top {
	struct http_address address;
	struct view view;
	bool batch;
	long count; /* samples to take, 0 without a limit */
	int signals;
	bool help;
	bool quit;
	bool lost;       /* the terminal is gone */
	bool impatient;  /* a key ends the pause before the next sample */
	int have;        /* samples in `samples`: 0, 1, 2 */
	int at;          /* the index of the last one */
	char error[600]; /* why there is no new sample */
	char end[800];   /* why the program ends with status 1 */
};

static struct sample samples[2];
static struct page page;

static int fail(struct top *top, const char *what, int error)
{
	snprintf(top->end, sizeof(top->end), "%s: %s", what, strerror(error));
	return -error;
}

/* -------------------------------------------------------------------- Drawing */

static void build(struct top *top, int columns)
{
	const struct sample *now = top->have ? &samples[top->at] : NULL;
	const struct sample *before = top->have == 2 ? &samples[!top->at] : NULL;

	top->view.error = top->error;
	if (top->help)
		view_help(&page, columns);
	else
		view_build(&page, &top->view, now, before, columns);
}

static void draw(struct top *top)
{
	build(top, screen_columns());
	screen_draw(&page);
}

/* Print the page, and an empty line behind it. Returns false if standard output fails. */
static bool print(struct top *top)
{
	build(top, BATCH_COLUMNS);
	for (int i = 0; i < page.count; i++) {
		int columns = 2 * BATCH_COLUMNS;
		size_t n = text_fit(page.lines[i].text, &columns);

		while (n > 0 && page.lines[i].text[n - 1] == ' ')
			n--;
		printf("%.*s\n", (int)n, page.lines[i].text);
	}
	putchar('\n');
	return fflush(stdout) == 0;
}

/* ----------------------------------------------------------- Keys and signals */

static void change_interval(struct top *top, int by)
{
	static const int64_t steps[] = { SECOND / 10, SECOND / 5,  SECOND / 2,
					 SECOND,      2 * SECOND,  5 * SECOND,
					 10 * SECOND, 30 * SECOND, 60 * SECOND };
	int n = sizeof(steps) / sizeof(steps[0]);
	int i = 0;

	if (by > 0) {
		while (i < n - 1 && steps[i] <= top->view.interval)
			i++;
	} else {
		for (i = n - 1; i > 0 && steps[i] >= top->view.interval;)
			i--;
	}
	top->view.interval = steps[i];
	top->impatient = true;
}

static void serve_key(struct top *top, enum key key)
{
	struct view *v = &top->view;

	switch (key) {
	case KEY_IS_QUIT: top->quit = true; break;
	case KEY_IS_HELP: top->help = !top->help; break;
	case KEY_IS_MORE: change_interval(top, 1); break;
	case KEY_IS_LESS: change_interval(top, -1); break;
	case KEY_IS_PAUSE:
		v->paused = !v->paused;
		top->impatient = true;
		break;
	case KEY_IS_CPU:
		v->by_total = v->wait_first ? v->by_total : !v->by_total;
		v->wait_first = false;
		break;
	case KEY_IS_WAIT:
		v->by_id = v->wait_first ? !v->by_id : v->by_id;
		v->wait_first = true;
		break;
	default: break;
	}
}

static void serve_keys(struct top *top)
{
	enum key key;

	while ((key = screen_key()) != KEY_IS_NONE)
		serve_key(top, key);
	draw(top);
}

static void serve_signal(struct top *top)
{
	struct signalfd_siginfo info;

	if (read(top->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGWINCH) {
		top->quit = true;
	} else if (!top->batch) {
		screen_resize();
		draw(top);
	}
}

/* Milliseconds until the deadline for poll, rounded up. */
static int poll_time(int64_t deadline)
{
	int64_t left = deadline - http_now();

	if (deadline == FOREVER)
		return -1;
	return left <= 0 ? 0 : (int)((left + 999999) / 1000000);
}

/* As http_wait; fd may be -1. Serves keys and signals meanwhile. */
static int top_wait(void *arg, int fd, short events, int64_t deadline)
{
	struct top *top = arg;
	struct pollfd fds[3] = {
		{ .fd = top->signals, .events = POLLIN },
		{ .fd = top->batch ? -1 : STDIN_FILENO, .events = POLLIN },
		{ .fd = fd, .events = events },
	};

	while (!top->quit) {
		int n = poll(fds, 3, poll_time(deadline));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		if (fds[0].revents)
			serve_signal(top);
		if (fds[1].revents & (POLLHUP | POLLERR | POLLNVAL))
			top->quit = top->lost = true;
		else if (fds[1].revents)
			serve_keys(top);
		if (fds[2].revents)
			return 0;
		if (fd < 0 && top->impatient)
			return -ETIMEDOUT;
	}
	return -EINTR;
}

static bool take_signals(struct top *top)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	top->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return top->signals >= 0;
}

/* -------------------------------------------------------------------- Samples */

/* Take a sample. Returns 0, -EINTR, or another negative errno value with top->error set. */
static int take(struct top *top)
{
	struct http_wait wait = { top_wait, top };
	struct http_answer answer;
	int64_t lease = top->view.interval / SECOND + 4; /* so that the next sample is in it */
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/debug/vars?cputime=%d",
		 lease < 5    ? 5
		 : lease > 60 ? 60
			      : (int)lease);
	error = http_get(&top->address, path, &wait, &answer);
	if (error == 0) {
		if (sample_parse(&samples[!top->at], answer.body, answer.length, top->error,
				 sizeof(top->error))) {
			top->at = !top->at;
			top->have = top->have < 2 ? top->have + 1 : 2;
			top->error[0] = '\0';
		} else {
			error = -EPROTO;
		}
		free(answer.body);
	} else if (error != -EINTR) {
		snprintf(top->error, sizeof(top->error), "%s: %s", top->address.text, answer.error);
	}
	return error;
}

/* Wait until the next sample is due. Returns false if the program must end. */
static bool pause_until_due(struct top *top, int64_t last)
{
	do {
		top->impatient = false;
		top_wait(top, -1, 0, top->view.paused ? FOREVER : last + top->view.interval);
	} while (top->impatient && !top->quit);
	return !top->quit;
}

/* Show samples until the end. Returns 0, or the error of the last sample or of the output. */
static int run(struct top *top)
{
	long taken = 0;

	for (;;) {
		int64_t last = http_now();
		int error = take(top);

		if (top->quit)
			return 0;
		if (error && top->have == 0) {
			snprintf(top->end, sizeof(top->end),
				 "%s\ngmp-top: does the program run, and has it called "
				 "gmp_debug_listen with this port?",
				 top->error);
			return error;
		}
		if (!top->batch)
			draw(top);
		else if (error)
			fprintf(stderr, "gmp-top: %s; trying again\n", top->error);
		else if (!print(top))
			return fail(top, "cannot write to standard output", errno);
		if (++taken == top->count)
			return error;
		if (!pause_until_due(top, last))
			return 0;
	}
}

static int run_in_terminal(struct top *top)
{
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		snprintf(top->end, sizeof(top->end),
			 "standard input or output is no terminal; use -b");
		return -ENOTTY;
	}
	if (!screen_open()) {
		snprintf(top->end, sizeof(top->end),
			 "the terminal cannot be used; set TERM to its type, or use -b");
		return -ENOTTY;
	}
	draw(top);
	error = run(top);
	screen_close();
	if (error && !top->end[0])
		snprintf(top->end, sizeof(top->end), "%s", top->error);
	return error;
}

/* -------------------------------------------------------------------- Options */

static int bad_usage(const char *what, const char *value)
{
	fprintf(stderr, "gmp-top: %s%s%s; gmp-top -h lists the options\n", what, value ? ": " : "",
		value ? value : "");
	return 2;
}

static bool parse_seconds(int64_t *ns, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 60))
		return false;
	*ns = (int64_t)(seconds * 1e9);
	return true;
}

static bool parse_count(long *count, const char *text)
{
	char *end;

	errno = 0;
	*count = strtol(text, &end, 10);
	return end != text && !*end && !errno && *count > 0;
}

/* Returns -1 to continue, or the exit status. */
static int parse_options(struct top *top, int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' },
						 { "version", no_argument, NULL, 'V' },
						 { 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "bd:n:h", options, NULL)) != -1) {
		switch (c) {
		case 'b': top->batch = true; break;
		case 'd':
			if (!parse_seconds(&top->view.interval, optarg))
				return bad_usage("-d wants 0.1 to 60 seconds", optarg);
			break;
		case 'n':
			if (!parse_count(&top->count, optarg))
				return bad_usage("-n wants a count from 1", optarg);
			break;
		case 'h': return fputs(usage_text, stdout) < 0 || fflush(stdout) != 0;
		case 'V': return printf("gmp-top %s\n", GMP_TOP_VERSION) < 0 || fflush(stdout) != 0;
		default: return bad_usage("wrong usage", NULL);
		}
	}
	if (argc - optind != 1)
		return bad_usage(argc == optind ? "ADDR is missing" : "more than one ADDR", NULL);
	if (!http_parse_address(&top->address, argv[optind]))
		return bad_usage("ADDR is not host:port, [v6]:port, :port or port", argv[optind]);
	return -1;
}

int main(int argc, char **argv)
{
	struct top top = { .view.interval = SECOND };
	int status = parse_options(&top, argc, argv);
	int error;

	if (status >= 0)
		return status;
	text_init();
	top.view.address = top.address.text;
	if (!take_signals(&top))
		error = fail(&top, "signalfd", errno);
	else
		error = top.batch ? run(&top) : run_in_terminal(&top);
	if (top.lost)
		error = fail(&top, "the terminal is gone", EIO);
	if (error && top.end[0])
		fprintf(stderr, "gmp-top: %s\n", top.end);
	return error != 0;
}
