/* SPDX-License-Identifier: MIT */
#include "machine/cxx.h"

#include <unwind.h>

#include "base/throw.h"
#include "base/tls.h"

/* Of the C++ ABI's, in libstdc++ and libc++abi alike. */
extern void *__cxa_get_globals(void) __attribute__((weak));

struct cxx_globals *cxx_of_thread(void)
{
	return __cxa_get_globals ? __cxa_get_globals() : NULL;
}

/*
 * The personality of gmp__gstart (context_<arch>.S): whoever throws asks each frame above whether it
 * has a handler, and comes here only if no other had one.  Nothing is unwound yet, so the backtrace
 * shows who threw.  The stack ends here; the C++ runtime finds that out and calls std::terminate,
 * which says what was thrown.
 */
_Unwind_Reason_Code gmp__leaves_entry(int version, _Unwind_Action actions, uint64_t kind,
				      struct _Unwind_Exception *e, struct _Unwind_Context *frame);

_Unwind_Reason_Code gmp__leaves_entry(int version, _Unwind_Action actions, uint64_t kind,
				      struct _Unwind_Exception *e, struct _Unwind_Context *frame)
{
	(void)version, (void)kind, (void)e, (void)frame;
	if (actions & _UA_SEARCH_PHASE)
		gmp__dying("an exception leaves the entry function");
	else if (getm() || gmp__blockedm()) /* else it is the child of a fork, and a plain thread */
		gmp__fatal("the end of a thread (pthread_exit, pthread_cancel) on a green stack\n"
			   "call gmp_exit to end a green thread, gmp_cancel to end another one's wait");
	return _URC_CONTINUE_UNWIND;
}
