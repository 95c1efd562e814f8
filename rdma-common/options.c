// SPDX-License-Identifier: MIT
#include "options.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Makefile and the packages read the version here. */
#define PROGRAM_VERSION "1.0.0"

/* The Makefile passes the commit to this file alone. */
#ifndef PROGRAM_COMMIT
#define PROGRAM_COMMIT ""
#endif

const char program_version[] = PROGRAM_VERSION PROGRAM_COMMIT;

const char *operation_name(enum operation operation)
{
	if (operation == OPERATION_ANY)
		return NULL;
	return operation == OPERATION_READ ? "read" : "write";
}

const char *role_name(enum role role)
{
	return role == ROLE_CLIENT ? "client" : "server";
}

enum role other_role(enum role role)
{
	return role == ROLE_CLIENT ? ROLE_SERVER : ROLE_CLIENT;
}

bool sends_payload(enum role role, enum operation operation, bool one_way)
{
	return !one_way || (role == ROLE_CLIENT) == (operation == OPERATION_WRITE);
}

bool is_standard_output(const char *name)
{
	return name && !strcmp(name, "-");
}

bool serves_multiple_clients(const struct options *options)
{
	return options->role == ROLE_SERVER && !options->one_off;
}

int64_t timeout_milliseconds(const struct options *options)
{
	return (int64_t)options->timeout_seconds * 1000;
}

uint64_t operation_passes(const struct options *options)
{
	if (options->duration_seconds > 0)
		return 0;
	return options->iterations > 0 ? options->iterations : 1;
}

bool prints_figures(const struct options *options)
{
	return options->report || operation_passes(options) != 1;
}

enum parsed usage_error(const char *format, ...)
{
	va_list arguments;

	if (format) {
		va_start(arguments, format);
		vwarnx(format, arguments);
		va_end(arguments);
	}
	fprintf(stderr, "Try '%s --help'.\n", program_invocation_short_name);
	return PARSED_FAILED;
}

bool parse_operation(const char *word, enum operation *operation)
{
	bool reads = !strcmp(word, operation_name(OPERATION_READ));
	bool writes = !strcmp(word, operation_name(OPERATION_WRITE));

	if (!reads && !writes) {
		usage_error("the operation is 'read' or 'write', not '%s'", word);
		return false;
	}
	*operation = writes ? OPERATION_WRITE : OPERATION_READ;
	return true;
}

/* ---- The options ---- */

/* The argument that an option takes, and the type of its field. */
enum kind {
	TITLE,   /* a heading of --help, not an option */
	FLAG,    /* no argument; bool */
	TEXT,    /* any text; const char * */
	NUMBER,  /* from `least` to `most`; unsigned int */
	BYTE,    /* a byte of a header, also hexadecimal; unsigned int */
	TIME,    /* seconds; unsigned int */
	PORT,    /* a number, as text for getaddrinfo(3); const char * */
	SIZE,    /* bytes; uint64_t */
	RATE,    /* bit/s; uint64_t */
	HELP,    /* no field: print the help at once */
	VERSION, /* no field: print the version at once */
};

/*
 * The programs that have an option, as a set of bits. CHECK means that --check accepts the option.
 * ZERO means that the option's number may be 0, but only with --check.
 */
enum {
	CLIENT = 1 << 0,
	SERVER = 1 << 1,
	BOTH = CLIENT | SERVER,
	CHECK = 1 << 2,
	ZERO = 1 << 3,
};

/* An option, or a heading. --help lists the rows in their order. */
struct row {
	enum kind kind;
	unsigned int programs;
	char letter; /* 0 if the option has none */
	const char *name, *argument;
	size_t field; /* offset in struct options */
	const char *help;
	const char *standard; /* the default value, or NULL */
	uint64_t least, most;
};

#define AT(field) offsetof(struct options, field)

