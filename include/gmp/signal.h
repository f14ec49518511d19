/* SPDX-License-Identifier: MIT */
/*
 * Signals as elements of a channel.
 *
 * Masks, handlers and SIGPIPE: docs/api/signals-and-fork.md.
 */
#ifndef GMPRT_SIGNAL_H
#define GMPRT_SIGNAL_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gmp_signal_notify - send a signal to a channel each time it comes
 *
 * c      a channel of int elements. If it is full, the signal is dropped.
 * signo  the signal
 *
 * Several channels may ask for one signal, and one channel for several; a second call for the same
 * pair has no effect. What the program does with the signal otherwise is out of force until the
 * last channel has stopped, and is restored then, and at the end of the run, unless it was changed
 * meanwhile. While a channel asks for a signal, no deadlock is reported. A signal reaches the
 * channel even if the program blocks it, except if it is sent to one OS thread which blocks it.
 *
 * Returns 0.
 * Errors:
 *   -EINVAL  no such signal; SIGKILL, SIGSTOP; a signal that a fault raises (SIGSEGV SIGBUS SIGFPE
 *            SIGILL SIGTRAP SIGSYS); c is NULL; elements of another size
 *   -ESRCH   no runtime
 *   -ENOMEM, -EMFILE, -EAGAIN ...  no memory, descriptor or green thread; earlier requests stay in
 *   force
 *
 * Example (with gmp/chan.h):
 *   static void app(void *arg)
 *   {
 *           gmp_chan *c = gmp_chan_new(sizeof(int), 1);
 *           int signo;
 *
 *           (void)arg;
 *           assert(gmp_signal_notify(c, SIGTERM) == 0);
 *           kill(getpid(), SIGTERM);
 *           gmp_chan_recv(c, &signo);
 *           assert(signo == SIGTERM);
 *           gmp_signal_stop(c, SIGTERM);
 *           gmp_chan_free(c);
 *   }
 */
GMP_API int gmp_signal_notify(gmp_chan *c, int signo);

/*
 * gmp_signal_stop - end a gmp_signal_notify
 *
 * c, signo  as gmp_signal_notify. A signal that came before the call is in the channel when it
 *           returns, if there is room. After the call no signal is sent to that channel; only then
 *           it may be freed. The last stop of a signal restores its disposition.
 *
 * Returns 0.
 * Errors:
 *   -ENOENT  the channel has not asked for the signal
 *   -EINVAL  c is NULL, no such signal, or a signal that a fault raises
 *   -ESRCH   no runtime
 */
GMP_API int gmp_signal_stop(gmp_chan *c, int signo);

#ifdef __cplusplus
}
#endif

#endif
