/* SPDX-License-Identifier: MIT */
/*
 * Commands of kvserver: each reads its arguments, uses the table, and adds one answer.
 *
 * Invariants:
 *
 *   KVC-1. No command waits while a shard is locked: answers are written to memory, and sent
 *          later.
 *   KVC-2. A command adds exactly one answer. If memory runs out in the first step, "-OOM ..."
 *          replaces the bytes that the step has added. If it runs out in a later step, part of the
 *          answer may have been sent, so the connection ends.
 *   KVC-3. Answers and error messages equal those of Redis 7.0 byte for byte. The exceptions: some
 *          options of SET and EXPIRE are missing, there is only one database, and COMPUTE is added.
 *   KVC-4. Memory is freed, and long values are copied, while no shard is locked.
 *   KVC-5. COMPUTE computes outside of kv_command_run, in the green thread of its connection, so
 *          it delays neither the owner of the table nor a shard.
 */
#include "kvcommand.h"

#include <gmp.h>

#define NOT_AN_INTEGER "ERR value is not an integer or out of range"
#define OUT_OF_MEMORY "OOM command not allowed: out of memory"
#define SYNTAX_ERROR "ERR syntax error"

static struct slice arg(const struct kv_client *c, uint32_t i)
{
	return resp_arg(c->request, i);
}

static uint32_t argc(const struct kv_client *c)
{
	return c->request->argc;
}

static uint64_t hash_arg(const struct kv_client *c, uint32_t i)
{
	return kv_hash(c->table, arg(c, i));
}

/* Returns whether s is `word`, in upper or lower case. `word` is in lower case. */
static bool is_word(struct slice s, const char *word)
{
	size_t i = 0;

	for (; i < s.len && word[i] != '\0'; i++)
		if ((word[i] >= 'a' ? s.at[i] | 0x20 : s.at[i]) != word[i])
			return false;
	return i == s.len && word[i] == '\0';
}

/* ---------------------------------------------------------------------- Errors */

/* Quote text of the client in an error, in one line: up to `most` bytes, or up to a zero byte. */
static void add_quoted(struct buf *out, struct slice s, size_t most)
{
	for (size_t i = 0; i < s.len && i < most && s.at[i] != '\0'; i++)
		buf_add(out, s.at[i] == '\r' || s.at[i] == '\n' ? " " : &s.at[i], 1);
}

static void add_upper(struct buf *out, const char *word)
{
	for (; *word; word++) {
		char c = *word >= 'a' && *word <= 'z' ? (char)(*word - 0x20) : *word;

		buf_add(out, &c, 1);
	}
}

static void wrong_arity(struct kv_client *c, const char *command)
{
	resp_add_text(&c->out, "-ERR wrong number of arguments for '");
	buf_add(&c->out, command, strlen(command));
	resp_add_text(&c->out, "' command\r\n");
}

static void unknown_command(struct kv_client *c)
{
	size_t room = 128;

	resp_add_text(&c->out, "-ERR unknown command '");
	add_quoted(&c->out, arg(c, 0), 128);
	resp_add_text(&c->out, "', with args beginning with: ");
	for (uint32_t i = 1; i < argc(c) && room > 0; i++) {
		size_t before = buf_len(&c->out);
		size_t added;

		resp_add_text(&c->out, "'");
		add_quoted(&c->out, arg(c, i), room);
		resp_add_text(&c->out, "' ");
		added = buf_len(&c->out) - before;
		room -= added < room ? added : room;
	}
	resp_add_text(&c->out, "\r\n");
}

static void unknown_subcommand(struct kv_client *c, const char *command)
{
	resp_add_text(&c->out, "-ERR unknown subcommand '");
	add_quoted(&c->out, arg(c, 1), 128);
	resp_add_text(&c->out, "'. Try ");
	add_upper(&c->out, command);
	resp_add_text(&c->out, " HELP.\r\n");
}

static void bad_expiry(struct kv_client *c, const char *command)
{
	resp_add_text(&c->out, "-ERR invalid expire time in '");
	buf_add(&c->out, command, strlen(command));
	resp_add_text(&c->out, "' command\r\n");
}

