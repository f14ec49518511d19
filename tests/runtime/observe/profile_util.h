/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the tests of profiles: makes a profile and reads it, by a reader of the wire format
 * of its own.
 */
#ifndef TESTS_RUNTIME_PROFILE_UTIL_H
#define TESTS_RUNTIME_PROFILE_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create: before any other header */
#endif
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "util.h"

enum { STACK_MOST = 64, LABELS_MOST = 4 };

struct bytes {
	const unsigned char *at, *end;
};

struct read_sample {
	uint64_t location[STACK_MOST];
	int n;
	int64_t value[2];
	uint64_t key[LABELS_MOST], text[LABELS_MOST]; /* indices of strings */
	int labels;
};

struct read_profile {
	unsigned char *data;
	struct bytes string[65536];
	uint64_t function_of[65536], name_of[65536]; /* by id */
	struct read_sample sample[32768];
	int strings, samples;
	int64_t duration;
};

static uint64_t read_varint(struct bytes *b)
{
	uint64_t v = 0;

	for (int shift = 0; b->at < b->end; shift += 7) {
		unsigned char c = *b->at++;

		v |= (uint64_t)(c & 127) << shift;
		if (c < 128)
			return v;
	}
	check_failed("the profile ends in a number");
}

/* Reads a field. Its value is *v, or the bytes *in of a text, a message or packed numbers. */
static unsigned read_field(struct bytes *b, uint64_t *v, struct bytes *in)
{
	uint64_t tag = read_varint(b);

	*v = read_varint(b);
	*in = (struct bytes){ b->at, b->at };
	CHECK((tag & 7) == 0 || (tag & 7) == 2);
	if ((tag & 7) == 2) {
		CHECK(*v <= (uint64_t)(b->end - b->at));
		in->end = b->at += *v;
	}
	return (unsigned)(tag >> 3);
}

/* Returns field `number` of a message, which has it once; 0: it has not. */
static uint64_t field_of(struct bytes b, unsigned number, struct bytes *in)
{
	struct bytes own;
	uint64_t v;

	while (b.at < b.end)
		if (read_field(&b, &v, in ? in : &own) == number)
			return v;
	if (in)
		in->at = in->end = NULL;
	return 0;
}

static void read_one_sample(struct read_sample *s, struct bytes b)
{
	struct bytes in;
	uint64_t v;

	memset(s, 0, sizeof(*s));
	while (b.at < b.end) {
		switch (read_field(&b, &v, &in)) {
		case 1:
			while (in.at < in.end && s->n < STACK_MOST)
				s->location[s->n++] = read_varint(&in);
			break;
		case 2:
			for (int i = 0; in.at < in.end; i++) {
				CHECK(i < 2);
				s->value[i] = (int64_t)read_varint(&in);
			}
			break;
		case 3:
			CHECK(s->labels < LABELS_MOST);
			s->key[s->labels] = field_of(in, 1, NULL);
			s->text[s->labels++] = field_of(in, 2, NULL);
			break;
		default: check_failed("unknown field of a sample");
		}
	}
}

static void read_message(struct read_profile *p, struct bytes b)
{
	struct bytes in, line;
	uint64_t v, id;

	while (b.at < b.end) {
		switch (read_field(&b, &v, &in)) {
		case 2:
			CHECK(p->samples < (int)(sizeof(p->sample) / sizeof(p->sample[0])));
			read_one_sample(&p->sample[p->samples++], in);
			break;
		case 4:
			id = field_of(in, 1, NULL);
			CHECK(id > 0 && id < 65536);
			field_of(in, 4, &line);
			p->function_of[id] = field_of(line, 1, NULL);
			break;
		case 5:
			id = field_of(in, 1, NULL);
			CHECK(id > 0 && id < 65536);
			p->name_of[id] = field_of(in, 2, NULL);
			break;
		case 6:
			CHECK(p->strings < 65536);
			p->string[p->strings++] = in;
			break;
		case 10: p->duration = (int64_t)v; break;
		default: break;
		}
	}
}

/* Returns the error of gmp_profile_write; without an error, *p is the profile. */
UNUSED static int try_profile(struct read_profile **p, const char *kind, int seconds)
{
	int fd = memfd_create("profile", MFD_CLOEXEC), err;
	off_t size;

	CHECK(fd >= 0);
	err = gmp_profile_write(kind, seconds, fd);
	*p = NULL;
	if (!err) {
		size = lseek(fd, 0, SEEK_END);
		*p = calloc(1, sizeof(**p));
		CHECK(*p && size > 0);
		(*p)->data = malloc((size_t)size);
		CHECK_EQ(pread(fd, (*p)->data, (size_t)size, 0), size);
		read_message(*p, (struct bytes){ (*p)->data, (*p)->data + size });
	}
	close(fd);
	return err;
}

UNUSED static struct read_profile *profile(const char *kind, int seconds)
{
	struct read_profile *p;
	int err = try_profile(&p, kind, seconds);

	if (err == -ENOTSUP)
		check_skip("no protobuf-c");
	CHECK_EQ(err, 0);
	return p;
}

UNUSED static void profile_free(struct read_profile *p)
{
	free(p->data);
	free(p);
}

static bool is_string(const struct read_profile *p, uint64_t i, const char *text)
{
	size_t n = strlen(text);

	CHECK(i < (uint64_t)p->strings);
	return (size_t)(p->string[i].end - p->string[i].at) == n &&
	       memcmp(p->string[i].at, text, n) == 0;
}

static bool has_function(const struct read_profile *p, const struct read_sample *s,
			 const char *function)
{
	for (int i = 0; i < s->n; i++)
		if (is_string(p, p->name_of[p->function_of[s->location[i]]], function))
			return true;
	return false;
}

static bool has_label(const struct read_profile *p, const struct read_sample *s, const char *key,
		      const char *text)
{
	for (int i = 0; i < s->labels; i++)
		if (is_string(p, s->key[i], key) && is_string(p, s->text[i], text))
			return true;
	return false;
}

/* Returns the sum of value number `which` of all samples with this function in the stack and this
 * label; NULL: any. */
UNUSED static int64_t sum_of(const struct read_profile *p, int which, const char *function,
			     const char *key, const char *text)
{
	int64_t sum = 0;

	for (int i = 0; i < p->samples; i++) {
		const struct read_sample *s = &p->sample[i];

		if ((!function || has_function(p, s, function)) &&
		    (!key || has_label(p, s, key, text)))
			sum += s->value[which];
	}
	return sum;
}

#endif
