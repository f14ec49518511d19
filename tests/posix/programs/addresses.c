/* SPDX-License-Identifier: MIT */
/*
 * Calls with bad addresses: prints the result of each call for each address, on the first thread
 * and on another one.  A call may end its process, which is a child.
 *
 * Left out: functions of libc that read and write the memory themselves before anything else
 * (locks, semaphores, pthread_create, pthread_join, names of hosts ...), which natively end by
 * SIGSEGV, and pthread_getcpuclockid, which is ENOENT for a green thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* --- addresses --- */

enum { LOW, NOWHERE, OF_KERNEL, READ_ONLY, ACROSS, ADDRESSES };
static const char *const address_names[] = { "low", "NULL", "of the kernel", "read-only",
					     "across" };
static void *addresses[ADDRESSES];

/* READ_ONLY: zeros.  ACROSS: four bytes, before a page without access. */
static void make_addresses(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *m = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || mprotect(m + page, page, PROT_NONE) ||
	    mprotect(m + 2 * page, page, PROT_READ))
		exit(3);
	addresses[LOW] = (void *)8;        /* NOLINT */
	addresses[OF_KERNEL] = (void *)-8; /* NOLINT */
	addresses[READ_ONLY] = m + 2 * page;
	addresses[ACROSS] = m + page - 4;
}

/* --- what the calls work on: each is ready --- */

static int tube[2], stream[2], gram[2], file, ep, listener, client;
static pid_t child;
static sigset_t usr1, none;
static const struct timespec now, soon = { 0, 200000000 };

static void handler(int signo)
{
	(void)signo;
}

static void make_listener(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t n = sizeof(a);
	int queued = socket(AF_UNIX, SOCK_STREAM, 0);

	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&a, sizeof(sa_family_t)) || listen(listener, 5) ||
	    getsockname(listener, (struct sockaddr *)&a, &n) ||
	    connect(queued, (struct sockaddr *)&a, n))
		exit(4);
}

static void make_ready(void)
{
	struct epoll_event e = { .events = EPOLLIN };

	if (pipe(tube) || socketpair(AF_UNIX, SOCK_STREAM, 0, stream) ||
	    socketpair(AF_UNIX, SOCK_DGRAM, 0, gram))
		exit(5);
	file = memfd_create("file", 0);
	ep = epoll_create1(0);
	epoll_ctl(ep, EPOLL_CTL_ADD, tube[0], &e);
	make_listener();
	if (write(tube[1], "12345678", 8) != 8 || write(stream[1], "12345678", 8) != 8 ||
	    write(gram[1], "12345678", 8) != 8 || write(file, "12345678", 8) != 8 ||
	    lseek(file, 0, SEEK_SET))
		exit(6);
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = handler }, NULL);
}

static pid_t ended_child(void)
{
	child = fork();
	if (child == 0)
		_exit(3);
	siginfo_t info;

	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	return child;
}

/* A signal is pending for the caller. */
static int pending(void)
{
	return raise(SIGUSR1);
}

static int alarm_soon(void)
{
	static const struct itimerval t = { { 0, 20000 }, { 0, 20000 } };

	return setitimer(ITIMER_REAL, &t, NULL);
}

/* --- calls --- */

static const char *text;
static long result;
static int error;

