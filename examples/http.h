/* SPDX-License-Identifier: MIT */
/* How is a request of HTTP found in what a client sends, however it is cut? */
#ifndef EXAMPLES_HTTP_H
#define EXAMPLES_HTTP_H

#include "buf.h"

#include <http_parser.h>

#define HTTP_HEAD_MOST (8 << 10) /* bytes of a request's first line and headers */
#define HTTP_URL_MOST 2048
#define HTTP_BODY_MOST (64 << 10) /* bodies are thrown away, up to this size */

struct http_request {
	http_parser parser; /* method, http_minor ... */
	char url[HTTP_URL_MOST];
	size_t url_len;
	char name[8]; /* of the header at work, as much as fits */
	size_t name_len;
	bool in_value;
	int hosts; /* how many headers of the name Host there were */
	size_t body;
	bool begun; /* some of it has come */
	bool complete;
	int status; /* what to answer if it is broken */
};

enum http_result {
	HTTP_INCOMPLETE, /* all that `in` had is used up; ask again when there is more */
	HTTP_COMPLETE,   /* what is left in `in` is the next one's */
	HTTP_BROKEN,     /* `status` says why; what follows cannot be understood */
};

/* To be called before the first call of http_parse for each request. */
void http_begin(struct http_request *r);

enum http_result http_parse(struct http_request *r, struct buf *in);

/* The path that the request names, with its escapes resolved and a zero behind it.  False if it names
 * none, or it does not fit. */
bool http_path(const struct http_request *r, char *path, size_t size);

#endif
