/* SPDX-License-Identifier: MIT */
/*
 * Web crawler: fetches the pages of a site in a group of green threads, with a limit of concurrent
 * requests and a deadline.
 *
 *   $ httpd --port 8080 --root site &
 *   $ crawler --limit 16 --seconds 10 http://127.0.0.1:8080/
 *
 * It follows the links of the site and fetches each page once. Each fetch is a child of one group:
 *
 *   1. crawl() takes the next address that was found and starts a child for it. While --limit
 *      children run, the group makes crawl() wait.
 *   2. A child fetches its page within --page-seconds and adds the addresses in it. If a page
 *      stalls, only its child gives up.
 *   3. When --seconds have passed, the group cancels the children that still wait for a page. After
 *      gmp_group_wait no child is left, so the memory that the children used can be freed.
 *
 * Security: the server chooses the contents of a page, so neither its length nor its links are
 * trusted. A gmp_key holds the page that a child works on, for the lines that the child prints.
 */
#include "buf.h"
#include "server.h"
#include "siphash.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>

#define SECOND 1000000000LL
#define PAGE_MOST (1 << 20) /* bytes of a page that are read */
#define PATH_MOST 1024
#define READ_SIZE 16384
#define SLOTS 4096 /* lists of addresses */

struct page {
	struct page *next;      /* in the list of its slot */
	struct page *next_todo; /* in the list of pages to fetch */
	struct crawl *crawl;
	char path[];
};

struct crawl {
	/* from the command line */
	char host[256]; /* and port */
	char first[PATH_MOST];
	long limit, most, seconds, page_seconds;
	int status; /* the exit status */

	gmp_group *group;
	int64_t deadline;
	struct siphash_key key; /* random, so that a site cannot choose paths that collide */
	gmp_mutex mutex;        /* guards the rest */
	gmp_cond changed;
	struct page *slots[SLOTS]; /* every address that was found */
	struct page *todo, **todo_end;
	long found, fetching, good, bad, bytes;
	bool first_is_good;
};

static gmp_key current; /* the page that a green thread works on */

/* Print a line that ends with the path of the caller's page. */
static void tell(const char *format, ...)
{
	const struct page *page = gmp_key_get(current);
	char line[PATH_MOST + 256];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	printf("%s %s\n", line, page ? page->path : "-");
}

/* ----------------------------------------------------------------- Addresses */

static unsigned slot_of(const struct crawl *c, const char *path)
{
	return (unsigned)(siphash13(&c->key, path, strlen(path)) % SLOTS);
}

/* Append a page to the list of pages to fetch, unless it was found before or `most` were found. */
static void add_page(struct crawl *c, const char *path)
{
	struct page **slot = &c->slots[slot_of(c, path)], *page;

	gmp_mutex_lock(&c->mutex);
	for (page = *slot; page && strcmp(page->path, path) != 0; page = page->next)
		;
	if (!page && c->found < c->most) {
		page = malloc(sizeof(*page) + strlen(path) + 1);
		if (page) {
			strcpy(page->path, path);
			page->crawl = c;
			page->next_todo = NULL;
			page->next = *slot;
			*slot = page;
			*c->todo_end = page;
			c->todo_end = &page->next_todo;
			c->found++;
			gmp_cond_signal(&c->changed);
		}
	}
	gmp_mutex_unlock(&c->mutex);
}

