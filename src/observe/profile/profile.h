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

/* Whether the profile has become useless; is_over is called every PROFILE_NAP, on the thread of the
 * profile, without locks.  It is client_has_gone of routes.c. */
struct profile_watch {
	bool (*is_over)(void *arg);
	void *arg;
};

/*
 * Take a profile of a kind: "cpu", "wait", "mutex" or "green".
 *
 * hz     1 to 1000; "cpu" takes as many samples a second of CPU time
 * ns     for how long; 0: one moment, except "cpu"; "green" is always one moment
 * watch  if it says so, the profile ends early; NULL: none
 * out    is filled; the caller frees out->data
 *
 * On a G or an external thread, no locks held; waits.  Returns 0, or
 *   -EINVAL     no such kind, or a number is out of range
 *   -EBUSY      "cpu": see cpusample_begin
 *   -ECANCELED  watch says so
 *   -ENOTSUP    see pprof_available
 *   -ENOMEM     no memory, or no OS thread (or -EAGAIN)
 *   -ESRCH      no runtime, or it has stopped meanwhile
 */
int profile_take(const char *kind, int hz, int64_t ns, const struct profile_watch *watch,
		 struct pprof_out *out);

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
