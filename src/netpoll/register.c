/* SPDX-License-Identifier: MIT */
/*
 * Records of fd numbers: opens, adopts, renews and closes them.
 *
 * Table: a chunk of records per 1,024 numbers, made at the first use and kept until the run has
 * ended.  Readers need no lock (netpoll_find).
 *
 * The kernel answers by the registration whether a number still has the same file: EPOLL_CTL_ADD
 * returns EEXIST if it has (netpoll_renew).  Invariants: NETPOLL-4, NETPOLL-5, NETPOLL-8 and
 * NETPOLL-9 of netpoll.h.
 */
#include <errno.h>

#include "base/os.h"
#include "netpoll/deadline.h"
#include "netpoll/netpoll.h"
#include "netpoll/owner.h"
#include "variant/variant.h"

static uint32_t open_records; /* (a) */

/* --- the table --- */

static struct {
	struct lock lock; /* growth */
	uint32_t end;     /* (a) grows: past the last record */
} table;

struct polldesc **netpoll_chunks;

/* A run begins, or the child of a fork: no record is open. */
static void reset(void)
{
	st_rlx(&table.end, 0u);
	st_rlx(&open_records, 0u);
	deadlines_reset();
}

static size_t chunk_bytes(void)
{
	return round_up(POLL_CHUNK * sizeof(struct polldesc), PAGE);
}

int netpoll_init(void)
{
	netpoll_chunks = os_reserve(POLL_CHUNKS * sizeof(*netpoll_chunks));
	if (!netpoll_chunks)
		return -ENOMEM;
	reset();
	return gmp__poller.open();
}

static void chunk_free(struct polldesc *chunk)
{
	for (int k = 0; k < POLL_CHUNK; k++)
		owner_free(&chunk[k]);
	os_release(chunk, chunk_bytes());
}

void netpoll_fini(void)
{
	if (!netpoll_chunks)
		return;
	gmp__poller.close();
	for (int i = 0; i < POLL_CHUNKS; i++)
		if (netpoll_chunks[i])
			chunk_free(netpoll_chunks[i]);
	os_release(netpoll_chunks, POLL_CHUNKS * sizeof(*netpoll_chunks));
	netpoll_chunks = NULL;
}

static void record_init(struct polldesc *pd, int fd)
{
	pd->fd = fd;
	for (int i = 0; i < 2; i++)
		pd->side[i].deadline = pd->armed[i] = NEVER;
}

struct polldesc *netpoll_record(int fd)
{
	struct polldesc *pd = netpoll_find(fd), *chunk;

	if (pd || fd < 0 || fd >= POLL_CHUNK * POLL_CHUNKS)
		return pd;
	lock(&table.lock, LR_FDTABLE);
	if (!netpoll_chunks[fd / POLL_CHUNK] && (chunk = os_reserve(chunk_bytes()))) {
		for (int i = 0; i < POLL_CHUNK; i++)
			record_init(&chunk[i], fd / POLL_CHUNK * POLL_CHUNK + i);
		/* ORD(pd.chunk): the records first */
		st_rel(&netpoll_chunks[fd / POLL_CHUNK], chunk);
		st_rlx(&table.end, max_of(table.end, (uint32_t)(fd / POLL_CHUNK + 1) * POLL_CHUNK));
	}
	unlock(&table.lock, LR_FDTABLE);
	return netpoll_find(fd);
}

void netpoll_forget_all(void)
{
	table.lock = (struct lock){ 0 };
	reset();
	netpoll_chunks = NULL;
}

uint32_t netpoll_end(void)
{
	return ld_rlx(&table.end);
}

uint32_t netpoll_count(void)
{
	return ld_rlx(&open_records);
}

/* --- registration --- */

/* For a file that cannot be polled: is it the record's?  The poller cannot tell, but another file
 * has another id, and a file that was opened since has no mark. */
static bool known_file(struct polldesc *pd, uint64_t file, bool marked)
{
	return marked && ld_rlx(&pd->use) & PD_OPEN && ld_rlx(&pd->file) == file;
}

static uint64_t key_of(const struct polldesc *pd, uint32_t seq)
{
	return (uint64_t)seq << 32 | (uint32_t)(pd->fd + 1); /* never 0; the number is below 2^24 */
}

/*
 * Register the number's present file with that seq.  Returns -EEXIST if it is registered.  If there
 * may be an orphan (polldesc.orphaned), the file may be a former file that dup2() has restored: its
 * registration has an old key, so its events would be dropped.  It gets the present key.
 */
