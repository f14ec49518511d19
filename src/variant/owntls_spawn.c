/* SPDX-License-Identifier: MIT */
/* Own thread-locals at a spawn; see variant.h and variant/owntls_spawn.h. */
#include "variant/owntls_spawn.h"

#include <errno.h>

#include "base/throw.h"
#include "enter.h"
#include "observe/pause.h"
#include "variant/leave.h"
#include "variant/owntls.h"
#include "variant/variant.h"

/* Writes why there are no own thread-locals, once in a process. */
static noinline void say_unsupported(const char *why)
{
	static bool said; /* (a) two threads may both say it */
	struct line l = { .n = 0 };

	if (ld_rlx(&said))
		return;
	st_rlx(&said, true);
	line_add_sig(&l, "gmp: gmp_spawn: GMP_OWN_TLS is not supported here: %s\n", why);
	line_write_sig(&l, 2);
}

/* The first call waits for OS threads of the probe: the runtime's own work (LONGRUN-5), but no
 * blocking code, since gmp_spawn does not move its caller to another OS thread. */
static noinline int first_use(const char **why)
{
	bool reports = sched.options.debug & (DEBUG_check | DEBUG_sched);
	struct p *paused = reports ? run_pause() : NULL;
	int err = leave_own_tls(why);

	run_resume(paused);
	return err;
}

int owntls_enable(void)
{
	const char *why = NULL;
	int err = likely(owntls_is_used()) ? 0 : first_use(&why);

	if (unlikely(err == -ENOTSUP))
		say_unsupported(why);
	return err;
}

int owntls_spawn(struct g *gp)
{
	if (!variant_gs_switch())
		return 0;
	int err = owntls_enable();

	if (unlikely(err))
		return err;
	bool supplied = owntls_supply(hold_p(), gp);

	drop_p();
	return supplied ? 0 : -ENOMEM;
}