/* ------------------------------------------------------------- One key's value */

/* e may be NULL. */
static void add_value_locked(struct kv_client *c, struct kv_entry *e)
{
	if (!e) {
		resp_add_null(&c->out);
	} else if (e->value_len <= KV_COPY) {
		resp_add_bulk(&c->out, kv_value(e));
	} else {
		resp_add_bulk_length(&c->out, e->value_len);
		c->value = kv_entry_hold_locked(e);
		c->value_sent = 0;
	}
}

static void command_get(struct kv_client *c)
{
	struct slice key = arg(c, 1);
	uint64_t hash = kv_hash(c->table, key);

	kv_read_lock(c->table, hash);
	add_value_locked(c, kv_find_locked(c->table, hash, key));
	kv_read_unlock(c->table, hash);
}

/* Make the entry of a long value before its shard is locked. Returns false if memory runs out. */
static bool prepare_entry(struct slice key, struct slice value, int64_t expires,
			  struct kv_entry **entry)
{
	*entry = NULL;
	if (value.len <= KV_COPY)
		return true;
	*entry = kv_entry_new(key, value, expires);
	return *entry != NULL;
}

struct set_options {
	bool only_new; /* NX */
	bool only_old; /* XX */
	uint32_t time; /* index of the argument with the time; 0: none */
	bool seconds;  /* unit of the time; false: milliseconds */
	int64_t expires;
};

/* Returns false if an option is unknown, or if two options contradict each other. */
static bool read_set_options(const struct kv_client *c, struct set_options *o)
{
	for (uint32_t i = 3; i < argc(c); i++) {
		bool seconds = is_word(arg(c, i), "ex");

		if (is_word(arg(c, i), "nx") && !o->only_old) {
			o->only_new = true;
		} else if (is_word(arg(c, i), "xx") && !o->only_new) {
			o->only_old = true;
		} else if ((seconds || is_word(arg(c, i), "px")) && i + 1 < argc(c) &&
			   (o->time == 0 || o->seconds == seconds)) {
			o->time = ++i;
			o->seconds = seconds;
		} else {
			return false;
		}
	}
	return true;
}

/* Returns false and adds an error if the time is not valid. */
static bool read_set_time(struct kv_client *c, struct set_options *o)
{
	int64_t unit = o->seconds ? 1000 : 1;
	int64_t now = kv_now();
	int64_t time;

	if (!resp_parse_integer(arg(c, o->time), &time)) {
		resp_add_error(&c->out, NOT_AN_INTEGER);
		return false;
	}
	if (time <= 0 || time > (INT64_MAX - now) / unit) {
		bad_expiry(c, "set");
		return false;
	}
	o->expires = now + time * unit;
	return true;
}

static void set_value(struct kv_client *c, const struct set_options *o)
{
	struct slice key = arg(c, 1);
	uint64_t hash = kv_hash(c->table, key);
	struct kv_entry *entry;
	bool wanted = true;
	bool done = false;

	if (!prepare_entry(key, arg(c, 2), o->expires, &entry)) {
		resp_add_error(&c->out, OUT_OF_MEMORY);
		return;
	}
	kv_write_lock(c->table, hash);
	if (o->only_new || o->only_old)
		wanted = !kv_find_locked(c->table, hash, key) == o->only_new;
	if (wanted)
		done = kv_put_locked(c->table, hash, key, arg(c, 2), o->expires, &entry);
	kv_write_unlock(c->table, hash);
	kv_entry_release(entry);

	if (!wanted)
		resp_add_null(&c->out);
	else if (done)
		resp_add_status(&c->out, "OK");
	else
		resp_add_error(&c->out, OUT_OF_MEMORY);
}

static void command_set(struct kv_client *c)
{
	struct set_options o = { 0 };

	if (!read_set_options(c, &o)) {
		resp_add_error(&c->out, SYNTAX_ERROR);
		return;
	}
	if (o.time == 0 || read_set_time(c, &o))
		set_value(c, &o);
}

/* Add one to the number in the key's entry, or to 0 if there is no entry. Returns NULL, or the text
 * of an error. */
