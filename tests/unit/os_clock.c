/* SPDX-License-Identifier: MIT */
/*
 * Tests that os_now reads the kernel's clock without libc's clock_gettime, with the vDSO and
 * without it.  The wrappers count the calls of libc, and hide the vDSO.
 *
 * floors 0..0
 * wrap: clock_gettime getauxval syscall
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/os.h"

#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static const void *image; /* what auxv shows instead of the vDSO, if hidden */
static bool hidden;
static int by_libc, by_kernel;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	by_libc++;
	return __real_clock_gettime(clock, t);
}

unsigned long __wrap_getauxval(unsigned long type)
{
	if (hidden && type == AT_SYSINFO_EHDR)
		return (unsigned long)image;
	return __real_getauxval(type);
}

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	by_kernel += number == SYS_clock_gettime;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int64_t kernel_now(clockid_t clock)
{
	struct timespec t;

	CHECK_EQ(__real_syscall(SYS_clock_gettime, clock, &t), 0);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void check_clocks(void)
{
	int libc = by_libc;

	for (int i = 0; i < 1000; i++) {
		int64_t before = kernel_now(CLOCK_MONOTONIC), now = os_now();

		CHECK(before <= now && now <= kernel_now(CLOCK_MONOTONIC));
		before = kernel_now(CLOCK_THREAD_CPUTIME_ID);
		now = os_cpu_time();
		CHECK(before <= now && now <= kernel_now(CLOCK_THREAD_CPUTIME_ID));
	}
	CHECK_EQ(by_libc, libc);
}

static void need_os_clock(void)
{
#ifdef SAN_THREAD
	check_skip("ThreadSanitizer needs libc's clock_gettime");
#endif
}

TEST(os_now_is_the_vdsos_clock)
{
	need_os_clock();
	if (!getauxval(AT_SYSINFO_EHDR))
		check_skip("the kernel maps no vDSO");
	check_clocks();
	CHECK_EQ(by_kernel, 0);
}

TEST(os_now_without_a_vdso_is_the_kernels_clock)
{
	need_os_clock();
	hidden = true;
	check_clocks();
	CHECK(by_kernel >= 2000);
}

TEST(os_now_without_an_elf_image_is_the_kernels_clock)
{
	static const char text[sizeof(ElfW(Ehdr))] = "no image";

	need_os_clock();
	hidden = true;
	image = text;
	check_clocks();
	CHECK(by_kernel >= 2000);
}

TEST(os_now_with_an_image_without_symbols_is_the_kernels_clock)
{
	static ElfW(Ehdr) head;

	need_os_clock();
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	hidden = true;
	image = &head;
	check_clocks();
	CHECK(by_kernel >= 2000);
}

/* The image has one symbol, of another name, in a table of either kind of hash. */
static struct {
	ElfW(Ehdr) head;
	ElfW(Phdr) ph[2];
	ElfW(Dyn) dynamic[4];
	ElfW(Sym) symbol[2];
	char names[16];
	uint32_t hash[16];
} made;

#define AT(field) ((uintptr_t)&made.field - (uintptr_t)&made)

static void make_image(ElfW(Sxword) hash_kind)
{
	memcpy(made.head.e_ident, ELFMAG, SELFMAG);
	made.head.e_phoff = AT(ph);
	made.head.e_phnum = 2;
	made.ph[0].p_type = PT_LOAD;
	made.ph[1].p_type = PT_DYNAMIC;
	made.ph[1].p_offset = AT(dynamic);
	made.dynamic[0].d_tag = DT_SYMTAB;
	made.dynamic[0].d_un.d_ptr = AT(symbol);
	made.dynamic[1].d_tag = DT_STRTAB;
	made.dynamic[1].d_un.d_ptr = AT(names);
	made.dynamic[2].d_tag = hash_kind;
	made.dynamic[2].d_un.d_ptr = AT(hash);
	memcpy(made.names, "\0other", 7);
	made.symbol[1].st_name = 1;
	made.symbol[1].st_shndx = 1;
	made.symbol[1].st_value = AT(head); /* no code */
	hidden = true;
	image = &made;
}

TEST(os_now_with_another_symbol_is_the_kernels_clock)
{
	need_os_clock();
	make_image(DT_HASH);
	made.hash[1] = 2; /* symbols */
	check_clocks();
	CHECK(by_kernel >= 2000);
}

TEST(os_now_with_another_symbol_and_gnu_hash_is_the_kernels_clock)
{
	need_os_clock();
	make_image(DT_GNU_HASH);
	made.hash[0] = 1; /* buckets */
	made.hash[1] = 1; /* the first symbol */
	made.hash[2] = 1; /* words of the filter */
	made.hash[6] = 1; /* the bucket: its first symbol */
	made.hash[7] = 1; /* the chain: its end */
	check_clocks();
	CHECK(by_kernel >= 2000);
}
