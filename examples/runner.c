/* SPDX-License-Identifier: MIT */
/*
 * Runs shell commands in parallel, with a limit and a deadline, and prints their output in order.
 *
 *   $ runner --limit 4 --seconds 60 'make -C a' 'make -C b' 'make -C c'
 *   $ runner --input words.txt 'sort | uniq -c' 'wc -l'
 *
 * Each command is a child process, and a child of one group:
 *
 *   1. The group runs up to --limit green threads at a time. Each spawns its process, reads its
 *      output, and waits for its end, without an OS thread of its own.
 *   2. With --input, a second green thread writes the file to the process while the first green
 *      thread reads. A single green thread could deadlock: if input and output are both larger than
 *      a pipe, the process waits until its output is read, and does not read its input meanwhile.
 *   3. When --seconds have passed, the group cancels its children: their reads return -ECANCELED.
 *      Each child kills the process group of its command, so that processes which the command has
 *      started end too, and reaps the command.
 *   4. Output is printed in the order of the command line: the output of a command is printed once
 *      it and all earlier commands have ended.
 *
 * The exit status is 0 if every command has ended with 0, otherwise 1.
 */
#include "buf.h"

#include <gmp.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { PIECE = 64 << 10 };

struct command {
	const char *text;
	const struct buf *input; /* NULL: none */
	struct buf output;
	int err;    /* negative errno value if it could not run, or not to its end */
	int status; /* as waitpid returns it */
	gmp_wg running;
};

struct options {
	const char *input;
	int limit;
	int64_t seconds;
};

/* --- one command --- */

struct feeding {
	const struct buf *input;
	int fd;
};

/* Write the input to the process. If the process ends or closes its input before it has read all,
 * the write returns -EPIPE, which is not an error. */
static void feed(void *arg)
{
	struct feeding *f = arg;

	gmp_write_all(f->fd, f->input->data + f->input->start, buf_len(f->input));
	gmp_close(f->fd); /* the process reads an end of file */
}

static int read_output(int fd, struct buf *out)
{
	for (;;) {
		char *room = buf_room(out, PIECE);

		if (!room)
			return -ENOMEM;
		ssize_t n = gmp_read(fd, room, PIECE);

		if (n <= 0)
			return (int)n;
		out->end += (size_t)n;
	}
}

/* Write the input and read the output at the same time. */
static int talk_to(gmp_process *p, struct command *c)
{
	struct feeding f = { c->input, p->in };
	gmp_g *feeder;

	if (!c->input)
		return read_output(p->out, &c->output);
	int err = gmp_spawn(&feeder, feed, &f, NULL);

	if (err)
		return err;
	p->in = -1; /* the feeder closes it */
	err = read_output(p->out, &c->output);
	gmp_cancel(feeder); /* it may wait for a process that has stopped reading */
	gmp_cancel_mask(1);
	gmp_join(feeder);
	gmp_cancel_mask(0);
	return err;
}

/* Reap the process. If the command has failed or was cancelled, kill its process group first. */
static void reap(const gmp_process *p, struct command *c)
{
	if (!c->err) {
		pid_t pid = gmp_waitpid_until(p->pid, &c->status, 0, GMP_FOREVER);

		if (pid > 0)
			return;
		c->err = pid; /* -ECANCELED */
	}
	kill(-p->pid, SIGKILL);
	gmp_cancel_mask(1);
	gmp_waitpid(p->pid, &c->status, 0);
	gmp_cancel_mask(0);
}

static int run_command(void *arg)
{
	struct command *c = arg;
	const char *argv[] = { "/bin/sh", "-c", c->text, NULL };
	gmp_process_opts o = GMP_PROCESS_OPTS_INIT;
	gmp_process p;

	o.argv = argv;
	o.flags = GMP_PROCESS_GROUP;
	o.in.kind = c->input ? GMP_PROCESS_PIPE : GMP_PROCESS_NULL;
	o.out.kind = GMP_PROCESS_PIPE;
	o.err.kind = GMP_PROCESS_STDOUT;
	c->err = gmp_cancelled() ? -ECANCELED : gmp_process_spawn(&p, &o);
	if (!c->err) {
		c->err = talk_to(&p, c);
		gmp_process_close(&p);
		reap(&p, c);
	}
	gmp_wg_done(&c->running);
	return 0; /* the other commands continue */
}

/* --- all of them --- */

struct starter {
	gmp_group *group;
	struct command *commands;
	int n;
};

