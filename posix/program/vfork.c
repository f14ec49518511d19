/* SPDX-License-Identifier: MIT */
/*
 * Replaces vfork and posix_spawn, whose child shares the memory of its parent.
 *
 * The system call lasts until the child has called exec or _exit, so it runs as blocking code.  The
 * child of posix_spawn runs libc's code alone.  The child of a vfork runs the program's:
 *
 *   parent                                          child: the same memory, and its own
 *                                                   descriptors, masks and actions of signals
 *    1 begin: blocking code; the OS thread gets
 *      the mask of the green thread
 *    2 the return address goes to a register
 *    3 vfork(2)                                      a returns 0 into the program
 *                                                    b calls replaced functions, as blocking code
 *                                                    c exec or _exit
 *    4 the return address goes back to the stack
 *    5 end: the mask of the OS thread is as before;
 *      the blocking code ends; returns the pid
 *
 * Invariants
 *   - In steps a to c replaced functions are libc's (HOOK_LIBC).  Of what the parent's
 *     runtime uses they change only hints.  sigaction knows the child by its process id
 *     (SIGTAB-5).  The child must not unlock, post or signal an object of libc for a
 *     thread of its parent, nor call gmp: it might be killed in between, with a lock of the
 *     runtime.
 *   - The child overwrites the stack below the frame of the caller of vfork.  So steps 2 to
 *     4 keep nothing there, and what step 5 needs is in registers that vfork(2) keeps and in
 *     signal_state.
 *   - The child inherits the timer slack and the slice of a process without runtime, not those of
 *     an M.
 *   - The child inherits the mask of the green thread that has made it, also if that has
 *     moved to another OS thread since it set its mask.  A handler and blocking code pass
 *     the mask of the OS thread on.
 *
 * The child returns by `ret` on the stack of its parent.  With a shadow stack it would use up the
 * entry of the parent; the runtime refuses to run with one (docs/ports.md).
 */
#include "posix/program/vfork.h"

#include <spawn.h>
#include <stdlib.h>

#include "base/os.h"
#include "posix/call/hook.h"

/* vfork(2) is clone(CLONE_VM | CLONE_VFORK | SIGCHLD) where it has no number of its own. */
#if defined(__x86_64__)
__asm__(".text\n\t.globl vfork\n\t.type vfork, %function\nvfork:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"sub $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call gmp__vfork_begin\n\t"
	"add $8, %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"mov %eax, %edi\n\t"
	"pop %rdx\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdx\n\t"
	"mov $58, %eax\n\t"
	"syscall\n\t"
	"push %rdx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_rel_offset %rip, 0\n\t"
	"test %rax, %rax\n\t"
	"jz 1f\n\t"
	"mov %rax, %rsi\n\t"
	"sub $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call gmp__vfork_end\n\t"
	"add $8, %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n"
	"1:\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size vfork, .-vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n\t.globl vfork\n\t.type vfork, %function\nvfork:\n\t"
	".cfi_startproc\n\t"
	"bti c\n\t"
	"stp x29, x30, [sp, #-16]!\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	".cfi_rel_offset x29, 0\n\t"
	".cfi_rel_offset x30, 8\n\t"
	"bl gmp__vfork_begin\n\t"
	"ldp x29, x30, [sp], #16\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	".cfi_restore x29\n\t"
	".cfi_restore x30\n\t"
	"mov x9, x0\n\t"
	"mov x0, #0x4111\n\t"
	"mov x1, #0\n\t"
	"mov x2, #0\n\t"
	"mov x3, #0\n\t"
	"mov x4, #0\n\t"
	"mov x8, #220\n\t"
	"svc #0\n\t"
	"cbz x0, 1f\n\t"
	"stp x29, x30, [sp, #-16]!\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	".cfi_rel_offset x29, 0\n\t"
	".cfi_rel_offset x30, 8\n\t"
	"mov x1, x0\n\t"
	"mov x0, x9\n\t"
	"bl gmp__vfork_end\n\t"
	"ldp x29, x30, [sp], #16\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	".cfi_restore x29\n\t"
	".cfi_restore x30\n"
	"1:\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size vfork, .-vfork\n");
#elif defined(__riscv)
__asm__(".text\n\t.globl vfork\n\t.type vfork, %function\nvfork:\n\t"
	".cfi_startproc\n\t"
	"addi sp, sp, -16\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	"sd ra, 8(sp)\n\t"
	".cfi_rel_offset ra, 8\n\t"
	"call gmp__vfork_begin\n\t"
	"ld ra, 8(sp)\n\t"
	".cfi_restore ra\n\t"
	"addi sp, sp, 16\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	"mv t0, a0\n\t"
	"li a0, 0x4111\n\t"
	"li a1, 0\n\t"
	"li a2, 0\n\t"
	"li a3, 0\n\t"
	"li a4, 0\n\t"
	"li a7, 220\n\t"
	"ecall\n\t"
	"beqz a0, 1f\n\t"
	"addi sp, sp, -16\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	"sd ra, 8(sp)\n\t"
	".cfi_rel_offset ra, 8\n\t"
	"mv a1, a0\n\t"
	"mv a0, t0\n\t"
	"call gmp__vfork_end\n\t"
	"ld ra, 8(sp)\n\t"
	".cfi_restore ra\n\t"
	"addi sp, sp, 16\n\t"
	".cfi_adjust_cfa_offset -16\n"
	"1:\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size vfork, .-vfork\n");
#endif

int gmp__vfork_begin(void)
{
	if (hook_how() == HOOK_LIBC)
		return false;
	gmp_block_enter();
	child_attributes_begin();
	gmp__signal_state()->before_child = mask_for_child();
	return true;
}

pid_t gmp__vfork_end(int begun, long result)
{
	int saved = errno;

	if (begun) {
		struct signal_state *s = gmp__signal_state();

		s->low = s->high = 0; /* the child may have ended in a handler: none runs here */
		mask_after_child(s->before_child);
		child_attributes_end();
		handler_block_ending();
		gmp_block_leave();
		handler_block_ended();
	}
	errno = saved;
	return (pid_t)hook_return(result);
}

HOOK int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	return HOOK_CHILD(LIBC(posix_spawn)(pid, path, actions, attr, argv, env));
}

HOOK int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	return HOOK_CHILD(LIBC(posix_spawnp)(pid, file, actions, attr, argv, env));
}