/* clang-format off */
static const struct row rows[] = {
{ TITLE,   CLIENT,           0,  .name = "Connecting:" },
{ TITLE,   SERVER,           0,  .name = "Serving:" },
{ PORT,    SERVER,          'p', "port",         "PORT",    AT(port),             .help = "listen on PORT instead of any free one", .least = 0, .most = 65535 },
{ TEXT,    SERVER,          'B', "bind",         "ADDRESS", AT(bind),             .help = "listen on ADDRESS only, not on all addresses" },
{ TEXT,    CLIENT | CHECK,  'B', "bind",         "ADDRESS", AT(bind),             .help = "connect from ADDRESS, an address of this host" },
{ NUMBER,  CLIENT | CHECK,   0,  "connections",  "N",       AT(connections),      .help = "N sessions at once, each with a queue pair", .standard = "1", .least = 1, .most = MAX_CONNECTIONS },
{ BYTE,    BOTH | CHECK,     0,  "tos",          "N",       AT(tos),              .help = "type of service in IP headers (0x68 for DSCP 26)", .least = 0, .most = 255 },
{ FLAG,    SERVER,          '1', "one-off",      NULL,      AT(one_off),          .help = "exit after the first session, with its status" },
{ FLAG,    CLIENT | CHECK,   0,  "check",        NULL,      AT(check),            .help = "check this host, or the path to ADDRESS" },
{ TITLE,   BOTH,             0,  .name = "Payloads, outgoing and incoming:" },
{ TEXT,    BOTH,            'm', "message",      "TEXT",    AT(message),          .help = "send TEXT instead of a line with the process id" },
{ TEXT,    BOTH,            'f', "file",         "FILE",    AT(file),             .help = "send the bytes in FILE ('-' is standard input)" },
{ SIZE,    BOTH,            's', "size",         "SIZE",    AT(pattern_size),     .help = "send a pattern of SIZE bytes (64K, 1MiB, 2T)", .least = 1, .most = MAX_PAYLOAD },
{ TEXT,    BOTH,            'o', "output",       "FILE",    AT(output),           .help = "store the incoming payload in FILE ('-' is stdout)" },
{ TITLE,   BOTH,             0,  .name = "The operation:" },
{ NUMBER,  BOTH,            'n', "iters",        "N",       AT(iterations),       .help = "perform the operation N times", .least = 1, .most = 1000000000 },
{ TIME,    BOTH | CHECK | ZERO, 0, "duration",     "TIME",    AT(duration_seconds), .help = "repeat the operation for TIME seconds", .least = 1, .most = 1000000 },
{ NUMBER,  BOTH,             0,  "depth",        "D",       AT(depth),            .help = "at most D work requests outstanding", .standard = "16", .least = 1, .most = 65536 },
{ RATE,    BOTH | CHECK,     0,  "min-rate",     "RATE",    AT(minimum_rate),     .help = "fail below RATE bit/s (800M, 10Gbit)", .least = 1, .most = UINT64_MAX },
{ FLAG,    BOTH,             0,  "busy-poll",    NULL,      AT(busy_poll),        .help = "poll for completions instead of sleeping" },
{ FLAG,    CLIENT,           0,  "one-way",      NULL,      AT(one_way),          .help = "only the client reads or writes" },
{ TITLE,   BOTH,             0,  .name = "Output:" },
{ FLAG,    BOTH,             0,  "report",       NULL,      AT(report),           .help = "print amounts, rates, and with --depth 1 latencies" },
{ TIME,    BOTH,             0,  "interval",     "TIME",    AT(interval_seconds), .help = "print rate and port errors every TIME seconds", .least = 1, .most = 1000000 },
{ FLAG,    BOTH | CHECK,    'J', "json",         NULL,      AT(json),             .help = "print a JSON object per session on standard output" },
{ FLAG,    BOTH | CHECK,    'v', "verbose",      NULL,      AT(verbose),          .help = "trace verbs and state changes on standard error" },
{ HELP,    BOTH,            'h', "help",         NULL,      0,                    .help = "print this help" },
{ VERSION, BOTH,             0,  "version",      NULL,      0,                    .help = "print the version" },
{ TITLE,   BOTH,             0,  .name = "Limits:" },
{ TIME,    BOTH | CHECK,    't', "timeout",      "SECONDS", AT(timeout_seconds),  .help = "longest time without progress", .standard = "10", .least = 1, .most = 1000000 },
{ SIZE,    BOTH,             0,  "max-size",     "SIZE",    AT(maximum_payload),  .help = "largest payload accepted from a peer", .standard = "1G", .least = 1, .most = MAX_PAYLOAD },
{ NUMBER,  SERVER,           0,  "max-sessions", "N",       AT(maximum_sessions), .help = "sessions at a time; others are refused", .standard = "1024", .least = 1, .most = 1000000 },
};
/* clang-format on */
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool belongs_to(const struct row *row, enum role role)
{
	return row->programs & (role == ROLE_CLIENT ? CLIENT : SERVER);
}

