/* SPDX-License-Identifier: MIT */
/* Profiles: the thread of a profile, CPU profiles, and the calls. See observe/profile/profile.h. */
#include "observe/profile/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "enter.h"
#include "monitor/faultsig.h"
#include "observe/cpusample.h"

enum {
	HZ_MOST = 1000, /* a thread's CPU time is checked once a tick of the kernel: 1 to 10 ms */
	SECONDS_MOST = 3600,
	DRAIN_NS = 50 * MS, /* SLOTS of cpusample.c has the reason */
	JOB_STACK = 512 * 1024,
};

/* --- the thread of a profile --- */

static bool run_is_on(void)
{
	return ld_seq(&sched.state) == RUN_ON; /* ORD(external) */
}

int profile_nap(const struct profile_job *job, int64_t until)
{
	const struct profile_watch *w = job->watch;

	for (int64_t now = os_now(); now < until && run_is_on(); now = os_now()) {
		if (w && w->is_over(w->arg))
			return -ECANCELED;
		os_nap(min_of(until - now, (int64_t)PROFILE_NAP));
	}
	return run_is_on() ? 0 : -ESRCH;
}

/* After a write that returned n <= 0. Returns 0 to try again, or the error. */
static int job_wait(const struct profile_job *job, int n)
{
	if (n == 0)
		os_nap(PROFILE_NAP);
	else if (n != -EAGAIN)
		return n;
	else if (os_sink_ready(job->to, PROFILE_NAP))
		return 0;
	return run_is_on() ? 0 : -EAGAIN;
}

static int job_write(const struct profile_job *job)
{
	const unsigned char *at = job->out->data, *end = at + job->out->n;
	int err = 0;

	while (at < end && !err) {
		int n = os_sink_write(job->to, at, min_of((size_t)(end - at), (size_t)PAGE));

		if (n > 0)
			at += n;
		else
			err = job_wait(job, n);
	}
	return err;
}

static void job_mask(void)
{
	uint64_t faults =
		1u << (SIGSEGV - 1) | 1u << (SIGBUS - 1) | 1u << (SIGFPE - 1) | 1u << (SIGILL - 1);

	os_mask(~faults, 0);
}

static void *job_main(void *arg)
{
	struct profile_job *job = arg;
	int64_t began = os_now();

	job_mask();
	job->p.began = os_real_now();
	job->err = job->collect(job);
	job->p.duration = os_now() - began;
	if (job->comment[0])
		job->p.comment = job->comment;
	if (!job->err)
		job->err = pprof_encode(&job->p, job->out);
	trace_counts_free(&job->p.counts);
	if (!job->err && job->to)
		job->err = job_write(job);
	return NULL;
}

static void job_free_out(void *out)
{
	free(((struct pprof_out *)out)->data);
}

/* PROFILE-1 */
static int job_run(struct profile_job *job)
{
	pthread_t thread;
	int err;

	job->out->data = NULL;
	if (!rt_enter())
		return -ESRCH;
	leftover_add(&job->leftover, job_free_out, job->out);
	gmp_block_enter();
	err = pprof_available();
	if (!err)
		err = os_thread_start(&thread, job_main, job, JOB_STACK, NULL);
	if (!err) {
		pthread_join(thread, NULL);
		err = job->err;
	}
	gmp_block_leave();
	leftover_del(&job->leftover);
	rt_leave();
	return err;
}

/* --- CPU --- */

static const struct pprof_kind cpu_kind = {
	.value = { { "samples", "count" }, { "cpu", "nanoseconds" } },
	.period_type = { "cpu", "nanoseconds" },
};

static void trace_counts_sample(void *arg, const struct cpusample *s)
{
	struct profile_job *job = arg;
	struct trace_count key = { .fn = s->id ? s->fn : NULL, .n = s->trace.n, .pc = s->trace.pc };

	if (s->id)
		trace_counts_green(key.green, s->id, s->name);
	else
		snprintf(key.green, sizeof(key.green), "scheduler");
	struct trace_count *e = trace_counts_find(&job->p.counts, &key);

	if (!e) {
		job->err = -ENOMEM;
		return;
	}
	e->value[0] += s->n;
	e->value[1] += s->n * job->p.period;
}

/* Ms have the mask that the program had when the run began. */
static bool ms_block_sigprof(void)
{
	sigset_t mask;

	signal_program_mask(&mask);
	return sigismember(&mask, SIGPROF);
}

static int collect_cpu(struct profile_job *job)
{
	int64_t end = os_now() + job->ns;
	uint64_t lost;

	job->p.kind = &cpu_kind;
	job->p.period = S / job->hz;
	int err = ms_block_sigprof() ? -EBUSY : cpusample_begin(job->hz);

	if (err)
		return err;
	while (!err && !job->err && os_now() < end) {
		err = profile_nap(job, min_of(end, os_now() + DRAIN_NS));
		cpusample_drain(trace_counts_sample, job);
	}
	cpusample_stop();
	cpusample_drain(trace_counts_sample, job);
	lost = cpusample_end();
	if (lost)
		snprintf(job->comment, sizeof(job->comment), "%" PRIu64 " samples were lost", lost);
	return job->err ? job->err : err;
}

/* --- the calls --- */

static const struct {
	const char *name;
	int (*collect)(struct profile_job *job);
	int64_t least; /* ns */
} kinds[] = {
	{ "cpu", collect_cpu, 1 },
	{ "wait", profile_collect_wait, 0 },
	{ "mutex", profile_collect_mutex, 0 },
	{ "green", profile_collect_green, 0 },
};

/* Set job->collect.  Returns 0, or -EINVAL: no such kind, or job has a number out of range. */
static int job_choose(struct profile_job *job, const char *kind)
{
	if (job->hz < 1 || job->hz > HZ_MOST)
		return -EINVAL;
	for (size_t i = 0; kind && i < countof(kinds); i++)
		if (strcmp(kind, kinds[i].name) == 0 && job->ns >= kinds[i].least)
			job->collect = kinds[i].collect;
	return job->collect ? 0 : -EINVAL;
}

int profile_take(const char *kind, int hz, int64_t ns, const struct profile_watch *watch,
		 struct pprof_out *out)
{
	struct profile_job job = { .hz = hz, .ns = ns, .watch = watch, .out = out };
	int err = job_choose(&job, kind);

	return err ? err : job_run(&job);
}

int gmp_profile_write(const char *kind, int seconds, int fd)
{
	struct pprof_out out = { 0 };
	struct profile_job job = { .hz = 100, .ns = (int64_t)seconds * S, .out = &out };
	struct os_sink to;
	int err = seconds <= SECONDS_MOST ? job_choose(&job, kind) : -EINVAL;

	if (!err)
		err = os_sink(&to, fd);
	if (err)
		return err;
	job.to = &to;
	err = job_run(&job);
	free(out.data);
	return err;
}