/* The call of that number; false: there are fewer. */
static bool call(int number, void *b)
{
	int n = 0;
	struct iovec v = { b, 8 }, good = { (char[8]){ "1234567" }, 8 };
	struct msghdr m = { .msg_iov = &good, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };
	struct msghdr m_iov = { .msg_iov = b, .msg_iovlen = 1 },
		      m_buf = { .msg_iov = &v, .msg_iovlen = 1 };
	struct msghdr m_name = {
		.msg_name = b, .msg_namelen = 16, .msg_iov = &good, .msg_iovlen = 1
	};
	struct mmsghdr mm_iov = { .msg_hdr = m_iov }, mm_buf = { .msg_hdr = m_buf };
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct pollfd p = { .fd = tube[0], .events = POLLIN };
	struct timeval tv = { 0, 0 };
	struct epoll_event e;
	uint32_t word = 0;
	int status, r;
	char *argv[] = { (char *)(uintptr_t) "true", NULL };

/* C: -1 and errno.  E: the result is an error.  P: a process id. */
#define RESULT(expression)                                                                         \
	if (n++ == number) {                                                                       \
		text = #expression;                                                                \
		errno = 0;                                                                         \
		result = expression;                                                               \
		error = result == -1 ? errno : 0;                                                  \
		return true;                                                                       \
	}
#define C(expression) RESULT(expression)
#define E(expression) RESULT(expression)
#define P(expression) RESULT((expression) < 0 ? -1 : 1)

	/* read and write */
	C(read(tube[0], b, 8))
	C(read(stream[0], b, 8))
	C(read(gram[0], b, 8))
	C(read(file, b, 8))
	C(readv(tube[0], b, 1))
	C(readv(stream[0], b, 1))
	C(readv(gram[0], b, 2))
	C(readv(file, b, 1))
	C(readv(tube[0], &v, 1))
	C(readv(stream[0], &v, 1))
	C(readv(gram[0], &v, 1))
	C(readv(file, &v, 1))
	C(write(tube[1], b, 8))
	C(write(stream[1], b, 8))
	C(write(gram[1], b, 8))
	C(write(file, b, 8))
	C(writev(tube[1], b, 1))
	C(writev(stream[1], b, 1))
	C(writev(gram[1], b, 2))
	C(writev(file, b, 1))
	C(writev(tube[1], &v, 1))
	C(writev(stream[1], &v, 1))
	C(writev(gram[1], &v, 1))
	C(writev(file, &v, 1))
	C(pread(file, b, 8, 0))
	C(pwrite(file, b, 8, 0))
	C(preadv(file, b, 1, 0))
	C(preadv(file, &v, 1, 0))
	C(pwritev(file, b, 1, 0))
	C(pwritev(file, &v, 1, 0))
	C(preadv2(tube[0], b, 1, -1, 0))
	C(preadv2(tube[0], &v, 1, -1, 0))
	C(pwritev2(stream[0], b, 1, -1, 0))
	C(pwritev2(stream[0], &v, 1, -1, 0))
	C(sendfile(stream[1], file, b, 4))
	C(sendfile(tube[1], file, b, 4))
	C(fcntl(file, F_GETLK, b))
	C(fcntl(file, F_SETLK, b))
	C(fcntl(file, F_SETLKW, b))
	C(fcntl(file, F_OFD_SETLKW, b))

	/* sockets */
	C(recv(stream[0], b, 8, 0))
	C(recv(stream[0], b, 8, MSG_WAITALL))
	C(recv(gram[0], b, 8, 0))
	C(recvfrom(gram[0], b, 8, 0, NULL, NULL))
	C(recvfrom(gram[0], &word, 4, 0, b, &len))
	C(recvfrom(gram[0], &word, 4, 0, (struct sockaddr *)&a, b))
	C(recvmsg(stream[0], b, 0))
	C(recvmsg(stream[0], &m_iov, 0))
	C(recvmsg(stream[0], &m_buf, 0))
	C(recvmsg(gram[0], &m_name, 0))
	C(recvmmsg(stream[0], b, 1, 0, NULL))
	C(recvmmsg(stream[0], &mm_iov, 1, 0, NULL))
	C(recvmmsg(gram[0], &mm_buf, 1, 0, NULL))
	C(recvmmsg(gram[0], &mm, 1, 0, b))
	C(send(stream[1], b, 8, 0))
	C(send(gram[1], b, 8, 0))
	C(sendto(gram[1], b, 8, 0, NULL, 0))
	C(sendto(gram[1], &word, 4, 0, b, 16))
	C(sendmsg(stream[1], b, 0))
	C(sendmsg(stream[1], &m_iov, 0))
	C(sendmsg(gram[1], &m_buf, 0))
	C(sendmsg(gram[1], &m_name, 0))
	C(sendmmsg(gram[1], b, 1, 0))
	C(sendmmsg(gram[1], &mm_iov, 1, 0))
	C(sendmmsg(gram[1], &mm_buf, 1, 0))
	P(accept(listener, b, &len))
	P(accept(listener, (struct sockaddr *)&a, b))
	P(accept4(listener, b, &len, SOCK_CLOEXEC))
	C(connect(client, b, 16))

	/* readiness */
	C(poll(b, 1, 0))
	C(poll(b, 1, 5))
	C(ppoll(b, 1, &now, NULL))
	C(ppoll(&p, 1, b, NULL))
	C(ppoll(&p, 1, &now, b))
	C(select(10, b, NULL, NULL, &tv))
	C(select(70, NULL, b, NULL, &tv))
	C(select(1000, NULL, NULL, b, &tv))
	C(select(0, b, NULL, NULL, &tv))
	C(select(0, NULL, NULL, NULL, b ? b : &tv))
	C(pselect(10, b, NULL, NULL, &now, NULL))
	C(pselect(10, NULL, b, NULL, &now, &none))
	C(pselect(0, NULL, NULL, NULL, b ? b : &now, NULL))
	C(pselect(0, NULL, NULL, NULL, &now, b))
	C(epoll_wait(ep, b, 1, 0))
	C(epoll_wait(ep, b, 1, 5))
	C(epoll_pwait(ep, &e, 1, 0, b))

	/* time */
	C(nanosleep(b, NULL))
	C((alarm_soon(), nanosleep(&soon, b)))
	E(clock_nanosleep(CLOCK_MONOTONIC, 0, b, NULL))
	E(clock_nanosleep(CLOCK_BOOTTIME, 0, b, NULL))
	E(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, b, NULL))
	E((alarm_soon(), clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, b)))
	E(thrd_sleep(b, NULL))

	/* processes */
	P(waitpid(ended_child(), b, 0))
	P(waitpid(ended_child(), b, WNOHANG))
	P((ended_child(), wait(b)))
	P((ended_child(), wait3(b, 0, NULL)))
	P(wait4(ended_child(), b, 0, NULL))
	P(wait4(ended_child(), &status, 0, b))
	C(waitid(P_PID, (id_t)ended_child(), b, WEXITED))
	C(system(b))
	E(posix_spawn(&child, b, NULL, NULL, argv, NULL))
	E(posix_spawn(&child, "/bin/true", NULL, NULL, b, NULL))
	E(posix_spawn(&child, "/bin/true", NULL, NULL, argv, b))

	/* signals */
	E(b == addresses[READ_ONLY] ? 0 : sigwait(b, &r))
	C((pending(), sigwaitinfo(&usr1, b)))
	C(b == addresses[READ_ONLY] ? 0 : sigwaitinfo(b, NULL))
	C((pending(), sigtimedwait(&usr1, b, &now)))
	C(sigtimedwait(b, NULL, &now))
	C((pending(), sigtimedwait(&usr1, NULL, b)))
	C(sigtimedwait(&none, NULL, b ? b : &now))
	C(b == addresses[READ_ONLY] ? 0 : sigsuspend(b))
	C(sigpending(b))
	C(sigprocmask(SIG_BLOCK, b, NULL))
	C(sigprocmask(SIG_BLOCK, NULL, b))
	C(sigprocmask(SIG_BLOCK, &usr1, b))
	E(pthread_sigmask(SIG_BLOCK, b, NULL))
	E(pthread_sigmask(SIG_BLOCK, NULL, b))
	C(b == addresses[READ_ONLY] ? 0 : sigaltstack(b, NULL))
	C(sigaltstack(NULL, b))
	C(sigaction(SIGUSR2, b, NULL))
	C(sigaction(SIGUSR2, NULL, b))

	/* the kernel */
	C(syscall(SYS_futex, b, FUTEX_WAIT_PRIVATE, 1, NULL))
	C(syscall(SYS_futex, b, FUTEX_WAIT, 1, NULL))
	C(syscall(SYS_futex, b, FUTEX_WAKE, 1))
	C(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, b ? b : &now))
	C(syscall(SYS_futex, b, FUTEX_CMP_REQUEUE_PRIVATE, 1, NULL, &word, 1))
	C(syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, NULL, b, 0))
	C(prctl(PR_SET_NAME, b))
	C(prctl(PR_GET_NAME, b))
	C(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, b))

	/* threads */
	E(pthread_setname_np(pthread_self(), b))
	E(pthread_getname_np(pthread_self(), b, 16))
	E(pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), b))
	E(pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), b))
	E(pthread_setschedparam(pthread_self(), SCHED_OTHER, b))
	E(pthread_getschedparam(pthread_self(), b, (struct sched_param *)&a))
	E(pthread_getschedparam(pthread_self(), &r, b))
	E(pthread_getattr_np(pthread_self(), b))
	return false;
}

