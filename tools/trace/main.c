/* SPDX-License-Identifier: MIT */
/*
 * gmp-trace: reads a trace file of gmp, and writes it in a form for people or other programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gmp/base.h"
#include "output.h"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

static const char usage_text[] =
	"usage: gmp-trace COMMAND [OPTION] FILE\n"
	"\n"
	"Reads a trace file that a gmp program wrote (GMP_TRACE=FILE, gmp_trace_start), and "
	"writes\n"
	"to standard output. FILE may be \"-\": standard input.\n"
	"\n"
	"  summary [--json] FILE      figures: entry functions, wakers, locks, latency, Ps\n"
	"  json FILE                  Chrome trace events, for ui.perfetto.dev and "
	"chrome://tracing\n"
	"  flame [--per-green] FILE   SVG: where the time of all green threads is spent\n"
	"  text FILE                  one event per line\n"
	"  events                     the table of events\n"
	"\n"
	"  -h, --help                 this text\n"
	"  --version                  the version of gmp\n"
	"\n"
	"exit status: 0; 1 if nothing can be read or written; 2 if the arguments are wrong;\n"
	"3 if the file is damaged: that is reported on standard error, and what can be read is\n"
	"written. A file that only ends too early is incomplete, and the status is 0.\n";

enum command { COMMAND_SUMMARY, COMMAND_JSON, COMMAND_FLAME, COMMAND_TEXT, COMMAND_EVENTS };

static const struct {
	const char *name, *option;
} commands[] = {
	[COMMAND_SUMMARY] = { "summary", "--json" },  [COMMAND_JSON] = { "json", NULL },
	[COMMAND_FLAME] = { "flame", "--per-green" }, [COMMAND_TEXT] = { "text", NULL },
	[COMMAND_EVENTS] = { "events", NULL },
};

_Noreturn static void wrong_usage(const char *what, const char *argument)
{
	fprintf(stderr, "gmp-trace: %s%s; see gmp-trace --help\n", what, argument);
	exit(2);
}

static enum command find_command(const char *name)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(name, commands[i].name) == 0)
			return (enum command)i;
	wrong_usage("unknown command ", name);
}

static void finish_output(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		die("cannot write to standard output: the disk is full, or the pipe was closed");
}

/* Returns the exit status. */
static int run(enum command command, bool has_option, const char *path)
{
	struct trace *t = new_memory(1, sizeof(*t));
	const char *error = trace_open(t, path);
	int status;

	if (error != NULL) {
		trace_close(t);
		free(t);
		die("%s: %s", path, error);
	}
	switch (command) {
	case COMMAND_SUMMARY: write_summary(t, stdout, has_option); break;
	case COMMAND_JSON: write_json(t, stdout); break;
	case COMMAND_FLAME: write_flame(t, stdout, has_option); break;
	default: write_text(t, stdout);
	}
	finish_output();
	print_warnings(&t->warnings, path);
	status = is_damaged(&t->warnings) ? 3 : 0;
	trace_close(t);
	free(t);
	return status;
}

int main(int argc, char **argv)
{
	const char *path = NULL;
	bool has_option = false;
	enum command command;

	if (argc < 2)
		wrong_usage("a command is missing", "");
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
		fputs(usage_text, stdout);
		finish_output();
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("gmp-trace " STRING(GMP_VERSION_MAJOR) "." STRING(
			GMP_VERSION_MINOR) "." STRING(GMP_VERSION_PATCH));
		finish_output();
		return 0;
	}
	command = find_command(argv[1]);
	for (int i = 2; i < argc; i++) {
		if (argv[i][0] == '-' && argv[i][1] != '\0') {
			if (commands[command].option == NULL ||
			    strcmp(argv[i], commands[command].option) != 0)
				wrong_usage("unknown option ", argv[i]);
			has_option = true;
		} else if (path != NULL) {
			wrong_usage("more than one file: ", argv[i]);
		} else {
			path = argv[i];
		}
	}
	if (command == COMMAND_EVENTS && path == NULL) {
		write_event_table(stdout);
		finish_output();
		return 0;
	}
	if (command == COMMAND_EVENTS)
		wrong_usage("events has no argument, but there is ", path);
	if (path == NULL)
		wrong_usage("a file is missing for ", commands[command].name);
	return run(command, has_option, path);
}
