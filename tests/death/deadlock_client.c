/* SPDX-License-Identifier: MIT */
/* A client that stays connected to the debug server, and asks again and again, does not prevent the
 * report of a deadlock. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "deadlock_util.h"

static const char request[] = "GET /debug/vars HTTP/1.1\r\nHost: localhost\r\n\r\n";
static char addr[64];

/* A process of its own: an external thread would prevent the report. */
static void client(int port_from, int answered_to)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char buf[4096];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(to.sun_path, addr);
	NEED(fd >= 0 && read(port_from, buf, 1) == 1);
	NEED(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	for (int i = 0; write(fd, request, sizeof(request) - 1) > 0; i++) {
		if (read(fd, buf, sizeof(buf)) <= 0)
			break;
		if (i == 2 && write(answered_to, "", 1) != 1)
			break;
		usleep(100000);
	}
	_exit(0);
}

static int listening[2], answered[2];

static void app(void *arg)
{
	char text[80], c;

	(void)arg;
	snprintf(text, sizeof(text), "unix:%s", addr);
	NEED(gmp_debug_listen(text) >= 0);
	NEED(write(listening[1], "", 1) == 1);
	NEED(gmp_fd_adopt(answered[0]) >= 0);
	NEED(gmp_read(answered[0], &c, 1) == 1);
	unlink(addr);
	wait_forever();
}

int main(void)
{
	snprintf(addr, sizeof(addr), "/tmp/gmp-deadlock-%d", (int)getpid());
	NEED(pipe(listening) == 0 && pipe(answered) == 0);
	signal(SIGPIPE, SIG_IGN);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client(listening[0], answered[1]);
	}
	gmp_run(app, NULL, NULL);
	return 0;
}