/* Remove the parts "." and ".." from a path that begins with a slash. */
static void tidy(char *path)
{
	char *to = path, *from = path;

	while (*from) {
		size_t n = 1 + strcspn(from + 1, "/?");

		if (*from == '?') {
			memmove(to, from, strlen(from) + 1);
			return;
		}
		if (n == 3 && from[1] == '.' && from[2] == '.') {
			while (to > path && *--to != '/')
				;
			if (from[3] != '/')
				*to++ = '/';
		} else if (n == 2 && from[1] == '.') {
			if (from[2] != '/')
				*to++ = '/';
		} else {
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

/* Write the target of a link on the page to `path`. Returns false if the target is the page itself,
 * is on another host, or is not valid in a request. */
static bool resolve(const struct page *page, const char *link, size_t n, char *path)
{
	const char *base = page->path, *host = page->crawl->host;
	size_t keep = 0, host_len = strlen(host);

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)link[i]))
			return false;
	for (size_t i = 0; i < n; i++)
		if (link[i] == '#')
			n = i;
	if (n > 7 && strncasecmp(link, "http://", 7) == 0) {
		link += 7;
		n -= 7;
		if (n < host_len || strncmp(link, host, host_len) != 0)
			return false;
		link += host_len;
		n -= host_len;
		if (n > 0 && *link != '/')
			return false;
	} else if (n >= 2 && link[0] == '/' && link[1] == '/') {
		return false;
	} else if (memchr(link, ':', n)) {
		return false; /* mailto and the like */
	} else if (n == 0) {
		return false; /* the page itself */
	}
	if (n > 0 && link[0] == '?')
		keep = strcspn(base, "?");
	else if (n > 0 && link[0] != '/')
		for (size_t i = 0; base[i] && base[i] != '?'; i++)
			if (base[i] == '/')
				keep = i + 1;
	if (keep + n + 2 > PATH_MOST)
		return false;
	memcpy(path, base, keep);
	memcpy(path + keep, link, n);
	path[keep + n] = '\0';
	if (path[0] != '/')
		strcpy(path, "/");
	tidy(path);
	return true;
}

static void add_link(struct page *page, const char *link, size_t n)
{
	char path[PATH_MOST];

	if (resolve(page, link, n, path))
		add_page(page->crawl, path);
}

/* Add the target of each href="..." in the text, whatever surrounds it. Stops if cancelled. */
static void add_links(struct page *page, const char *text, size_t size)
{
	const char *end = text + size;

	while (end - text > 6) {
		if (strncasecmp(text, "href=", 5) != 0 || (text[5] != '"' && text[5] != '\'')) {
			text++;
			continue;
		}
		const char *link = text + 6, *close = memchr(link, text[5], (size_t)(end - link));

		if (!close)
			return;
		if (gmp_cancelled())
			return;
		add_link(page, link, (size_t)(close - link));
		text = close;
		gmp_checkpoint();
	}
}

/* -------------------------------------------------------------------- A page */

/* Returns the value of a header field and sets *n to its length, or returns NULL. */
static const char *field(const char *head, const char *end, const char *name, size_t *n)
{
	size_t len = strlen(name);

	for (const char *line = head; line < end;) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((eol ? eol : end) - line);

		if (size > len && line[len] == ':' && strncasecmp(line, name, len) == 0) {
			const char *value = line + len + 1;

			size -= len + 1;
			while (size > 0 && isspace((unsigned char)*value))
				value++, size--;
			while (size > 0 && isspace((unsigned char)value[size - 1]))
				size--;
			*n = size;
			return value;
		}
		line += (eol ? size + 1 : size);
	}
	return NULL;
}

/* Read the server's answer, up to PAGE_MOST + READ_SIZE bytes. */
static int read_answer(int fd, struct buf *in)
{
	ssize_t n = 1;

	while (n > 0 && buf_len(in) < PAGE_MOST) {
		char *room = buf_room(in, READ_SIZE);

		if (!room)
			return -ENOMEM;
		n = gmp_read(fd, room, READ_SIZE);
		if (n > 0)
			in->end += (size_t)n;
	}
	return n < 0 ? (int)n : 0;
}

static int ask(struct page *page, int fd, struct buf *in)
{
	struct buf out = { 0 };
	int err;

	buf_add(&out, "GET ", 4);
	buf_add(&out, page->path, strlen(page->path));
	buf_add(&out, " HTTP/1.0\r\nHost: ", 17);
	buf_add(&out, page->crawl->host, strlen(page->crawl->host));
	buf_add(&out, "\r\n\r\n", 4);
	err = out.failed ? -ENOMEM : 0;
	if (!err && gmp_write_all(fd, out.data, buf_len(&out)) < 0)
		err = -EPIPE; /* the server may have answered nevertheless */
	if (!err || err == -EPIPE)
		err = read_answer(fd, in);
	buf_free(&out);
	return err;
}

