/* SPDX-License-Identifier: MIT */
/*
 * Outputs of gmp-trace: each reads a whole trace and writes one form of it.
 */
#ifndef TOOLS_TRACE_OUTPUT_H
#define TOOLS_TRACE_OUTPUT_H

#include <stdio.h>

#include "model.h"

void write_json(struct trace *t, FILE *out);
void write_summary(struct trace *t, FILE *out, bool as_json);
void write_flame(struct trace *t, FILE *out, bool per_green);
void write_text(struct trace *t, FILE *out);
void write_event_table(FILE *out);

/* Writes a JSON string with quotes; bytes that are no UTF-8 become U+FFFD. */
void put_json_text(FILE *out, const char *text, size_t length);
void put_json_string(FILE *out, const char *text);

/* Writes text for XML; characters that XML does not have become U+FFFD. */
void put_xml_text(FILE *out, const char *text, size_t length);

/* Writes text for a terminal: control characters and damaged UTF-8 as \xNN. */
void put_plain_text(FILE *out, const char *text, size_t length);

#endif
