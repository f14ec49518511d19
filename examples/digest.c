/* SPDX-License-Identifier: MIT */
/*
 * Computes digests of many files in a pool of few workers.
 *
 *   $ digest include/gmp.h                    # as sha256sum prints it
 *   $ digest --algorithm sha1 --workers 8 src > sums && sha1sum -c sums
 *
 * Each file is a task of the pool: one worker computes while other workers wait for the disk. The
 * first green thread walks the folders meanwhile. If the workers cannot keep up, the walk waits,
 * because the pool is bounded. At most --workers files are open, however large the tree is.
 *
 *   1. Lines are printed in the order of the names on the command line; within a folder they are
 *      sorted by name. A result therefore waits until all earlier results are printed.
 *   2. If a file cannot be read (missing, forbidden, not a plain file), digest prints a line to
 *      stderr, continues with the other files, and ends with status 1. Links in a folder are not
 *      followed.
 *   3. Workers read with gmp_pread, which keeps no P while it waits for the disk. They compute
 *      pieces of 64 KiB, with a gmp_checkpoint after each.
 */
#include <gmp.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 64 << 10, DEPTH_MOST = 100, STACK = 256 << 10 };

struct digest {
	gmp_pool *pool;
	const EVP_MD *algorithm;
	struct file *first, **last; /* files whose lines are not printed yet, in order */
	int failures;
};

struct file {
	struct digest *digest;
	struct file *next;
	gmp_wg done;
	int err; /* 0, or -errno */
	unsigned size;
	unsigned char value[EVP_MAX_MD_SIZE];
	char path[];
};

/* --- one file, on a worker --- */

static int add_pieces(EVP_MD_CTX *ctx, int fd, unsigned char *piece)
{
	off_t at = 0;

	for (;;) {
		ssize_t n = gmp_pread(fd, piece, PIECE, at);

		if (n <= 0)
			return (int)n;
		if (!EVP_DigestUpdate(ctx, piece, (size_t)n))
			return -EIO;
		at += n;
		gmp_checkpoint();
	}
}

static int digest_fd(struct file *f, int fd)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char *piece = malloc(PIECE);
	struct stat st;
	int err;

	if (!ctx || !piece)
		err = -ENOMEM;
	else if (fstat(fd, &st) < 0)
		err = -errno;
	else if (S_ISDIR(st.st_mode))
		err = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (!EVP_DigestInit_ex(ctx, f->digest->algorithm, NULL))
		err = -EIO;
	else if (!(err = add_pieces(ctx, fd, piece)))
		err = EVP_DigestFinal_ex(ctx, f->value, &f->size) ? 0 : -EIO;
	free(piece);
	EVP_MD_CTX_free(ctx);
	return err;
}

static void digest_file(void *arg)
{
	struct file *f = arg;
	/* O_NONBLOCK: otherwise the open of a FIFO without a writer blocks the worker */
	int fd = gmp_open(f->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0) {
		f->err = fd;
	} else {
		f->err = digest_fd(f, fd);
		gmp_close(fd);
	}
	gmp_wg_done(&f->done);
}

/* --- the results, in order --- */

static void complain(struct digest *d, const char *path, int err)
{
	fprintf(stderr, "digest: %s: %s\n", path,
		err == -EINVAL ? "not a plain file" : strerror(-err));
	d->failures++;
}

static void print(struct digest *d, const struct file *f)
{
	if (f->err) {
		complain(d, f->path, f->err);
		return;
	}
	for (unsigned i = 0; i < f->size; i++)
		printf("%02x", f->value[i]);
	printf("  %s\n", f->path);
}

/* Print the results up to the first unfinished file. If `wait`, wait for each and print all. */
static void print_ready(struct digest *d, bool wait)
{
	struct file *f;

	while ((f = d->first) && gmp_wg_wait_until(&f->done, wait ? GMP_FOREVER : 0) == 0) {
		print(d, f);
		d->first = f->next;
		if (!d->first)
			d->last = &d->first;
		free(f);
	}
}

