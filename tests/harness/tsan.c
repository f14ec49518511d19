/* SPDX-License-Identifier: MIT */
/*
 * What must a program do so that ThreadSanitizer loses none of its signals?
 *
 * ThreadSanitizer does not call a handler at once: it puts the signal down in a record of the thread, and
 * calls the handler where the thread next enters or leaves a function that it watches over.  That
 * record is made when it is first wanted, by the first call that may block or by the first signal.  In the
 * libtsan of GCC 12 a signal that comes while the first call makes it makes another one, puts itself
 * down there, and is lost as soon as the call has its own ready and puts that in its place.  (Later
 * versions compare and swap.)  A server that waits for its SIGTERM then waits for ever.
 *
 * So the main thread, which the kernel chooses first for a signal, makes its record before there is any
 * handler: by a call that might block.  Not needed where handlers are installed past ThreadSanitizer
 * (os_sigaction), or signals are read from a descriptor.
 */
#include <unistd.h>

__attribute__((constructor)) static void make_record_of_signals(void)
{
	usleep(0); /* in whose place no test has something of its own */
}
