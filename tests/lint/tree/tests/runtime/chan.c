/* SPDX-License-Identifier: MIT */
/* Tests of channels. */
#include "rt.h"

TEST(send_to_closed_channel_returns_epipe)
{
	CHECK_EQ(gmp_chan_send(NULL, NULL), -EPIPE);
}
