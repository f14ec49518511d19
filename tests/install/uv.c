/* SPDX-License-Identifier: MIT */
/* A program outside the project, in C and C++, that runs a loop of libuv in a green thread. */
#include <gmp.h>
#include <gmp_uv.h>

static void on_timer(uv_timer_t *t)
{
	*(int *)t->data = gmp_self() != NULL;
	uv_close((uv_handle_t *)t, NULL);
}

static int start_never(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	(void)loop;
	(void)arg;
	gmp_uv_done(w, 0);
	return 0;
}

static void app(void *ran)
{
	uv_loop_t loop;
	uv_timer_t t;

	if (uv_loop_init(&loop) != 0 || uv_timer_init(&loop, &t) != 0)
		return;
	t.data = ran;
	uv_timer_start(&t, on_timer, 1, 0);
	if (gmp_uv_run(&loop) != 0 || uv_loop_close(&loop) != 0 ||
	    gmp_uv_await(&loop, start_never, NULL) != -ESRCH)
		*(int *)ran = 0;
}

int main(void)
{
	int ran = 0;

	return gmp_run(app, &ran, NULL) != 0 || !ran;
}
