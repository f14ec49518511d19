/* SPDX-License-Identifier: MIT */
/*
 * gmp-run: runs a program with pthreads so that its threads are green threads.
 *
 * It checks the program, preloads libgmprt_posix, and executes the program in its own process.
 * docs/api/gmp-run.md describes it; posix/program/run_main.c is the other side of the mark GMP_RUN.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	CANNOT_RUN = 126,
	NOT_FOUND = 127,
	USAGE = 2,
	SCRIPTS_MOST = 4,
	HEAD = 256,
	NAMES_MOST = 1 << 28
};

static const char help[] =
	"Usage: gmp-run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"\n"
	"Runs PROGRAM so that its threads are green threads of gmp: main and each thread of\n"
	"pthread_create and thrd_create run on a few OS threads, and calls that would block\n"
	"park the green thread.  PROGRAM is not changed.\n"
	"\n"
	"  --procs N       at most N green threads run at once (as GMP_PROCS=N; default: the "
	"CPUs)\n"
	"  --no-children   programs that PROGRAM starts run without gmp\n"
	"  --keep-mallopt  pass on mallopt(M_MMAP_THRESHOLD), see docs/api/gmp-run.md\n"
	"  --help          this text\n"
	"  --version       the version\n"
	"\n"
	"PROGRAM must be a dynamically linked program for this machine and this libc (glibc), or "
	"a\n"
	"script whose interpreter is.  A program with the set-user-ID or set-group-ID bit or with\n"
	"capabilities is refused, since the dynamic linker ignores LD_PRELOAD for it.\n"
	"\n"
	"Environment of PROGRAM: LD_PRELOAD gets libgmprt_posix.so as its first entry, and GMP_RUN "
	"is\n"
	"set.  GMP_PROCS, GMP_STACK_SIZE, GMP_DEBUG and the other settings of gmp work.\n"
	"\n"
	"Exit status: that of PROGRAM; 2 after wrong usage, 126 if PROGRAM cannot be run, 127 if "
	"it\n"
	"is not found.\n";

static __attribute__((noreturn, format(printf, 2, 3))) void refuse(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("gmp-run: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(status);
}

/* --- the program --- */

/* What is read of a file: its first bytes, and of an ELF file its interpreter and its sanitizer. */
struct image {
	char head[HEAD];
	size_t n;
	ElfW(Ehdr) elf;
	char interp[PATH_MAX]; /* "": none */
	bool runs_stack;       /* it needs a stack that can be executed */
	const char *sanitizer; /* that it is compiled with, or NULL */
};

static bool read_at(int fd, void *to, size_t n, off_t at)
{
	return pread(fd, to, n, at) == (ssize_t)n;
}

static bool read_segment(int fd, const struct image *i, int k, ElfW(Phdr) * ph)
{
	off_t at = (off_t)i->elf.e_phoff + k * (off_t)sizeof(*ph);

	return k < i->elf.e_phnum && read_at(fd, ph, sizeof(*ph), at);
}

/* Returns where the file has the address, or -1. */
static off_t offset_of(int fd, const struct image *i, ElfW(Addr) address)
{
	ElfW(Phdr) ph;

	for (int k = 0; read_segment(fd, i, k, &ph); k++)
		if (ph.p_type == PT_LOAD && address - ph.p_vaddr < ph.p_filesz)
			return (off_t)(address - ph.p_vaddr + ph.p_offset);
	return -1;
}

/* The names of the program's symbols for the dynamic linker.  Returns NULL without any; otherwise
 * the caller frees them. */
static char *read_names(int fd, const struct image *i, const ElfW(Phdr) * dynamic, size_t *n)
{
	ElfW(Addr) table = 0;
	ElfW(Dyn) d;
	char *names;
	off_t at;

	*n = 0;
	for (size_t k = 0; (k + 1) * sizeof(d) <= dynamic->p_filesz; k++) {
		if (!read_at(fd, &d, sizeof(d), (off_t)(dynamic->p_offset + k * sizeof(d))))
			return NULL;
		if (d.d_tag == DT_STRTAB)
			table = d.d_un.d_ptr;
		if (d.d_tag == DT_STRSZ)
			*n = d.d_un.d_val;
	}
	at = offset_of(fd, i, table);
	names = *n && *n <= NAMES_MOST && at >= 0 ? malloc(*n) : NULL;
	if (names && read_at(fd, names, *n, at))
		return names;
	free(names);
	return NULL;
}

