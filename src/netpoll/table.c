/* SPDX-License-Identifier: MIT */
/*
 * Table of poll records: a chunk of records per 1,024 fd numbers, made at the first use and kept
 * until the run has ended.  Readers need no lock (netpoll_find).
 */
#include <errno.h>

#include "base/os.h"
#include "netpoll/deadline.h"
#include "netpoll/netpoll.h"
#include "netpoll/owner.h"
#include "netpoll/register.h"

static struct {
	struct lock lock; /* growth */
	uint32_t end;     /* (a) grows: past the last record */
} table;

struct polldesc **netpoll_chunks;

static size_t chunk_bytes(void)
{
	return round_up(POLL_CHUNK * sizeof(struct polldesc), PAGE);
}

int netpoll_init(void)
{
	netpoll_chunks = os_reserve(POLL_CHUNKS * sizeof(*netpoll_chunks));
	if (!netpoll_chunks)
		return -ENOMEM;
	registrations_reset();
	deadlines_reset();
	st_rlx(&table.end, 0u);
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
	deadlines_init(pd);
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
	__builtin_memset(&table, 0, sizeof(table));
	registrations_reset();
	deadlines_reset();
	netpoll_chunks = NULL;
}

uint32_t netpoll_end(void)
{
	return ld_rlx(&table.end);
}