/* --- the walk, on the first green thread --- */

static void add_file(struct digest *d, const char *path)
{
	size_t n = strlen(path) + 1;
	struct file *f = calloc(1, sizeof(*f) + n);
	int err = f ? 0 : -ENOMEM;

	if (f) {
		f->digest = d;
		memcpy(f->path, path, n);
		gmp_wg_add(&f->done, 1);
		err = gmp_pool_submit(d->pool, digest_file, f);
	}
	if (err) {
		complain(d, path, err);
		free(f);
		return;
	}
	*d->last = f;
	d->last = &f->next;
	print_ready(d, false);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static void add_folder(struct digest *d, const char *path, int depth);

/* Add a name of the command line (depth 0) or of a folder. In folders, only folders and plain files
 * count. */
static void add(struct digest *d, const char *path, int depth)
{
	struct stat st;
	int err = gmp_blocking_sys(depth ? lstat(path, &st) : stat(path, &st));

	if (err < 0)
		complain(d, path, err);
	else if (S_ISDIR(st.st_mode))
		add_folder(d, path, depth);
	else if (!depth || S_ISREG(st.st_mode))
		add_file(d, path);
}

static void add_folder(struct digest *d, const char *path, int depth)
{
	struct dirent **entry;
	int n = depth < DEPTH_MOST ? gmp_blocking_sys(scandir(path, &entry, no_dots, by_name))
				   : -ELOOP;

	if (n < 0) {
		complain(d, path, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		size_t size = strlen(path) + strlen(entry[i]->d_name) + 2;
		char *name = malloc(size);

		if (name) {
			const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";

			snprintf(name, size, "%s%s%s", path, slash, entry[i]->d_name);
			add(d, name, depth + 1);
			free(name);
		} else {
			complain(d, path, -ENOMEM);
		}
		free(entry[i]);
	}
	free(entry);
}

struct call {
	struct digest digest;
	long workers;
	char **paths;
	int status;
};

static void app(void *arg)
{
	struct call *c = arg;
	struct digest *d = &c->digest;
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.name = "digester";
	o.stack_size = STACK;
	d->last = &d->first;
	d->pool = gmp_pool_new((int)c->workers, &o);
	if (!d->pool) {
		fprintf(stderr, "digest: no memory for a pool\n");
		return;
	}
	for (char **path = c->paths; *path; path++)
		add(d, *path, 0);
	print_ready(d, true);
	gmp_pool_free(d->pool);
	c->status = d->failures > 0 || fflush(stdout) != 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: digest [--algorithm NAME] [--workers N] PATH...\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "algorithm", required_argument, NULL, 'a' },
		{ "workers", required_argument, NULL, 'w' },
		{ 0 },
	};
	struct call c = { .workers = 16, .status = 1 };
	const char *algorithm = "sha256";
	char *end;
	int err;

	for (int o; (o = getopt_long(argc, argv, "a:w:", options, NULL)) >= 0;) {
		if (o == 'a') {
			algorithm = optarg;
		} else if (o == 'w') {
			c.workers = strtol(optarg, &end, 10);
			if (*end || c.workers < 1 || c.workers > 10000) {
				fprintf(stderr, "digest: --workers wants 1 to 10000\n");
				return 2;
			}
		} else {
			return usage();
		}
	}
	if (optind == argc)
		return usage();
	c.digest.algorithm = EVP_get_digestbyname(algorithm);
	if (!c.digest.algorithm) {
		fprintf(stderr, "digest: libcrypto knows no algorithm \"%s\"\n", algorithm);
		return 2;
	}
	c.paths = argv + optind;
	err = gmp_run(app, &c, NULL);
	if (err) {
		fprintf(stderr, "digest: %s\n", strerror(-err));
		return 1;
	}
	return c.status;
}