static const char *increment_locked(struct kv_client *c, uint64_t hash, int64_t *number,
				    struct kv_entry **old)
{
	const struct kv_entry *e = kv_find_locked(c->table, hash, arg(c, 1));
	char digits[RESP_DIGITS];
	struct slice value = { digits, 0 };

	*number = 0;
	if (e && !resp_parse_integer(kv_value(e), number))
		return "-" NOT_AN_INTEGER "\r\n";
	if (*number == INT64_MAX)
		return "-ERR increment or decrement would overflow\r\n";
	++*number;
	value.len = resp_format_integer(digits, *number);
	if (!kv_put_locked(c->table, hash, arg(c, 1), value, e ? e->expires : 0, old))
		return "-" OUT_OF_MEMORY "\r\n";
	return NULL;
}

static void command_incr(struct kv_client *c)
{
	uint64_t hash = hash_arg(c, 1);
	struct kv_entry *old = NULL;
	const char *error;
	int64_t number;

	kv_write_lock(c->table, hash);
	error = increment_locked(c, hash, &number, &old);
	kv_write_unlock(c->table, hash);
	kv_entry_release(old);
	if (error)
		buf_add(&c->out, error, strlen(error));
	else
		resp_add_integer(&c->out, number);
}

/* -------------------------------------------------------------- One key's time */

/* Set the time at which the key expires, or remove the key if that time is past. Returns false if
 * there is no such key. */
static bool expire_at(struct kv_client *c, int64_t when)
{
	struct slice key = arg(c, 1);
	uint64_t hash = kv_hash(c->table, key);
	struct kv_entry *erased = NULL;
	struct kv_entry *e;

	kv_write_lock(c->table, hash);
	e = kv_find_locked(c->table, hash, key);
	if (e && when <= kv_now())
		kv_erase_locked(c->table, hash, key, &erased);
	else if (e)
		kv_expire_locked(c->table, hash, e, when);
	kv_write_unlock(c->table, hash);
	kv_entry_release(erased);
	return e != NULL;
}

static void command_expire(struct kv_client *c)
{
	int64_t now = kv_now();
	int64_t seconds;

	if (argc(c) > 3) {
		resp_add_text(&c->out, "-ERR Unsupported option ");
		add_quoted(&c->out, arg(c, 3), 128);
		resp_add_text(&c->out, "\r\n");
	} else if (!resp_parse_integer(arg(c, 2), &seconds)) {
		resp_add_error(&c->out, NOT_AN_INTEGER);
	} else if (seconds > (INT64_MAX - now) / 1000 || seconds < INT64_MIN / 1000) {
		bad_expiry(c, "expire");
	} else {
		resp_add_integer(&c->out, expire_at(c, now + seconds * 1000));
	}
}

static void command_ttl(struct kv_client *c)
{
	struct slice key = arg(c, 1);
	uint64_t hash = kv_hash(c->table, key);
	int64_t seconds = -2; /* no such key */
	const struct kv_entry *e;

	kv_read_lock(c->table, hash);
	e = kv_find_locked(c->table, hash, key);
	if (e && e->expires == 0)
		seconds = -1; /* never */
	else if (e)
		seconds = (e->expires - kv_now() + 500) / 1000;
	kv_read_unlock(c->table, hash);
	resp_add_integer(&c->out, seconds);
}

/* ---------------------------------------------------------------- Several keys */

/* The keys of one step; their shards are locked together. */
struct step {
	uint32_t n;
	uint64_t hashes[KV_HOLD_KEYS];
	struct kv_shards shards;
};

/* Collect the keys of a step from c->at on: every stride-th argument is a key, and the stride - 1
 * arguments behind it belong to it. */
static void begin_step(struct kv_client *c, struct step *s, uint32_t stride)
{
	size_t bytes = 0;

	s->n = 0;
	s->shards = (struct kv_shards){ 0 };
	if (c->at == 0)
		c->at = 1;
	for (uint32_t i = c->at; i < argc(c) && s->n < KV_HOLD_KEYS; i += stride) {
		for (uint32_t k = i; k < i + stride; k++)
			bytes += arg(c, k).len;
		if (s->n > 0 && bytes > KV_HOLD_BYTES)
			break;
		s->hashes[s->n] = hash_arg(c, i);
		kv_shards_add(&s->shards, s->hashes[s->n]);
		s->n++;
	}
}

