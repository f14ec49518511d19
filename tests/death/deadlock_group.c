/* SPDX-License-Identifier: MIT */
/* Many that wait alike: one block with all their numbers. */
#include "alike.h"

int main(void)
{
	return run_alike();
}
