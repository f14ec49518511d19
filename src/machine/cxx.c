/* SPDX-License-Identifier: MIT */
/* C++ exceptions on green stacks.  cxx.h has the invariants. */
#include "machine/cxx.h"

#include <unwind.h>

#include "base/throw.h"
#include "base/tls.h"

/* From the C++ ABI, in libstdc++ and libc++abi.  CXX-3. */
extern void *__cxa_get_globals(void) __attribute__((weak));

struct cxx_globals *cxx_of_thread(void)
{
	return __cxa_get_globals ? __cxa_get_globals() : NULL;
}

/*
 * The personality routine of gmp__gstart (context_<arch>.S), the first frame of a green stack.  The
 * unwinder searches the frames above for a handler, and calls this if none has one.  Nothing is
 * unwound yet, so the backtrace shows the function that threw.  The unwinder then finds the end of
 * the stack, and the C++ runtime calls std::terminate, which names the exception.
 */
_Unwind_Reason_Code gmp__leaves_entry(int version, _Unwind_Action actions, uint64_t kind,
				      struct _Unwind_Exception *e, struct _Unwind_Context *frame);

_Unwind_Reason_Code gmp__leaves_entry(int version, _Unwind_Action actions, uint64_t kind,
				      struct _Unwind_Exception *e, struct _Unwind_Context *frame)
{
	(void)version, (void)kind, (void)e, (void)frame;
	if (actions & _UA_SEARCH_PHASE)
		gmp__dying("an exception leaves the entry function");
	else if (getm() || gmp__blockedm()) /* not in the child of a fork: it has no green thread */
		gmp__fatal("the end of a thread (pthread_exit, pthread_cancel) on a green stack\n"
			   "call gmp_exit to end a green thread, "
			   "gmp_cancel to end another one's wait");
	return _URC_CONTINUE_UNWIND;
}