/* Record that n arguments are done. */
static void end_step(struct kv_client *c, uint32_t n)
{
	c->at += n;
	c->more = c->at < argc(c);
}

static void command_mget(struct kv_client *c)
{
	uint32_t done = 0;
	struct step s;

	if (c->at == 0)
		resp_add_array(&c->out, argc(c) - 1);
	begin_step(c, &s, 1);
	kv_shards_read_lock(c->table, &s.shards);
	for (; done < s.n && !kv_client_is_full(c) && !c->out.failed; done++)
		add_value_locked(c, kv_find_locked(c->table, s.hashes[done], arg(c, c->at + done)));
	kv_shards_read_unlock(c->table, &s.shards);
	end_step(c, done);
}

static void release_entries(struct kv_entry **entries, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		kv_entry_release(entries[i]);
}

/* Set the keys of a step. Returns false if memory runs out; some keys may then be set. */
static bool set_values(struct kv_client *c, const struct step *s)
{
	struct kv_entry *entries[KV_HOLD_KEYS] = { NULL };
	bool done = true;

	for (uint32_t i = 0; i < s->n && done; i++)
		done = prepare_entry(arg(c, c->at + 2 * i), arg(c, c->at + 2 * i + 1), 0,
				     &entries[i]);
	kv_shards_write_lock(c->table, &s->shards);
	for (uint32_t i = 0; i < s->n && done; i++)
		done = kv_put_locked(c->table, s->hashes[i], arg(c, c->at + 2 * i),
				     arg(c, c->at + 2 * i + 1), 0, &entries[i]);
	kv_shards_write_unlock(c->table, &s->shards);
	release_entries(entries, s->n);
	return done;
}

static void command_mset(struct kv_client *c)
{
	struct step s;

	if (argc(c) % 2 == 0) {
		wrong_arity(c, "mset");
		return;
	}
	begin_step(c, &s, 2);
	if (!set_values(c, &s)) {
		resp_add_error(&c->out, OUT_OF_MEMORY);
		return;
	}
	end_step(c, 2 * s.n);
	if (!c->more)
		resp_add_status(&c->out, "OK");
}

static void command_del(struct kv_client *c)
{
	struct kv_entry *entries[KV_HOLD_KEYS];
	struct step s;

	begin_step(c, &s, 1);
	kv_shards_write_lock(c->table, &s.shards);
	for (uint32_t i = 0; i < s.n; i++)
		c->count += kv_erase_locked(c->table, s.hashes[i], arg(c, c->at + i), &entries[i]);
	kv_shards_write_unlock(c->table, &s.shards);
	release_entries(entries, s.n);
	end_step(c, s.n);
	if (!c->more)
		resp_add_integer(&c->out, c->count);
}

static void command_exists(struct kv_client *c)
{
	struct step s;

	begin_step(c, &s, 1);
	kv_shards_read_lock(c->table, &s.shards);
	for (uint32_t i = 0; i < s.n; i++)
		c->count += kv_find_locked(c->table, s.hashes[i], arg(c, c->at + i)) != NULL;
	kv_shards_read_unlock(c->table, &s.shards);
	end_step(c, s.n);
	if (!c->more)
		resp_add_integer(&c->out, c->count);
}

static void command_dbsize(struct kv_client *c)
{
	resp_add_integer(&c->out, kv_count(c->table));
}

static void command_flushall(struct kv_client *c)
{
	bool fine = argc(c) == 1 ||
		    (argc(c) == 2 && (is_word(arg(c, 1), "sync") || is_word(arg(c, 1), "async")));

	if (!fine) {
		resp_add_error(&c->out, SYNTAX_ERROR);
		return;
	}
	c->more = kv_clear_some(c->table, &c->cursor);
	if (!c->more)
		resp_add_status(&c->out, "OK");
}

