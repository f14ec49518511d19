/* SPDX-License-Identifier: MIT */
/*
 * How is a request of HTTP found in what a client sends, however it is cut?
 *
 * By http-parser, which was Node's for many years.  It calls the functions below for each piece that it
 * understands, and is stopped at the end of each request, so that those behind it in a pipeline wait
 * for their turn.  A callback that returns something else than 0 ends it with an error.
 */
#include "http.h"

#include <strings.h>

/* The request has this fault. */
static int fault(struct http_request *r, int status)
{
	r->status = status;
	return -1;
}

static int on_message_begin(http_parser *p)
{
	struct http_request *r = p->data;

	r->begun = true;
	return 0;
}

static int on_url(http_parser *p, const char *at, size_t n)
{
	struct http_request *r = p->data;

	if (n > sizeof(r->url) - r->url_len)
		return fault(r, 414);
	memcpy(r->url + r->url_len, at, n);
	r->url_len += n;
	return 0;
}

static int on_header_field(http_parser *p, const char *at, size_t n)
{
	struct http_request *r = p->data;

	if (r->in_value)
		r->name_len = 0;
	r->in_value = false;
	for (size_t i = 0; i < n && r->name_len < sizeof(r->name); i++)
		r->name[r->name_len++] = at[i];
	return 0;
}

static int on_header_value(http_parser *p, const char *at, size_t n)
{
	struct http_request *r = p->data;

	(void)at;
	(void)n;
	if (!r->in_value && r->name_len == 4 && strncasecmp(r->name, "host", 4) == 0)
		r->hosts++;
	r->in_value = true;
	return 0;
}

static int on_headers_complete(http_parser *p)
{
	struct http_request *r = p->data;

	if (p->http_major != 1)
		return fault(r, p->http_major == 0 ? 400 : 505);
	if (r->hosts > 1 || (r->hosts == 0 && p->http_minor > 0))
		return fault(r, 400);
	if ((p->flags & F_CONTENTLENGTH) && p->content_length > HTTP_BODY_MOST)
		return fault(r, 413);
	return 0;
}

static int on_body(http_parser *p, const char *at, size_t n)
{
	struct http_request *r = p->data;

	(void)at;
	r->body += n;
	return r->body > HTTP_BODY_MOST ? fault(r, 413) : 0;
}

static int on_message_complete(http_parser *p)
{
	struct http_request *r = p->data;

	r->complete = true;
	http_parser_pause(p, 1);
	return 0;
}

static const http_parser_settings callbacks = {
	.on_message_begin = on_message_begin,
	.on_url = on_url,
	.on_header_field = on_header_field,
	.on_header_value = on_header_value,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

void http_begin(struct http_request *r)
{
	r->url_len = 0;
	r->name_len = 0;
	r->in_value = false;
	r->hosts = 0;
	r->body = 0;
	r->begun = false;
	r->complete = false;
	r->status = 0;
	http_parser_init(&r->parser, HTTP_REQUEST);
	r->parser.data = r;
}

enum http_result http_parse(struct http_request *r, struct buf *in)
{
	/* Nothing would tell the parser that the stream has ended. */
	if (buf_len(in) == 0)
		return HTTP_INCOMPLETE;
	in->start += http_parser_execute(&r->parser, &callbacks, in->data + in->start, buf_len(in));
	if (buf_len(in) == 0)
		buf_clear(in);
	if (r->complete)
		return HTTP_COMPLETE;
	if (HTTP_PARSER_ERRNO(&r->parser) == HPE_OK)
		return HTTP_INCOMPLETE;
	if (r->status == 0)
		r->status = HTTP_PARSER_ERRNO(&r->parser) == HPE_HEADER_OVERFLOW ? 431 : 400;
	return HTTP_BROKEN;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool http_path(const struct http_request *r, char *path, size_t size)
{
	struct http_parser_url parts;
	const char *in, *end;
	char *out = path;

	http_parser_url_init(&parts);
	if (http_parser_parse_url(r->url, r->url_len, 0, &parts) != 0 ||
	    !(parts.field_set & 1 << UF_PATH))
		return false;
	in = r->url + parts.field_data[UF_PATH].off;
	end = in + parts.field_data[UF_PATH].len;
	if (*in != '/' || (size_t)(end - in) >= size)
		return false;
	while (in < end) {
		char c = *in++;

		if (c == '%') {
			if (end - in < 2 || hex_digit(in[0]) < 0 || hex_digit(in[1]) < 0)
				return false;
			c = (char)(hex_digit(in[0]) * 16 + hex_digit(in[1]));
			in += 2;
		}
		if (c == '\0')
			return false;
		*out++ = c;
	}
	*out = '\0';
	return true;
}