/* --- processes --- */

/* Where a call ended its process, the next one begins with the next address. */
static int number, address;
static bool on_thread;

static void *call_each(void *to)
{
	for (int i = address; i < ADDRESSES; i++) {
		make_ready();
		dprintf(*(int *)to, "%d", i);
		if (!call(number, addresses[i]))
			_exit(2);
		printf("%s %d %s\t%s: %ld %s\n", on_thread ? "thread" : "main", number,
		       address_names[i], text, result, error ? strerror(error) : "");
		fflush(stdout);
	}
	return NULL;
}

static void in_child(int to)
{
	pthread_t t;

	dup2(open("/dev/null", O_WRONLY), 2);
	if (!on_thread)
		call_each(&to);
	else if (pthread_create(&t, NULL, call_each, &to) || pthread_join(t, NULL))
		_exit(4);
	_exit(0);
}

/* The wait status of a child that calls from address on.  *last: the address of its last call. */
static int run_child(int *last)
{
	int p[2], status;
	char c;

	if (pipe(p))
		exit(5);
	pid_t pid = fork();

	if (pid == 0)
		in_child(p[1]);
	close(p[1]);
	while (read(p[0], &c, 1) == 1)
		*last = c - '0';
	close(p[0]);
	if (waitpid(pid, &status, 0) != pid)
		exit(6);
	return status;
}

/* False: there is no such call. */
static bool run_call(void)
{
	for (address = 0; address < ADDRESSES; address++) {
		int last = address, status = run_child(&last);

		if (!WIFSIGNALED(status))
			return WEXITSTATUS(status) == 0;
		address = last;
		printf("%s %d %s\tsignal %d\n", on_thread ? "thread" : "main", number,
		       address_names[last], WTERMSIG(status));
		fflush(stdout);
	}
	return true;
}

int main(void)
{
	make_addresses();
	for (int i = 0; i < 2; i++) {
		on_thread = i;
		for (number = 0; run_call(); number++)
			;
	}
	return number > 0 ? 0 : 1;
}