/* Returns the blank line behind the head, or NULL. */
static const char *head_end(const char *answer, size_t size)
{
	for (size_t i = 0; i + 4 <= size; i++)
		if (memcmp(answer + i, "\r\n\r\n", 4) == 0)
			return answer + i;
	return NULL;
}

/* Returns the status of the answer, or 0 if it is not HTTP. Adds the addresses in the answer. */
static int understand(struct page *page, const char *answer, size_t size)
{
	const char *end = head_end(answer, size), *value;
	size_t n;

	if (!end || size < 12 || strncmp(answer, "HTTP/1.", 7) != 0 || answer[8] != ' ' ||
	    !isdigit((unsigned char)answer[9]) || !isdigit((unsigned char)answer[10]) ||
	    !isdigit((unsigned char)answer[11]))
		return 0;
	int status = (answer[9] - '0') * 100 + (answer[10] - '0') * 10 + answer[11] - '0';

	if (status / 100 == 3 && (value = field(answer, end, "Location", &n)))
		add_link(page, value, n);
	if (status == 200 && (value = field(answer, end, "Content-Type", &n)) && n >= 9 &&
	    strncasecmp(value, "text/html", 9) == 0)
		add_links(page, end + 4, size - (size_t)(end + 4 - answer));
	return status;
}

/* Returns the status, 0 if the answer is not HTTP, or a negative errno value. */
static int fetch(struct page *page, long *bytes)
{
	struct crawl *c = page->crawl;
	int64_t deadline = gmp_deadline(c->page_seconds * SECOND);
	struct buf in = { 0 };
	int fd = gmp_dial_until("tcp", c->host, deadline), result;

	if (fd < 0)
		return fd;
	gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, deadline);
	result = ask(page, fd, &in);
	gmp_close(fd);
	if (result == 0)
		result = understand(page, in.data ? in.data + in.start : "", buf_len(&in));
	*bytes = (long)buf_len(&in);
	buf_free(&in);
	return result;
}

static int visit(void *arg)
{
	struct page *page = arg;
	struct crawl *c = page->crawl;
	long bytes = 0;
	int result = gmp_key_set(current, page);
	bool good;

	if (result == 0)
		result = fetch(page, &bytes);
	good = result >= 200 && result < 400;
	if (result > 0)
		tell("%d %ld", result, bytes);
	else if (!gmp_cancelled())
		tell("%s:", result < 0 ? strerror(-result) : "no answer of HTTP");
	gmp_mutex_lock(&c->mutex);
	c->bytes += bytes;
	c->good += good;
	c->bad += !good && !(result < 0 && gmp_cancelled());
	c->first_is_good |= good && strcmp(page->path, c->first) == 0;
	c->fetching--;
	gmp_cond_signal(&c->changed);
	gmp_mutex_unlock(&c->mutex);
	return 0; /* a failed page does not end the crawl */
}

/* ------------------------------------------------------------------ The crawl */

/* Returns the next page to fetch; waits while a child may still find one. Returns NULL if no page
 * is left or the deadline has passed. */
static struct page *next_page(struct crawl *c)
{
	struct page *page = NULL;

	gmp_mutex_lock(&c->mutex);
	while (!c->todo && c->fetching > 0)
		if (gmp_cond_wait_until(&c->changed, &c->mutex, c->deadline) != 0)
			break;
	if (c->todo && gmp_now() < c->deadline) {
		page = c->todo;
		c->todo = page->next_todo;
		if (!c->todo)
			c->todo_end = &c->todo;
		c->fetching++;
	}
	gmp_mutex_unlock(&c->mutex);
	return page;
}

static void free_pages(struct crawl *c)
{
	for (int i = 0; i < SLOTS; i++) {
		for (struct page *page = c->slots[i], *next; page; page = next) {
			next = page->next;
			free(page);
		}
	}
}

