/* SPDX-License-Identifier: MIT */
/* Takes the place of httptls.c in a program without OpenSSL: TLS is refused. */
#include "httpstream.h"

#include <stdio.h>

const struct stream_kind tls_stream;

bool tls_stream_init(const char *cert, const char *key)
{
	(void)cert;
	(void)key;
	fputs("httpd: built without TLS: see httpsd\n", stderr);
	return false;
}