static int register_file(struct polldesc *pd, uint32_t seq)
{
	int err;

	if (unlikely(pd->polled)) {
		err = gmp__poller.rekey(pd->fd, key_of(pd, seq));
		if (err != -ENOENT)
			return err;
	}
	err = gmp__poller.add(pd->fd, key_of(pd, seq));
	if (likely(err != -EEXIST) || !pd->orphaned)
		return err;
	if (!(ld_rlx(&pd->use) & PD_OPEN))
		return gmp__poller.rekey(pd->fd, key_of(pd, seq));
	err = gmp__poller.rekey(pd->fd, key_of(pd, ld_rlx(&pd->seq)));
	return err ? err : -EEXIST;
}

/* Ask the poller for the file.  Returns 0: it is registered now, or *err is set; otherwise the id
 * of a file that cannot be polled. */
static uint64_t ask_poller(struct polldesc *pd, unsigned how, uint32_t seq, int *err)
{
	uint64_t file = how & OPEN_PATH ? os_stored_file_id(pd->fd) : 0;

	*err = file ? 0 : register_file(pd, seq);
	if (*err == -EBADF && how & OPEN_PATH) /* it has just been opened, so with O_PATH */
		*err = -EPERM;
	if (*err != -EPERM)
		return file;
	*err = 0;
	return os_file_id(pd->fd);
}

/* Under pd->lock: a plain close() has closed the record's file, and removed its registration unless
 * a dup is open. */
static void drop_file(struct polldesc *pd, struct glist *out)
{
	netpoll_wake_all(pd, -ECANCELED, out);
	multi_event(pd, POLL_HUNG, 0, out); /* these calls ask the kernel again */
	pd->orphaned = true;
}

/* Under pd->lock: reset what the record knows of its file. */
static void begin_file(struct polldesc *pd, uint32_t seq, uint64_t file, bool was_blocking)
{
	st_rlx(&pd->seq, seq);
	st_rlx(&pd->tcp, false);
	st_rlx(&pd->plain, (uint8_t)0);
	st_rlx(&pd->file, file);
	st_rlx(&pd->to_disk, (uint8_t)0);
	pd->blocking = was_blocking;
	pd->polled = false;
	st_rlx(&pd->ended, (uint8_t)PD_GOES_ON);
	st_rlx(&pd->hup, !gmp__poller.reports_urgent);
	for (int i = 0; i < 2; i++) {
		st_rlx(&pd->side[i].drained, pd->side[i].events - 1);
		st_rlx(&pd->side[i].token_out, false);
	}
}

static unsigned to_disk(int fd, unsigned how)
{
	return how & OPEN_PATH ? how >> OPEN_TO_DISK : os_to_disk(fd);
}

