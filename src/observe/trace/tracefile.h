/* SPDX-License-Identifier: MIT */
/*
 * Trace file: the collector, an OS thread that reads the rings of emit.h and writes a file.
 *
 * The format is described in docs/trace-format.md.  The collector wakes every FULL_NS to IDLE_NS,
 * depending on how full the rings are.  Each time it copies the records of each ring, encodes them
 * into a block, and writes the blocks.  It adds what only it knows: the clock, the OS thread of
 * each ring, the names of codes and entry functions, the Gs that exist at the start, and every
 * SNAPSHOT_NS the lengths of all run queues.
 *
 * Invariants
 *   TRACEFILE-1  Only the collector waits for the file.  While it waits, rings lose their oldest
 *                records, and the file has an event `lost` with their number.
 *   -            After an error of write nothing more is written, and the session ends.  The file
 *                is valid up to the last whole block.
 *   TRACEFILE-3  The end of a run does not wait for the reader of a pipe: if the pipe has no room
 *                then, the file is incomplete.
 *   TRACEFILE-4  The end of a trace into a FIFO or a device does not wait for its reader: if that
 *                makes no room for PATIENCE_NS, the file is incomplete.
 */
#ifndef GMP_TRACEFILE_H
#define GMP_TRACEFILE_H

#include "types.h"

/* Start a session whose file is fd, which may be a pipe.  is_read_to_end: the caller has a reader
 * that reads to the end of file (TRACEFILE-3); otherwise TRACEFILE-4.  Returns 0, or a negative
 * errno; fd is the caller's then.  One session at a time; in a run. */
int tracefile_start(int fd, bool is_read_to_end);
/* Ask the collector to end the session: it writes what is left, and closes fd.  Does not wait. */
void tracefile_ask_stop(void);
/* The same, and wait.  Returns 0 or the error of a write.  Blocks the OS thread. */
int tracefile_stop(void);
/* In the child of a fork. */
void tracefile_forget(void);

#endif
