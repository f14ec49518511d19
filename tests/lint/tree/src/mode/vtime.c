/* SPDX-License-Identifier: MIT */
/* Virtual time: the clock advances to the next timer if no G is runnable. */

const char *vtime_message(void)
{
	return "the clock does not advance";
}
