/* SPDX-License-Identifier: MIT */
/* Tests name lookup through libc's resolver with a name server that never answers. */
#define _GNU_SOURCE 1
#include "io/io_util.h"

#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

/* A name server that counts the datagrams it receives and answers none. */
struct server {
	int fd;
	atomic_int asked;
	gmp_g *g;
};

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static bool loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &r) == 0;

	close(fd);
	return up;
}

/*
 * Enter own network and mount namespaces with name server 127.0.0.1, a timeout of 5 seconds and one
 * attempt.  Returns false if the system does not permit it.
 */
static bool enter_namespaces(void)
{
	char conf[] = "/tmp/gmp-resolv-XXXXXX", nsswitch[] = "/tmp/gmp-nss-XXXXXX", map[64];
	unsigned uid = getuid(), gid = getgid();
	int a, b;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0)
		return false;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
	a = mkstemp(conf);
	b = mkstemp(nsswitch);
	CHECK(a >= 0 && b >= 0);
	close(a);
	close(b);
	write_file(conf, "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n");
	write_file(nsswitch, "hosts: files dns\n");
	bool done = loopback_up() && mount(conf, "/etc/resolv.conf", "", MS_BIND, NULL) == 0 &&
		    mount(nsswitch, "/etc/nsswitch.conf", "", MS_BIND, NULL) == 0;

	unlink(conf);
	unlink(nsswitch);
	return done;
}

static void receive_and_ignore(void *arg)
{
	struct server *s = arg;
	char query[512];

	while (gmp_read(s->fd, query, sizeof(query)) > 0)
		atomic_fetch_add(&s->asked, 1);
}

static void begin(struct server *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };

	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(s->fd >= 0);
	CHECK_EQ(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(gmp_fd_adopt(s->fd), s->fd);
	atomic_store(&s->asked, 0);
	s->g = spawn(receive_and_ignore, s);
}

static void end(struct server *s)
{
	CHECK_EQ(gmp_close(s->fd), 0);
	join(s->g);
}

static void look_up(void *arg)
{
	int64_t deadline = *(const int64_t *)arg, began = gmp_now();
	struct addrinfo *a = NULL;

	CHECK_EQ(gmp_getaddrinfo_until("absent.test", "80", NULL, &a, deadline), EAI_AGAIN);
	CHECK(a == NULL);
	if (deadline == GMP_FOREVER)
		CHECK(gmp_now() - began >= 5 * SEC); /* libc itself gave up */
	else
		CHECK(gmp_now() >= deadline);
}

static void look_up_all(UNUSED void *arg)
{
	int64_t began = gmp_now(), soon = gmp_deadline(500 * MS), forever = GMP_FOREVER;
	struct ext_thread f;
	struct server s;
	gmp_g *g[10], *patient;

	begin(&s);
	patient = spawn(look_up, &forever);
	for (int i = 0; i < 10; i++)
		g[i] = spawn(look_up, &soon);
	ext_thread_start(&f, look_up, &soon);
	for (int i = 0; i < 100; i++)
		gmp_sleep(MS);
	for (int i = 0; i < 10; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(gmp_dial_until("tcp", "absent.test:80", gmp_deadline(50 * MS)), -ETIMEDOUT);
	CHECK(SLOW || gmp_now() - began < 5 * SEC); /* no other G was held up */
	join(patient);
	CHECK(atomic_load(&s.asked) > 0);
	end(&s);
}

TEST_PROCS(lookup_with_silent_name_server_ends_at_deadline)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	if (!enter_namespaces())
		check_skip("the system permits no network namespace");
	CHECK_EQ(gmp_run(look_up_all, NULL, &c), 0);
}