/* Start all commands. Waits while --limit commands run; the first green thread prints meanwhile. */
static void start_all(void *arg)
{
	struct starter *s = arg;

	for (int i = 0; i < s->n; i++) {
		struct command *c = &s->commands[i];
		int err = gmp_group_go(s->group, run_command, c);

		if (err) {
			c->err = err;
			gmp_wg_done(&c->running);
		}
	}
}

static bool print_result(const struct command *c)
{
	if (buf_len(&c->output) > 0)
		fwrite(c->output.data + c->output.start, 1, buf_len(&c->output), stdout);
	fflush(stdout);
	if (c->err == -ECANCELED)
		fprintf(stderr, "runner: %s: no time left\n", c->text);
	else if (c->err)
		fprintf(stderr, "runner: %s: %s\n", c->text, strerror(-c->err));
	else if (WIFSIGNALED(c->status))
		fprintf(stderr, "runner: %s: signal %d\n", c->text, WTERMSIG(c->status));
	else if (WEXITSTATUS(c->status))
		fprintf(stderr, "runner: %s: exit status %d\n", c->text, WEXITSTATUS(c->status));
	return !c->err && c->status == 0;
}

static int run_all(const struct options *o, struct command *commands, int n)
{
	int64_t deadline = o->seconds ? gmp_deadline(o->seconds * GMP_S) : GMP_FOREVER;
	struct starter s = { gmp_group_new(o->limit, deadline), commands, n };
	gmp_g *starter;
	int status = 0;

	if (!s.group || gmp_spawn(&starter, start_all, &s, NULL)) {
		fprintf(stderr, "runner: out of memory\n");
		gmp_group_free(s.group);
		return 1;
	}
	for (int i = 0; i < n; i++) {
		gmp_wg_wait(&commands[i].running);
		if (!print_result(&commands[i]))
			status = 1;
		buf_free(&commands[i].output);
	}
	gmp_join(starter);
	gmp_group_free(s.group);
	return status;
}

static int read_file(const char *path, struct buf *b)
{
	int fd = gmp_open(path, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	int err = read_output(fd, b);

	gmp_close(fd);
	return err;
}

/* --- the command line --- */

struct program {
	struct options options;
	char **texts;
	int n, status;
};

static void app(void *arg)
{
	struct program *p = arg;
	struct command *commands = calloc((size_t)p->n + 1, sizeof(*commands));
	struct buf input = { 0 };
	int err = commands ? 0 : -ENOMEM;

	if (!err && p->options.input)
		err = read_file(p->options.input, &input);
	if (err) {
		fprintf(stderr, "runner: %s: %s\n", commands ? p->options.input : "start",
			strerror(-err));
		p->status = 1;
	} else {
		for (int i = 0; i < p->n; i++) {
			commands[i].text = p->texts[i];
			commands[i].input = p->options.input ? &input : NULL;
			gmp_wg_add(&commands[i].running, 1);
		}
		p->status = run_all(&p->options, commands, p->n);
	}
	buf_free(&input);
	free(commands);
}

static int usage(void)
{
	fputs("usage: runner [--limit N] [--seconds N] [--input FILE] COMMAND...\n"
	      "  --limit N     run at most N commands at a time (4)\n"
	      "  --seconds N   kill what still runs after N seconds (0: no limit)\n"
	      "  --input FILE  what each command reads (nothing)\n",
	      stderr);
	return 2;
}

static bool number(const char *text, long most, long *n)
{
	char *end;

	*n = strtol(text, &end, 10);
	return *text && !*end && *n >= 0 && *n <= most;
}

int main(int argc, char **argv)
{
	static const struct option names[] = { { "limit", required_argument, NULL, 'l' },
					       { "seconds", required_argument, NULL, 's' },
					       { "input", required_argument, NULL, 'i' },
					       { 0 } };
	struct program p = { .options = { .limit = 4 } };
	long n;

	for (int c; (c = getopt_long(argc, argv, "+", names, NULL)) != -1;) {
		if (c == 'i')
			p.options.input = optarg;
		else if (c == 'l' && number(optarg, 10000, &n))
			p.options.limit = (int)n;
		else if (c == 's' && number(optarg, 1000000, &n))
			p.options.seconds = n;
		else
			return usage();
	}
	if (optind == argc)
		return usage();
	p.texts = argv + optind;
	p.n = argc - optind;
	int err = gmp_run(app, &p, NULL);

	if (err) {
		fprintf(stderr, "runner: %s\n", strerror(-err));
		return 1;
	}
	return p.status;
}
