/* SPDX-License-Identifier: MIT */
/*
 * A shadow stack that only the kernel's answers show: a seccomp filter lets a supervisor thread
 * answer the system call that asks for it.
 *
 * The filter holds for the calling thread and for threads that it makes later, as a shadow stack
 * does.
 */
#ifndef TESTS_SHADOW_H
#define TESTS_SHADOW_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
enum { SHADOW_CALL = SYS_arch_prctl, SHADOW_STATUS = 0x5005 };
#else
enum { SHADOW_CALL = SYS_prctl, SHADOW_STATUS = 74 };
#endif

/* Answers each question of a thread of this process: the shadow stack is enabled.  It writes for
 * the kernel, so ThreadSanitizer must not see it. */
__attribute__((no_sanitize("thread"))) static void *shadow_supervisor(void *arg)
{
	int fd = (int)(intptr_t)arg;

	for (;;) {
		struct seccomp_notif asked = { 0 };
		struct seccomp_notif_resp answer = { 0 };

		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
			continue; /* the thread was interrupted, or has ended */
		*(unsigned long *)asked.data.args[1] = 1;
		answer.id = asked.id;
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return NULL;
}

/* From now on the calling thread appears to have a shadow stack. Returns false if the system has
 * no such filters. */
static inline bool shadow_stack_fake(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SHADOW_CALL, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SHADOW_STATUS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };
	pthread_t supervisor;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0)
		return false;
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &filter);

	return fd >= 0 &&
	       pthread_create(&supervisor, NULL, shadow_supervisor, (void *)(intptr_t)fd) == 0;
}

#endif
