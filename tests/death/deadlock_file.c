/* SPDX-License-Identifier: MIT */
/* Calls on a file, by workers of io_uring where the kernel makes some, do not prevent the report of
 * a deadlock. */
#include <fcntl.h>
#include <unistd.h>

#include "deadlock_util.h"

static void app(void *arg)
{
	char path[] = "/tmp/gmp-deadlock-XXXXXX", buf[4096] = "";

	(void)arg;
	int fd = mkstemp(path);

	NEED(fd >= 0);
	unlink(path);
	NEED(gmp_fd_adopt(fd) >= 0);
	for (int i = 0; i < 32; i++)
		NEED(gmp_pwrite(fd, buf, sizeof(buf), i * 4096) == sizeof(buf));
	NEED(gmp_fsync(fd) == 0);
	NEED(gmp_pread(fd, buf, sizeof(buf), 0) == sizeof(buf));
	wait_forever();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