/* -------------------------------------------------------------- The connection */

static void command_ping(struct kv_client *c)
{
	if (argc(c) > 2)
		wrong_arity(c, "ping");
	else if (argc(c) == 2)
		resp_add_bulk(&c->out, arg(c, 1));
	else
		resp_add_status(&c->out, "PONG");
}

static void command_echo(struct kv_client *c)
{
	resp_add_bulk(&c->out, arg(c, 1));
}

static void command_quit(struct kv_client *c)
{
	resp_add_status(&c->out, "OK");
	c->closing = true;
}

/* Security: a hostile page may let a browser send an HTTP request to this server. The connection
 * ends after the first line, so that no later line is run as a command. */
static void command_http(struct kv_client *c)
{
	c->closing = true;
}

static void command_select(struct kv_client *c)
{
	int64_t index;

	if (!resp_parse_integer(arg(c, 1), &index))
		resp_add_error(&c->out, NOT_AN_INTEGER);
	else if (index != 0)
		resp_add_error(&c->out, "ERR DB index is out of range");
	else
		resp_add_status(&c->out, "OK");
}

static void add_word(struct buf *out, const char *word)
{
	resp_add_bulk(out, (struct slice){ word, strlen(word) });
}

static void add_greeting(struct buf *out)
{
	resp_add_array(out, 14);
	add_word(out, "server");
	add_word(out, "kvserver");
	add_word(out, "version");
	add_word(out, "7.0.0");
	add_word(out, "proto");
	resp_add_integer(out, 2);
	add_word(out, "id");
	resp_add_integer(out, (int64_t)gmp_id(gmp_self()));
	add_word(out, "mode");
	add_word(out, "standalone");
	add_word(out, "role");
	add_word(out, "master");
	add_word(out, "modules");
	resp_add_array(out, 0);
}

static void command_hello(struct kv_client *c)
{
	int64_t version = 2;

	if (argc(c) > 1 && !resp_parse_integer(arg(c, 1), &version)) {
		resp_add_error(&c->out, "ERR Protocol version is not an integer or out of range");
	} else if (version != 2) {
		resp_add_error(&c->out, "NOPROTO unsupported protocol version");
	} else if (argc(c) > 2) {
		resp_add_text(&c->out, "-ERR Syntax error in HELLO option '");
		add_quoted(&c->out, arg(c, 2), 128);
		resp_add_text(&c->out, "'\r\n");
	} else {
		add_greeting(&c->out);
	}
}

static void command_client(struct kv_client *c)
{
	if (is_word(arg(c, 1), "setname") && argc(c) != 3)
		wrong_arity(c, "client|setname");
	else if (is_word(arg(c, 1), "setinfo") && argc(c) != 4)
		wrong_arity(c, "client|setinfo");
	else if (is_word(arg(c, 1), "setname") || is_word(arg(c, 1), "setinfo"))
		resp_add_status(&c->out, "OK");
	else
		unknown_subcommand(c, "client");
}

/* redis-cli asks for help texts, other clients for the positions of keys. The answer is empty. */
static void command_command(struct kv_client *c)
{
	if (argc(c) == 1 || is_word(arg(c, 1), "docs") || is_word(arg(c, 1), "info"))
		resp_add_array(&c->out, 0);
	else
		unknown_subcommand(c, "command");
}