int netpoll_open(int fd, unsigned how, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (!pd)
		return os_is_open(fd) ? -ENOMEM : -EBADF;
	int err = owner_lock(pd);

	if (err)
		return err;
	/* ORD(pd.use): after the last use of the former file */
	uint32_t before = ld_acq(&pd->use), seq = pd->seq + 1; /* NETPOLL-9 */

	if (before & PD_CLOSING) {
		unlock(&pd->lock, LR_POLLDESC);
		return -EAGAIN;
	}
	uint64_t file = ask_poller(pd, how, seq, &err);

	bool marked = file && os_mark(fd);

	if (file && how & OPEN_ELSEWHERE && known_file(pd, file, marked))
		err = -EEXIST;
	int changed = !err && !file && how & OPEN_ELSEWHERE ? os_nonblock(fd, true) : 0;

	if (changed < 0) { /* a call on it would block the M */
		gmp__poller.del(fd);
		pd->polled = false;
		multi_event(pd, POLL_HUNG, 0, out);
		err = changed;
	}
	if (!err) {
		bool cut = how & OPEN_TCP && variant_shortens_io();

		if (before & PD_OPEN)
			drop_file(pd, out);
		else
			add_rlx(&open_records, 1);
		deadlines_clear(pd);
		begin_file(pd, seq, file, changed > 0);
		st_rlx(&pd->opened, seq);
		owner_change(pd, how & OPEN_ELSEWHERE, seq);
		st_rlx(&pd->tcp, how & OPEN_TCP && !cut);
		st_rlx(&pd->plain, (uint8_t)(cut ? PD_SHORT : 0));
		st_rlx(&pd->to_disk, (uint8_t)(file ? to_disk(fd, how) : 0));
		or_seq(&pd->use, PD_OPEN); /* ORD(pd.use): the record first */
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

/* Undo a registration that a check has made, and restore seq. */
static void unregister(struct polldesc *pd, uint32_t seq)
{
	gmp__poller.del(pd->fd);
	pd->orphaned = true; /* another thread may have closed the number meanwhile */
	pd->polled = false;
	st_rlx(&pd->seq, seq);
}

/* The registration is also the check: the kernel answers -EEXIST for a file that is registered, and
 * changes nothing.  EPOLL_CTL_MOD costs more, and reports a socket that waits for data as writable
 * each time. */
int netpoll_renew(struct polldesc *pd, struct glist *out)
{
	uint32_t seq = pd->seq + 1; /* NETPOLL-9 */
	int err = register_file(pd, seq);

	if (likely(err))
		return err == -EEXIST ? 0 : err;
	gmp__poller.verify();
	bool other = !owner_is_self(pd);

	if (other && !owner_has_room(pd)) {
		unregister(pd, seq);
		return NEEDS_ROOM;
	}
	int changed = os_nonblock(pd->fd, true);

	if (changed < 0) {
		gmp__poller.del(pd->fd);
		return changed;
	}
	drop_file(pd, out);
	begin_file(pd, seq, 0, changed > 0);
	if (other)
		owner_change(pd, true, seq);
	return 1;
}

int netpoll_ask(struct polldesc *pd)
{
	return register_file(pd, pd->seq + 1); /* NETPOLL-9 */
}

int netpoll_arm(struct polldesc *pd, short events, struct glist *out)
{
	uint32_t seq = pd->seq + 1; /* NETPOLL-9 */
	int err = -ENOENT;

	if (likely(pd->polled))
		err = gmp__poller.once(pd->fd, key_of(pd, pd->seq), events, false);
	if (likely(err != -ENOENT))
		return err;
	err = gmp__poller.once(pd->fd, key_of(pd, seq), events, true);
	if (err == -EEXIST) /* made by netpoll_ask; or an orphan that dup2() has restored */
		err = gmp__poller.once(pd->fd, key_of(pd, seq), events, false);
	if (err)
		return err;
	if (pd->polled || (ld_rlx(&pd->use) & PD_OPEN))
		drop_file(pd, out);
	begin_file(pd, seq, 0, false);
	pd->polled = true;
	return 0;
}

void netpoll_close_number(struct polldesc *pd, struct glist *out)
{
	lock(&pd->lock, LR_POLLDESC);
	st_rlx(&pd->closes, pd->closes + 1);
	st_rlx(&pd->plain, (uint8_t)0);
	multi_close(pd, true, out);
	if (pd->polled) {
		if (gmp__poller.del(pd->fd))
			pd->orphaned = true;
		pd->polled = false;
	}
	unlock(&pd->lock, LR_POLLDESC);
}

bool netpoll_is_registered(struct polldesc *pd)
{
	uint32_t seq = pd->seq + 1; /* NETPOLL-9 */

	int err = pd->polled ? gmp__poller.add(pd->fd, key_of(pd, seq)) : register_file(pd, seq);

	if (unlikely(err == -EEXIST && pd->polled && pd->orphaned))
		return false; /* it may be that of a former file, which dup2() has restored */
	if (likely(err))
		return err != -EBADF && err != -EPERM; /* no room: unknown, so assume it is */
	gmp__poller.verify();
	unregister(pd, seq);
	return false;
}

/* Under pd->lock: remove the registration, which would outlive the number if the file has other
 * numbers.  Returns true if the number's file is not the record's, or closed. */
static bool end_registration(struct polldesc *pd)
{
	if (ld_rlx(&pd->file))
		return false;                                   /* unknown */
	bool gone = gmp__poller.del(pd->fd) != 0 || pd->polled; /* MULTI-5 */

	if (gone)
		pd->orphaned = true;
	return gone;
}

int netpoll_shut(struct polldesc *pd, struct glist *out)
{
	int err = -EBADF;

	lock(&pd->lock, LR_POLLDESC);
	if ((ld_rlx(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN)
		err = owner_lost(pd) ? -ESTALE : 0;
	if (!err) {
		or_seq(&pd->use, PD_CLOSING); /* ORD(pd.use): no use begins after this */
		netpoll_wake_all(pd, -ECANCELED, out);
		deadlines_clear(pd);
		pd->gone = end_registration(pd);
		pd->taken = pd->gone && pd->entries;
		if (pd->gone)
			pd->blocking = false;
		owner_closes(pd);
		pd->polled = false;
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

void netpoll_forget(struct polldesc *pd)
{
	and_seq(&pd->use, ~(uint32_t)(PD_OPEN | PD_CLOSING)); /* ORD(pd.use): free for the next */
	add_rlx(&open_records, -1u);
}