_Static_assert(ROWS <= 64, "options.given must have a bit for each row");

bool is_given(const struct options *options, size_t offset)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (options->given >> i & 1 && rows[i].field == offset)
			return true;
	}
	return false;
}

/* Return getopt_long(3)'s value for an option: its letter, or a number above all characters. */
static int value_of(const struct row *row)
{
	return row->letter ? row->letter : 256 + (int)(row - rows);
}

/* Return the option for a value of getopt_long(3), or NULL for '?', which stands for an error. */
static const struct row *find_row(enum role role, int value)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (belongs_to(row, role) && value_of(row) == value)
			return row;
	}
	return NULL;
}

#define EXIT_STATUS_HELP                                                         \
	"Exit status:\n"                                                         \
	"  0  all data delivered and verified (server without -1: stopped)\n"    \
	"  1  unexpected failure on this host          2  wrong usage\n"         \
	"  3  no usable RDMA device, address or route  4  refused by the peer\n" \
	"  5  timed out                                6  peer lost\n"           \
	"  7  contents wrong\n"                                                  \
	"  8  slower than --min-rate; --check: this host is limited, or packets are lost\n"

/* Print `usage` and the options of a program. The descriptions begin in column 27. */
static void print_help(enum role role, const char *usage)
{
	fputs(usage, stdout);
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (!belongs_to(row, role))
			continue;
		if (row->kind == TITLE) {
			printf("%s\n", row->name);
			continue;
		}
		printf(row->letter ? "  -%c, " : "      ", row->letter);
		printf("--%s %-*s %s", row->name, 16 - (int)strlen(row->name),
		       row->argument ? row->argument : "", row->help);
		printf(row->standard ? " (default %s)\n" : "\n", row->standard);
	}
	fputs("\n" EXIT_STATUS_HELP, stdout);
}

/* ---- Parsing ---- */

static const char *const number_words[] = {
	[NUMBER] = "a whole number",
	[BYTE] = "a whole number, decimal or hexadecimal (0x68),",
	[TIME] = "whole seconds (5 or 5s)",
	[PORT] = "a whole number",
	[SIZE] =
		"bytes, with an optional suffix K, M, G, T or KiB (powers of 1024) or KB (powers of 1000),",
	[RATE] =
		"bit/s, with an optional suffix K, M, G or T (powers of 1000), as in 10G or 10Gbit/s,",
};

