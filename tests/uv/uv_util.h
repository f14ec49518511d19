/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of gmp_uv.h: loops, and handles that end them. */
#ifndef TESTS_UV_UTIL_H
#define TESTS_UV_UTIL_H

#include <gmp_uv.h>

#include "util.h"

#define HANDLE(h) ((uv_handle_t *)(h))

static inline void loop_init(uv_loop_t *loop)
{
	CHECK_EQ(uv_loop_init(loop), 0);
}

/* All handles must be closed already. */
static inline void loop_close(uv_loop_t *loop)
{
	CHECK_EQ(uv_loop_close(loop), 0);
}

static inline void run_out(uv_loop_t *loop)
{
	CHECK_EQ(gmp_uv_run(loop), 0);
}

static inline void close_async(uv_async_t *a)
{
	uv_close(HANDLE(a), NULL);
}

static inline void close_timer(uv_timer_t *t)
{
	uv_close(HANDLE(t), NULL);
}

/* A loop that a green thread runs until end_loop. */
struct served {
	uv_loop_t loop;
	uv_async_t end;
	uv_timer_t begun;
	gmp_g *g;
	atomic_int ready;
	int result;
};

static inline void serve(void *arg)
{
	struct served *s = arg;

	s->result = gmp_uv_run(&s->loop);
}

static inline void note_ready(uv_handle_t *h)
{
	atomic_store(&((struct served *)h->data)->ready, 1);
}

static inline void close_begun(uv_timer_t *t)
{
	uv_close(HANDLE(t), note_ready);
}

/* Returns when the loop runs, so that gmp_uv_await finds it. */
static inline void begin_loop(struct served *s)
{
	memset(s, 0, sizeof(*s));
	loop_init(&s->loop);
	CHECK_EQ(uv_async_init(&s->loop, &s->end, close_async), 0);
	CHECK_EQ(uv_timer_init(&s->loop, &s->begun), 0);
	CHECK_EQ(uv_timer_start(&s->begun, close_begun, 0, 0), 0);
	s->begun.data = s;
	s->g = spawn(serve, s);
	WAIT_FOR(atomic_load(&s->ready));
}

static inline void end_loop(struct served *s)
{
	CHECK_EQ(uv_async_send(&s->end), 0);
	join(s->g);
	CHECK_EQ(s->result, 0);
	loop_close(&s->loop);
}

#endif
