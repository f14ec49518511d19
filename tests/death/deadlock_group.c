/* SPDX-License-Identifier: MIT */
/* Deadlock of many green threads that wait alike: one block lists all their ids. */
#include "alike.h"

int main(void)
{
	return run_alike();
}
