/* SPDX-License-Identifier: MIT */
/*
 * Works around a lost signal in ThreadSanitizer: the main thread makes its signal record early.
 *
 * ThreadSanitizer does not call a handler at once. It stores the signal in a record of the thread,
 * and calls the handler when the thread next enters or leaves an intercepted function. The first
 * call that may block, or the first signal, allocates this record. In the libtsan of GCC 12 a
 * signal that comes during that allocation allocates a second record and is stored there; the
 * interrupted call then overwrites the pointer with its own record, and the signal is lost. (Later
 * versions use compare-and-swap.) A server that waits for SIGTERM then waits indefinitely.
 *
 * The kernel prefers the main thread for signals of the process. The constructor therefore makes a
 * call that may block before any handler is installed. This is not needed if handlers are installed
 * without ThreadSanitizer (os_sigaction), or if signals are read from an fd.
 */
#include <unistd.h>

__attribute__((constructor)) static void make_signal_record(void)
{
	usleep(0); /* no test replaces usleep */
}
