/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes the caller's memory, where a system call would do it, without SIGSEGV.
 *
 * Natively the kernel reads the arguments of nanosleep, select and others, and a bad address is
 * EFAULT.  A replacement that reads them itself first asks the kernel, by a call that has no other
 * effect and that no seccomp filter of a program with threads may forbid:
 *
 *   can it be read?     rt_sigprocmask with a `how` that does not exist: EINVAL, or EFAULT
 *   can it be written?  FUTEX_WAKE_OP that combines a word with 0: EFAULT if not.  A waiter for
 *                       that word may wake up spuriously
 *
 * One word of each page is tried.  If another thread unmaps the page between the test and the copy,
 * the copy is SIGSEGV.  If a filter answers the call, the memory counts as good.  A test costs a
 * system call for each page.
 */
#include "posix/call/user.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#include "posix/call/hook.h"

typedef bool (*fault_fn)(uintptr_t at);

static bool read_faults(uintptr_t at)
{
	uintptr_t word = at & -sizeof(uint64_t);

	return !word || /* no mask: the kernel reads nothing */
	       (LIBC(syscall)(SYS_rt_sigprocmask, -1, word, NULL, sizeof(uint64_t)) < 0 &&
		errno == EFAULT);
}

static bool write_faults(uintptr_t at)
{
	uintptr_t word = at & -sizeof(uint32_t);
	int op = (int)FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	return LIBC(syscall)(SYS_futex, word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL, word,
			     op) < 0 &&
	       errno == EFAULT;
}

static bool all_pages(uintptr_t at, size_t n, fault_fn faults)
{
	uintptr_t last = at + n - 1;
	int saved = errno;
	bool good = n == 0 || last >= at;

	for (; good && n; at = (at | (PAGE - 1)) + 1) {
		good = !faults(at);
		if ((at | (PAGE - 1)) >= last)
			break;
	}
	errno = saved;
	return good;
}

bool user_reads(const void *p, size_t n)
{
	return all_pages((uintptr_t)p, n, read_faults);
}

bool user_read(void *to, const void *from, size_t n)
{
	if (!user_reads(from, n))
		return false;
	memcpy(to, from, n);
	return true;
}

bool user_write(void *to, const void *from, size_t n)
{
	if (!all_pages((uintptr_t)to, n, write_faults))
		return false;
	memcpy(to, from, n);
	return true;
}