static const struct {
	const char *name;
	const char *value;
} settings[] = {
	{ "save", "" },
	{ "appendonly", "no" },
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static bool asks_for(const struct kv_client *c, const char *name)
{
	for (uint32_t i = 2; i < argc(c); i++)
		if (is_word(arg(c, i), name))
			return true;
	return false;
}

static void command_config(struct kv_client *c)
{
	int64_t found = 0;

	if (!is_word(arg(c, 1), "get")) {
		unknown_subcommand(c, "config");
		return;
	}
	if (argc(c) < 3) {
		wrong_arity(c, "config|get");
		return;
	}
	for (size_t i = 0; i < SETTINGS; i++)
		found += asks_for(c, settings[i].name);
	resp_add_array(&c->out, 2 * found);
	for (size_t i = 0; i < SETTINGS; i++) {
		if (asks_for(c, settings[i].name)) {
			add_word(&c->out, settings[i].name);
			add_word(&c->out, settings[i].value);
		}
	}
}

static void command_info(struct kv_client *c)
{
	static const char head[] = "# Server\r\n"
				   "redis_version:7.0.0\r\n"
				   "redis_mode:standalone\r\n"
				   "# Keyspace\r\n"
				   "db0:keys=";
	char text[sizeof(head) + RESP_DIGITS + 2];
	size_t len = sizeof(head) - 1;

	memcpy(text, head, len);
	len += resp_format_integer(text + len, kv_count(c->table));
	text[len++] = '\r';
	text[len++] = '\n';
	resp_add_bulk(&c->out, (struct slice){ text, len });
}

/* COMPUTE ROUNDS: use CPU time for about 1 to 2 ns per round, and answer with a number that depends
 * on each round.  It stands for a command that computes; bench/net/run measures what it costs the
 * clients that only read. */
static void command_compute(struct kv_client *c)
{
	int64_t rounds;

	if (!resp_parse_integer(arg(c, 1), &rounds))
		resp_add_error(&c->out, NOT_AN_INTEGER);
	else if (rounds <= 0 || rounds > KV_ROUNDS_MOST)
		resp_add_error(&c->out, "ERR rounds must be 1 to 1000000000");
	else
		c->rounds = rounds;
}

void kv_client_compute(struct kv_client *c)
{
	uint64_t x = 88172645463325252u;

	for (; c->rounds > 0; c->rounds--) { /* xorshift: each round needs the one before it */
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	resp_add_integer(&c->out, (int64_t)(x >> 33));
	c->closing |= c->out.failed;
}

/* ------------------------------------------------------------------- The table */

struct command {
	const char *name;
	int arity; /* number of arguments with the name; -n: at least n */
	void (*run)(struct kv_client *c);
};

/* In the order of the search, so the most frequent commands are first. */
static const struct command commands[] = {
	{ "get", 2, command_get },
	{ "set", -3, command_set },
	{ "incr", 2, command_incr },
	{ "del", -2, command_del },
	{ "mget", -2, command_mget },
	{ "mset", -3, command_mset },
	{ "ping", -1, command_ping },
	{ "exists", -2, command_exists },
	{ "expire", -3, command_expire },
	{ "ttl", 2, command_ttl },
	{ "echo", 2, command_echo },
	{ "dbsize", 1, command_dbsize },
	{ "flushall", -1, command_flushall },
	{ "quit", -1, command_quit },
	{ "select", 2, command_select },
	{ "hello", -1, command_hello },
	{ "client", -2, command_client },
	{ "config", -2, command_config },
	{ "command", -1, command_command },
	{ "info", -1, command_info },
	{ "compute", 2, command_compute },
	{ "post", -1, command_http },
	{ "host:", -1, command_http },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(struct slice name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (is_word(name, commands[i].name))
			return &commands[i];
	return NULL;
}

/* Remove the answer of a step that has run out of memory (KVC-2). */
static void take_back(struct kv_client *c, size_t before, bool first_step)
{
	kv_entry_release(c->value);
	c->value = NULL;
	c->more = false;
	c->out.failed = false;
	c->out.end = before;
	if (first_step)
		resp_add_error(&c->out, OUT_OF_MEMORY);
	c->closing |= c->out.failed || !first_step;
}

bool kv_command_run(struct kv_client *c)
{
	const struct command *command = find_command(arg(c, 0));
	size_t before = c->out.end;
	bool first_step = !c->more;
	int arguments = (int)argc(c);

	c->more = false;
	if (!command)
		unknown_command(c);
	else if (command->arity >= 0 ? arguments != command->arity : arguments < -command->arity)
		wrong_arity(c, command->name);
	else
		command->run(c);

	if (c->out.failed)
		take_back(c, before, first_step);
	if (!c->more) {
		c->at = 0;
		c->count = 0;
		c->cursor = 0;
	}
	return !c->more;
}