static const struct unit {
	enum kind kind;
	const char *name;
	uint64_t scale;
} units[] = {
	/* clang-format off */
	{ TIME, "s", 1 },
	{ SIZE, "B", 1 },
	{ SIZE, "K", 1ULL << 10 }, { SIZE, "KiB", 1ULL << 10 }, { SIZE, "KB", 1000 },
	{ SIZE, "M", 1ULL << 20 }, { SIZE, "MiB", 1ULL << 20 }, { SIZE, "MB", 1000000 },
	{ SIZE, "G", 1ULL << 30 }, { SIZE, "GiB", 1ULL << 30 }, { SIZE, "GB", 1000000000 },
	{ SIZE, "T", 1ULL << 40 }, { SIZE, "TiB", 1ULL << 40 }, { SIZE, "TB", 1000000000000 },
	{ RATE, "bit", 1 }, { RATE, "bit/s", 1 },
	{ RATE, "K", 1000 }, { RATE, "Kbit", 1000 }, { RATE, "Kbit/s", 1000 },
	{ RATE, "M", 1000000 }, { RATE, "Mbit", 1000000 }, { RATE, "Mbit/s", 1000000 },
	{ RATE, "G", 1000000000 }, { RATE, "Gbit", 1000000000 }, { RATE, "Gbit/s", 1000000000 },
	{ RATE, "T", 1000000000000 }, { RATE, "Tbit", 1000000000000 }, { RATE, "Tbit/s", 1000000000000 },
	/* clang-format on */
};

/*
 * Parse a number of this kind, with or without a unit, and convert it to the unit of the field.
 * Return false for another text, and on overflow.
 */
static bool parse_amount(enum kind kind, const char *text, uint64_t *amount)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoull(3) would accept a space or a sign */
		return false;
	errno = 0;
	*amount = strtoull(text, &end, kind == BYTE && text[1] == 'x' ? 16 : 10);
	if (errno || !*end)
		return !errno;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].kind == kind && !strcmp(end, units[i].name))
			return !__builtin_mul_overflow(*amount, units[i].scale, amount);
	}
	return false;
}

bool is_decimal(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

bool looks_like_endpoint(const char *word)
{
	return word[strcspn(word, "0123456789:")];
}

bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number)
{
	return parse_amount(NUMBER, text, number) && *number >= minimum && *number <= maximum;
}

/* Parse a number within the option's limits. Store it in the field, but for PORT store the text. */
static enum parsed take_number(const struct row *row, const char *argument, void *field)
{
	const char *zero = row->programs & ZERO ? ", or 0 with the client's --check" : "";
	uint64_t number;

	if (!parse_amount(row->kind, argument, &number) ||
	    (number < row->least && !(row->programs & ZERO && number == 0)) || number > row->most)
		return usage_error("--%s takes %s from %" PRIu64 " to %" PRIu64 "%s, not '%s'",
				   row->name, number_words[row->kind], row->least, row->most, zero,
				   argument);
	if (row->kind == PORT)
		*(const char **)field = argument;
	else if (row->kind == SIZE || row->kind == RATE)
		*(uint64_t *)field = number;
	else
		*(unsigned int *)field = (unsigned int)number;
	return PARSED_RUN;
}

/* Set the field of an option, or print what the option asks for. */
static enum parsed take_option(struct options *options, const struct row *row, const char *argument,
			       const char *usage)
{
	void *field = (char *)options + row->field;

	switch (row->kind) {
	case FLAG:
		*(bool *)field = true;
		return PARSED_RUN;
	case TEXT:
		*(const char **)field = argument;
		return PARSED_RUN;
	case HELP:
		print_help(options->role, usage);
		return PARSED_EXIT;
	case VERSION:
		printf("%s %s\n", program_invocation_short_name, program_version);
		return PARSED_EXIT;
	default:
		return take_number(row, argument, field);
	}
}

struct options default_options(enum role role)
{
	struct options options = { .role = role, .tos = DEFAULT_TOS };

	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (row->standard)
			take_option(&options, row, row->standard, "");
	}
	return options;
}

/* List the options of a program for getopt_long(3). Both arrays have room for all rows. */
static void list_options(enum role role, struct option *names, char *letters)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		int has_argument = row->argument ? required_argument : no_argument;

		if (row->kind == TITLE || !belongs_to(row, role))
			continue;
		*names++ = (struct option){ row->name, has_argument, NULL, value_of(row) };
		if (row->letter)
			*letters++ = row->letter;
		if (row->letter && row->argument)
			*letters++ = ':';
	}
}

/* Time, in seconds, of each measurement of --check without --duration. */
#define CHECK_SECONDS 1

