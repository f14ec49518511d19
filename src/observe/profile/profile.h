/* SPDX-License-Identifier: MIT */
/*
 * Profiles: collects samples for a while, on an OS thread of its own, and encodes them for pprof.
 *
 *   caller                                        thread of the profile
 *    1 start the thread, enter blocking code       1 block all signals
 *    2 wait for its end                            2 collect: counts of stacks
 *    3 leave blocking code                         3 look up functions and lines, encode
 *                                                  4 write, if there is an fd
 *
 * What the figures of each kind mean: docs/api/profiles.md.
 *
 * Invariants
 *   PROFILE-1  The caller is in blocking code, or between rt_enter and rt_leave, until the thread
 *              has ended: the run's memory stays, and shutdown does not kill the caller.  If the
 *              run ends, the thread stops collecting within PROFILE_NAP, with -ESRCH.
 *   -          What a stack may not hold, and what allocates or reads files, is on that thread: the
 *              caller's stack may have 16 KiB.
 *   -          One CPU profile at a time.  Profiles of the other kinds do not exclude each other.
 */
#ifndef GMP_PROFILE_H
#define GMP_PROFILE_H

#include "base/os.h"
#include "io/cleanup.h"
#include "observe/profile/pprof.h"

/*
 * Each fills *out; the caller frees out->data.  They return 0, or
 *   -EINVAL   a number is out of range
 *   -EBUSY    profile_cpu: see cpusample_begin
 *   -ENOTSUP  see pprof_available
 *   -ENOMEM   no memory, or no OS thread (or -EAGAIN)
 *   -ESRCH    no runtime, or it has stopped meanwhile
 * On a G or an external thread, no locks held; they wait.
 */
/* Whether the profile has become useless; is_over is called every PROFILE_NAP, on the thread of the
 * profile, without locks.  It is client_has_gone of routes.c. */
struct profile_watch {
	bool (*is_over)(void *arg);
	void *arg;
};

/* watch may be NULL; if it says so, the profile ends early with -ECANCELED.  hz: 1 to 1000 samples
 * a second of CPU time; ns: for how long, at least 1. */
int profile_cpu(int hz, int64_t ns, const struct profile_watch *watch, struct pprof_out *out);
/* ns: for how long; 0: one moment. */
int profile_wait(int64_t ns, const struct profile_watch *watch, struct pprof_out *out);
int profile_mutex(int64_t ns, const struct profile_watch *watch, struct pprof_out *out);
int profile_green(struct pprof_out *out);

/* --- the inside --- */

enum { PROFILE_NAP = 10000000 };

struct profile_job {
	int (*collect)(struct profile_job *job); /* fills p; returns 0 or -errno */
	int hz;
	int64_t ns;
	struct pprof_profile p;
	char comment[128];
	struct pprof_out *out;
	struct leftover leftover; /* frees out->data if the caller is killed when it is done */
	struct os_sink *to;       /* where to write it; NULL: nowhere */
	const struct profile_watch *watch; /* or NULL */
	int err;
};

/* Sleep until the time of os_now.  Returns 0; earlier -ESRCH, if the run ends, or -ECANCELED. */
int profile_nap(const struct profile_job *job, int64_t until);

int profile_collect_wait(struct profile_job *job);
int profile_collect_mutex(struct profile_job *job);
int profile_collect_green(struct profile_job *job);

#endif
