/* SPDX-License-Identifier: MIT */
/* Implementation of base/finding.h. */
#include "base/finding.h"

#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/srcline.h"
#include "base/symtab.h"

static const char *const systems[] = {
	"libc.so",  "libc-",    "ld-",       "libpthread",  "librt.so", "libm.so",    "libm-",
	"libdl.so", "libdl-",   "libstdc++", "libc++",      "libgcc_s", "libgmprt",   "libasan",
	"libtsan",  "libubsan", "liblsan",   "libclang_rt", "[vdso]",   "linux-vdso",
};

/* Bounds of gmp's code in the program or the shared library; NULL in a test that links some floors
 * only. */
extern const char gmp__text_begin[] __attribute__((weak, visibility("hidden")));
extern const char gmp__text_end[] __attribute__((weak, visibility("hidden")));

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool object_is_systems(const char *base)
{
	for (size_t i = 0; i < countof(systems); i++)
		if (starts_with(base, systems[i]))
			return true;
	return false;
}

bool finding_wanted(struct findings *f, uint64_t place)
{
	if (place == 0)
		place = 1;
	for (int i = 0; i < FINDINGS_MOST; i++) {
		uint64_t noted = ld_rlx(&f->place[i]);

		if (noted == 0 && cas_rlx(&f->place[i], &noted, place))
			return true;
		if (noted == place)
			return false;
	}
	return false;
}

bool finding_full(const struct findings *f)
{
	return ld_rlx(&f->place[FINDINGS_MOST - 1]) != 0;
}

bool code_is_gmps(uintptr_t pc)
{
	return pc >= (uintptr_t)gmp__text_begin && pc < (uintptr_t)gmp__text_end;
}

bool code_is_programs(uintptr_t pc)
{
	struct symbol s;

	return !code_is_gmps(pc) && symtab_find_sig(pc, &s) && !object_is_systems(s.object);
}

/* Called at each wait that breaks a rule, so it looks up no symbol. */
uint64_t finding_wait(const struct trace *t, const void *about)
{
	uint64_t subject = (uintptr_t)about * 0x9e3779b97f4a7c15u;
	int i = 0;

	while (i < t->n - 1 && code_is_gmps(t->pc[i]))
		i++;
	return t->n ? t->pc[i] ^ subject : subject;
}

int finding_frame(const struct trace *t)
{
	for (int i = 0; i < t->n; i++)
		if (code_is_programs(t->pc[i]))
			return i;
	return 0;
}

/* (a) Bits of FINDING_SEARCH: searches that run. Bits above: searches begun, modulo 2^24. */
static uint32_t searches;

uint32_t finding_searches(void)
{
	return ld_rlx(&searches);
}

/* Not inlined: the frame of finding_write is near its limit. */
static noinline bool source_position(uintptr_t pc, char *at, size_t room)
{
	add_rlx(&searches, FINDING_SEARCH + 1 + 1);
	bool found = srcline_find(pc, at, room);

	add_rlx(&searches, UINT32_MAX); /* subtracts 1 */
	return found;
}

void finding_call(struct line *l, const struct os_call *call)
{
	char what[80];

	line_add_sig(l, "in %s", call->name);
	if (call->fd < 0)
		return;
	line_add_sig(l, " of fd %u", (unsigned)call->fd);
	if (os_fd_name(call->fd, what, sizeof(what)))
		line_add_sig(l, " (%s)", what);
}

uintptr_t finding_entry(uintptr_t fn, const struct trace *t)
{
	int i = t->n - 1;

	if (!code_is_gmps(fn) || t->more)
		return fn;
	while (i >= 0 && code_is_gmps(t->pc[i]))
		i--;
	return i >= 0 ? trace_function(t->pc[i]) : fn;
}

void finding_place(struct line *l, uintptr_t pc)
{
	char at[128];

	line_sym_sig(l, pc);
	if (source_position(pc, at, sizeof(at)))
		line_add_sig(l, " (%s)", at);
}

/* A finding that fits into a page is one write, so that findings of two OS threads do not mix. */
struct page {
	size_t n;
	char text[3500];
};

/* Move l to the page. l is empty afterwards. */
static void page_add(struct page *page, struct line *l)
{
	if (page->n + l->n > sizeof(page->text)) {
		text_write_sig(STDERR_FILENO, page->text, page->n);
		page->n = 0;
	}
	memcpy(page->text + page->n, l->text, l->n);
	page->n += l->n;
	l->n = 0;
}

noinline void finding_write(struct line *l, struct line *advice, const struct trace *t, bool sig)
{
	struct page page;
	char at[128];

	page.n = 0;
	line_str_sig(l, "\n");
	page_add(&page, l);
	line_str_sig(l, "     ");
	page_add(&page, l);
	line_str_sig(advice, "\n");
	page_add(&page, advice);
	for (int i = 0; i < t->n; i++) {
		line_frame_sig(l, i, t->pc[i]);
		if (!sig && source_position(t->pc[i], at, sizeof(at))) {
			l->n--; /* the newline */
			line_add_sig(l, " at %s\n", at);
		}
		page_add(&page, l);
	}
	text_write_sig(STDERR_FILENO, page.text, page.n);
}