enum parsed parse_options(struct options *options, const char *usage, int argc, char **argv)
{
	struct option names[ROWS + 1] = { 0 };
	char letters[2 * ROWS + 1] = { 0 };
	bool of_sessions = false; /* an option was given that --check does not accept */
	bool timed;
	int value;

	list_options(options->role, names, letters);
	/* getopt_long(3) begins its messages with argv[0]: use the name as in all other messages */
	argv[0] = program_invocation_short_name;
	while ((value = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		const struct row *row = find_row(options->role, value);
		enum parsed parsed =
			row ? take_option(options, row, optarg, usage) : usage_error(NULL);

		if (parsed != PARSED_RUN)
			return parsed;
		of_sessions |= !(row->programs & CHECK);
		options->given |= UINT64_C(1) << (row - rows);
	}
	timed = OPTION_GIVEN(options, duration_seconds);
	if (options->check && of_sessions)
		return usage_error(
			"--check accepts only --bind, --connections, --duration, --json, "
			"--min-rate, --timeout, --tos and --verbose");
	if (options->check && !timed)
		options->duration_seconds = CHECK_SECONDS;
	if (!options->check && timed && options->duration_seconds == 0)
		return usage_error("--duration 0 is only for the client's --check, which then "
				   "measures no rate: give 1 or more seconds");
	return PARSED_RUN;
}

/* ---- Combinations of options ---- */

/*
 * Return true if --file names a pipe or a device, which can be read only once. Return false for a
 * folder, and if stat(2) fails: the attempt to read the file then reports the error.
 */
static bool has_one_pass(const char *name)
{
	struct stat about;

	if (!strcmp(name, "-") ? fstat(STDIN_FILENO, &about) : stat(name, &about))
		return false;
	return !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

enum parsed check_options(const struct options *options)
{
	int payloads = !!options->message + !!options->file + !!options->pattern_size;
	bool repeats = options->operation == OPERATION_WRITE && operation_passes(options) != 1 &&
		       !serves_multiple_clients(options);

	if (options->bind && is_decimal(options->bind))
		return usage_error("--bind takes an address or a name, not the number '%s'",
				   options->bind);
	if (payloads > 1)
		return usage_error("--message, --file and --size exclude each other: give one "
				   "payload");
	if (options->iterations > 0 && options->duration_seconds > 0)
		return usage_error("--iters and --duration exclude each other: give a count or a "
				   "time");
	/* with READ, this side's --iters repeats the peer's payload */
	if (options->operation != OPERATION_READ && options->iterations > 0 &&
	    options->pattern_size > MAX_PAYLOAD / options->iterations)
		return usage_error("--size times --iters is more than %" PRIu64
				   " bytes; lower one of them",
				   MAX_PAYLOAD);
	if (options->file && (repeats || options->connections > 1) && has_one_pass(options->file))
		return usage_error("'%s' is a pipe or a device, which can be sent only once: "
				   "omit %s, or send a regular file",
				   options->file,
				   repeats ? "--iters and --duration" : "--connections");
	if (options->connections > 1 && options->output)
		return usage_error("--connections and --output exclude each other: each session "
				   "would store its payload in '%s'",
				   options->output);
	if (is_standard_output(options->output) && options->json)
		return usage_error("'--json' and '--output -' both need standard output: "
				   "give --output a file");
	if (payloads && !sends_payload(options->role, options->operation, options->one_way))
		return usage_error("with --one-way and read, this side sends no payload: omit "
				   "--message, --file and --size");
	if ((options->output || OPTION_GIVEN(options, maximum_payload)) &&
	    !sends_payload(other_role(options->role), options->operation, options->one_way))
		return usage_error("with --one-way and write, this side receives no payload: "
				   "omit --output and --max-size");
	if (options->one_off && OPTION_GIVEN(options, maximum_sessions))
		return usage_error("--one-off serves only one session: omit --max-sessions");
	return PARSED_RUN;
}
