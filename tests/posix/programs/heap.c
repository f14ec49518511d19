/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: heap PARAMETER VALUE SIZE calls mallopt(PARAMETER, VALUE), and prints its
 * result and whether malloc makes mappings for blocks of SIZE bytes. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 200 }; /* more than the heap has room for without growing */

int main(int argc, char **argv)
{
	static void *blocks[BLOCKS];

	if (argc != 4)
		return 2;
	int parameter = strcmp(argv[1], "threshold") == 0 ? M_MMAP_THRESHOLD : atoi(argv[1]);
	int result = mallopt(parameter, atoi(argv[2]));
	size_t before = mallinfo2().hblks;

	for (int i = 0; i < BLOCKS; i++)
		if (!(blocks[i] = malloc((size_t)atol(argv[3]))))
			return 3;
	printf("%d %s\n", result, mallinfo2().hblks > before ? "mapping" : "heap");
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return 0;
}