static void crawl(void *arg)
{
	struct crawl *c = arg;
	int64_t begun = gmp_now();
	int err = gmp_key_create(&current, NULL);

	c->deadline = gmp_deadline(c->seconds * SECOND);
	c->group = err ? NULL : gmp_group_new((int)c->limit, c->deadline);
	if (!c->group) {
		fprintf(stderr, "crawler: %s\n", strerror(err ? -err : ENOMEM));
		c->status = 1;
		return;
	}
	add_page(c, c->first);
	for (struct page *page; !err && (page = next_page(c)) != NULL;)
		err = gmp_group_go(c->group, visit, page);
	if (err) {
		fprintf(stderr, "crawler: cannot start: %s\n", strerror(-err));
		gmp_group_cancel(c->group);
	}
	int result = gmp_group_wait(c->group);

	gmp_group_free(c->group); /* no child is left, so no lock is needed */
	bool late = result == -ETIMEDOUT || gmp_now() >= c->deadline;

	printf("crawler: %ld good, %ld bad, %ld not seen, %ld bytes, %.1f s%s\n", c->good, c->bad,
	       c->found - c->good - c->bad, c->bytes, (double)(gmp_now() - begun) / 1e9,
	       late ? ": the deadline has passed" : "");
	c->status = err || !c->first_is_good ? 1 : late ? 3 : 0;
	free_pages(c);
}

/* --------------------------------------------------------------- Command line */

static int usage(FILE *to, int status)
{
	fputs("usage: crawler [OPTION...] http://HOST[:PORT][/PATH]\n"
	      "  --limit N          pages that are fetched at a time (default 8)\n"
	      "  --most N           addresses that are followed (default 10000)\n"
	      "  --seconds N        time for everything (default 60)\n"
	      "  --page-seconds N   time for one page (default 5)\n"
	      "Status: 0, 1 if the first page cannot be had, 3 if the deadline has passed.\n",
	      to);
	return status;
}

static bool parse_url(struct crawl *c, const char *url)
{
	size_t n;

	if (strncasecmp(url, "http://", 7) != 0)
		return false;
	url += 7;
	n = strcspn(url, "/?#");
	if (n == 0 || n + 4 > sizeof(c->host) || strlen(url + n) + 2 > sizeof(c->first))
		return false;
	for (const char *p = url; *p; p++)
		if (!isgraph((unsigned char)*p))
			return false;
	memcpy(c->host, url, n);
	if (!strchr(c->host, ':'))
		strcpy(c->host + n, ":80");
	url += n;
	snprintf(c->first, sizeof(c->first), "%s%.*s", *url == '/' ? "" : "/",
		 (int)strcspn(url, "#"), url);
	tidy(c->first);
	return true;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "limit", required_argument, NULL, 'l' },
		{ "most", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 's' },
		{ "page-seconds", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct crawl c = { .limit = 8, .most = 10000, .seconds = 60, .page_seconds = 5 };
	int option, err;

	c.todo_end = &c.todo;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		long *number = option == 'l'   ? &c.limit
			       : option == 'm' ? &c.most
			       : option == 's' ? &c.seconds
			       : option == 'p' ? &c.page_seconds
					       : NULL;

		if (option == 'h')
			return usage(stdout, 0);
		if (!number)
			return usage(stderr, 2);
		*number = server_parse_number(optarg, 1, 1000000);
		if (*number < 0) {
			fprintf(stderr, "crawler: not a number from 1 to 1000000: %s\n", optarg);
			return usage(stderr, 2);
		}
	}
	if (optind + 1 != argc)
		return usage(stderr, 2);
	if (!parse_url(&c, argv[optind])) {
		fprintf(stderr, "crawler: not an address that can be crawled: %s\n", argv[optind]);
		return usage(stderr, 2);
	}
	if (getrandom(&c.key, sizeof(c.key), 0) != sizeof(c.key)) {
		fprintf(stderr, "crawler: getrandom: %s\n", strerror(errno));
		return 1;
	}
	err = gmp_run(crawl, &c, NULL);
	if (err) {
		fprintf(stderr, "crawler: %s\n", strerror(-err));
		return 1;
	}
	return c.status;
}