/* A program that is compiled with a sanitizer calls a function of it first. */
static void find_sanitizer(int fd, struct image *i, const ElfW(Phdr) * dynamic)
{
	static const char *const known[][2] = {
#define SANITIZER(init, name) { #init, name },
#include "posix/program/sanitizers.def"
#undef SANITIZER
	};
	size_t n;
	char *names = read_names(fd, i, dynamic, &n);

	for (size_t k = 0; names && k < sizeof(known) / sizeof(known[0]); k++)
		if (memmem(names, n, known[k][0], strlen(known[k][0]) + 1))
			i->sanitizer = known[k][1];
	free(names);
}

static void read_segments(int fd, struct image *i)
{
	ElfW(Phdr) ph;

	for (int k = 0; read_segment(fd, i, k, &ph); k++) {
		if (ph.p_type == PT_DYNAMIC)
			find_sanitizer(fd, i, &ph);
		if (ph.p_type == PT_GNU_STACK)
			i->runs_stack = ph.p_flags & PF_X;
		if (ph.p_type == PT_INTERP && ph.p_filesz < sizeof(i->interp) &&
		    !read_at(fd, i->interp, ph.p_filesz, (off_t)ph.p_offset))
			i->interp[0] = 0;
	}
}

static bool is_elf(const struct image *i)
{
	return i->n >= sizeof(i->elf) && memcmp(i->head, ELFMAG, SELFMAG) == 0;
}

/* Of this machine and word size. */
static bool is_native(const struct image *i, const struct image *own)
{
	return i->elf.e_ident[EI_CLASS] == own->elf.e_ident[EI_CLASS] &&
	       i->elf.e_ident[EI_DATA] == own->elf.e_ident[EI_DATA] &&
	       i->elf.e_machine == own->elf.e_machine;
}

static void read_image(const char *path, struct image *i)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	memset(i, 0, sizeof(*i));
	if (fd < 0)
		refuse(CANNOT_RUN, "%s: %s", path, strerror(errno));
	ssize_t n = pread(fd, i->head, sizeof(i->head) - 1, 0);

	if (n < 0)
		refuse(CANNOT_RUN, "%s: %s", path, strerror(errno));
	i->n = (size_t)n;
	if (is_elf(i)) {
		memcpy(&i->elf, i->head, sizeof(i->elf));
		if (i->elf.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
		    i->elf.e_phentsize == sizeof(ElfW(Phdr)))
			read_segments(fd, i);
	}
	close(fd);
}

static void check_rights(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		refuse(CANNOT_RUN, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		refuse(CANNOT_RUN, "%s is not a file that can be executed", path);
	if (access(path, X_OK))
		refuse(CANNOT_RUN, "%s: %s", path, strerror(errno));
	if ((st.st_mode & S_ISUID && st.st_uid != getuid()) ||
	    (st.st_mode & S_ISGID && st.st_gid != getgid()))
		refuse(CANNOT_RUN,
		       "%s has the set-user-ID or set-group-ID bit: the dynamic linker would "
		       "ignore LD_PRELOAD",
		       path);
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		refuse(CANNOT_RUN,
		       "%s has capabilities: the dynamic linker would ignore LD_PRELOAD", path);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void check_elf(const char *path, const struct image *i, const struct image *own)
{
	if (!is_native(i, own))
		refuse(CANNOT_RUN, "%s is a program for another machine than gmp-run", path);
	if (!i->interp[0])
		refuse(CANNOT_RUN,
		       "%s is linked statically: only a dynamically linked program can be run",
		       path);
	if (strcmp(last_part(i->interp), last_part(own->interp)) != 0)
		refuse(CANNOT_RUN, "%s uses another libc: its dynamic linker is %s, not %s", path,
		       i->interp, own->interp);
	if (i->sanitizer)
		refuse(CANNOT_RUN,
		       "%s is built with %s, which does not know the stacks of green threads", path,
		       i->sanitizer);
	if (i->runs_stack)
		refuse(CANNOT_RUN,
		       "%s needs a stack that can be executed (nested functions of GNU C?): those "
		       "of "
		       "green threads cannot",
		       path);
}

/* Refuses what cannot be run.  The interpreter of a script is checked instead of it. */
static void check_program(const char *path)
{
	struct image own, i;
	char interpreter[HEAD];

	read_image("/proc/self/exe", &own);
	for (int scripts = 0; scripts < SCRIPTS_MOST; scripts++) {
		check_rights(path);
		read_image(path, &i);
		if (is_elf(&i)) {
			check_elf(path, &i, &own);
			return;
		}
		if (sscanf(i.head, "#! %255s", interpreter) != 1)
			refuse(CANNOT_RUN, "%s is neither an ELF file nor a script", path);
		path = interpreter;
	}
	refuse(CANNOT_RUN, "%s: too many scripts that interpret each other", path);
}

/* Writes the path of the program, as execvp finds it, to `to`. */
static void find_program(const char *name, char *to)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/')) {
		if (strlen(name) >= PATH_MAX || access(name, F_OK))
			refuse(NOT_FOUND, "%s: %s", name, strerror(ENOENT));
		strcpy(to, name);
		return;
	}
	for (const char *d = dirs ? dirs : "/usr/bin:/bin"; d;) {
		size_t n = strcspn(d, ":");

		if (snprintf(to, PATH_MAX, "%.*s%s%s", (int)n, d, n ? "/" : "", name) < PATH_MAX &&
		    access(to, X_OK) == 0)
			return;
		d = d[n] ? d + n + 1 : NULL;
	}
	refuse(NOT_FOUND, "%s is not found", name);
}

