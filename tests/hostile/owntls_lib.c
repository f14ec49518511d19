/* SPDX-License-Identifier: MIT */
/* A library with thread-locals, for owntls.c.  With -DSTATIC they have fixed offsets, so that
 * dlopen initializes them in all threads. */
#ifdef STATIC
#define MODEL __attribute__((tls_model("initial-exec")))
#else
#define MODEL
#endif

static __thread int value MODEL = 31;
static __thread char text[200] MODEL = "loaded";
static __thread long zero MODEL;

int lib_check(int number)
{
	return value == number && zero == (number == 31 ? 0 : number) &&
	       text[0] == (number == 31 ? 'l' : (char)number) && text[1] == 'o';
}

void lib_set(int number)
{
	value = number;
	zero = number;
	text[0] = (char)number;
}
