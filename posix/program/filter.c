/* SPDX-License-Identifier: MIT */
/*
 * Interpreter of seccomp filters: finds the system calls for which a filter kills.
 *
 * Most filters of libseccomp have an instruction that kills, for calls of another architecture.  So
 * the filter is run, as the kernel would, for each number of a system call of this architecture,
 * with arguments of 0.
 *
 * The kernel has not checked the filter yet: each access is within bounds here, and jumps go
 * forward only.  For a filter that the kernel refuses, the result has no meaning.
 */
#include "posix/program/filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>

#include "base/base.h"
#include "base/os.h"

#if defined(__x86_64__)
enum { ARCH = (int)AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#elif defined(__riscv)
enum { ARCH = (int)AUDIT_ARCH_RISCV64 };
#endif

enum { CALLS = 512 }; /* above the numbers of all system calls */

struct registers {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static uint32_t calculate(unsigned op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD: return a + b;
	case BPF_SUB: return a - b;
	case BPF_MUL: return a * b;
	case BPF_DIV: return b ? a / b : 0;
	case BPF_AND: return a & b;
	case BPF_OR: return a | b;
	case BPF_XOR: return a ^ b;
	case BPF_LSH: return b < 32 ? a << b : 0;
	case BPF_RSH: return b < 32 ? a >> b : 0;
	default: return -a; /* BPF_NEG */
	}
}

static bool holds(unsigned op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ: return a == b;
	case BPF_JGT: return a > b;
	case BPF_JGE: return a >= b;
	default: return a & b; /* BPF_JSET */
	}
}

static uint32_t load(const struct registers *r, const struct sock_filter *i,
		     const struct seccomp_data *d)
{
	uint32_t v = 0;

	switch (BPF_MODE(i->code)) {
	case BPF_IMM: return i->k;
	case BPF_LEN: return sizeof(*d);
	case BPF_MEM: return r->memory[i->k % BPF_MEMWORDS];
	default: /* BPF_ABS */
		if (i->k <= sizeof(*d) - sizeof(v))
			memcpy(&v, (const char *)d + i->k, sizeof(v));
		return v;
	}
}

/* Returns the distance of a jump. */
static size_t step(struct registers *r, const struct sock_filter *i, const struct seccomp_data *d)
{
	uint32_t operand = BPF_SRC(i->code) == BPF_X ? r->x : i->k;

	switch (BPF_CLASS(i->code)) {
	case BPF_LD: r->a = load(r, i, d); return 0;
	case BPF_LDX: r->x = load(r, i, d); return 0;
	case BPF_ST: r->memory[i->k % BPF_MEMWORDS] = r->a; return 0;
	case BPF_STX: r->memory[i->k % BPF_MEMWORDS] = r->x; return 0;
	case BPF_ALU: r->a = calculate(BPF_OP(i->code), r->a, operand); return 0;
	case BPF_JMP:
		if (BPF_OP(i->code) == BPF_JA)
			return i->k;
		return holds(BPF_OP(i->code), r->a, operand) ? i->jt : i->jf;
	default: /* BPF_MISC */
		if (BPF_MISCOP(i->code) == BPF_TAX)
			r->x = r->a;
		else
			r->a = r->x;
		return 0;
	}
}

/* What the filter returns for the call; a filter without an end allows it here. */
static uint32_t run(const struct sock_filter *code, size_t n, const struct seccomp_data *d)
{
	struct registers r = { 0 };

	for (size_t at = 0; at < n; at++) {
		if (BPF_CLASS(code[at].code) == BPF_RET)
			return BPF_RVAL(code[at].code) == BPF_A ? r.a : code[at].k;
		at += step(&r, &code[at], d);
	}
	return SECCOMP_RET_ALLOW;
}

static enum filter_kill kills_any(const struct sock_filter *code, size_t n)
{
	enum filter_kill most = FILTER_KILLS_NOTHING;

	for (int nr = 0; nr < CALLS; nr++) {
		struct seccomp_data d = { .nr = nr, .arch = (uint32_t)ARCH };
		uint32_t action = run(code, n, &d) & SECCOMP_RET_ACTION_FULL;

		if (action == SECCOMP_RET_KILL_THREAD)
			return FILTER_KILLS_THREAD;
		if (action == SECCOMP_RET_KILL_PROCESS)
			most = FILTER_KILLS_PROCESS;
	}
	return most;
}

enum filter_kill filter_kills(const void *args)
{
	enum filter_kill kills = FILTER_KILLS_NOTHING;
	struct sock_filter *code;
	struct sock_fprog p;
	size_t bytes;

	if (!os_peek((uintptr_t)args, &p, sizeof(p)) || p.len == 0)
		return kills;
	bytes = p.len * sizeof(*code);
	code = os_reserve(bytes); /* malloc is not async-signal-safe */
	if (!code)
		return kills;
	if (os_peek((uintptr_t)p.filter, code, bytes))
		kills = kills_any(code, p.len);
	os_release(code, bytes);
	return kills;
}