/* --- the library --- */

/* Writes the path of the library, beside this program or as installed, to `to`. */
static void find_library(char *to)
{
	static const char *const places[] = { GMP_RUN_LIBRARY, "../libgmprt_posix.so.0" };
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		refuse(CANNOT_RUN, "/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		if (!realpath(path, to))
			continue;
		if (strpbrk(to, ": "))
			refuse(CANNOT_RUN,
			       "%s: the path has a space or a colon, which LD_PRELOAD cannot have",
			       to);
		return;
	}
	refuse(CANNOT_RUN, "libgmprt_posix.so.0 is not found (%s/%s)", self, places[0]);
}

static void set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		refuse(CANNOT_RUN, "%s: %s", name, strerror(errno));
}

static void preload(bool children)
{
	char library[PATH_MAX], *list;
	const char *before = getenv("LD_PRELOAD");

	find_library(library);
	if (asprintf(&list, "%s%s%s", library, before && before[0] ? ":" : "",
		     before ? before : "") < 0)
		refuse(CANNOT_RUN, "no memory");
	set_env("LD_PRELOAD", list);
	set_env("GMP_RUN", children ? "1" : "once");
	free(list);
}

/* --- options --- */

static void set_procs(const char *text)
{
	char *end;
	long n = text ? strtol(text, &end, 10) : 0;

	if (n < 1 || *end)
		refuse(USAGE, "--procs needs a number of at least 1");
	set_env("GMP_PROCS", text);
}

/* Returns the index of the program in argv. */
static int read_options(char **argv, bool *children)
{
	int i = 1;

	for (; argv[i] && argv[i][0] == '-'; i++) {
		const char *o = argv[i];

		if (strcmp(o, "--") == 0)
			return i + 1;
		if (strcmp(o, "--help") == 0 || strcmp(o, "--version") == 0) {
			fputs(o[2] == 'h' ? help : "gmp-run " GMP_RUN_VERSION "\n", stdout);
			exit(0);
		}
		if (strcmp(o, "--no-children") == 0)
			*children = false;
		else if (strcmp(o, "--keep-mallopt") == 0)
			set_env("GMP_MALLOPT", "1");
		else if (strcmp(o, "--procs") == 0)
			set_procs(argv[i + 1] ? argv[++i] : NULL);
		else if (strncmp(o, "--procs=", 8) == 0)
			set_procs(o + 8);
		else
			refuse(USAGE, "unknown option %s (gmp-run --help)", o);
	}
	return i;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	bool children = true;
	int at = argc > 0 ? read_options(argv, &children) : 0;

	if (at >= argc)
		refuse(USAGE, "no program (gmp-run --help)");
	find_program(argv[at], path);
	check_program(path);
	preload(children);
	execv(path, argv + at);
	refuse(CANNOT_RUN, "%s: %s", path, strerror(errno));
}
