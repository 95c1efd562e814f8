// SPDX-License-Identifier: MIT
#include "options.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *operation_name(enum operation operation)
{
	return operation == OPERATION_READ ? "read" : "write";
}

enum role other_role(enum role role)
{
	return role == ROLE_CLIENT ? ROLE_SERVER : ROLE_CLIENT;
}

bool sends_payload(enum role role, enum operation operation, bool one_way)
{
	/* the client writes its payload, or reads the server's */
	return !one_way || (role == ROLE_CLIENT) == (operation == OPERATION_WRITE);
}

bool is_standard_output(const char *name)
{
	return name && !strcmp(name, "-");
}

bool serves_many(const struct options *options)
{
	return options->role == ROLE_SERVER && !options->one_off;
}

struct options default_options(enum role role)
{
	struct options options = {
		.role = role,
		.depth = DEFAULT_DEPTH,
		.timeout_seconds = DEFAULT_TIMEOUT_SECONDS,
		.maximum_payload = DEFAULT_MAXIMUM_PAYLOAD,
		.maximum_sessions = DEFAULT_MAXIMUM_SESSIONS,
	};

	return options;
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

bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoull(3) takes spaces and signs as well */
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && !*end && *number >= minimum && *number <= maximum;
}

/* A number of at least 1 that may end in K, M or G, each `factor` times the one before. */
static bool parse_scaled(const char *text, uint64_t factor, uint64_t *scaled)
{
	static const char units[] = "KMG";
	size_t digits = strspn(text, "0123456789");
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
	char number[21]; /* as many digits as 64 bits can have */
	uint64_t scale = 1, value;

	if (digits >= sizeof(number) || (text[digits] && (!unit || text[digits + 1])))
		return false;
	for (const char *next = units; unit && next <= unit; next++)
		scale *= factor;
	memcpy(number, text, digits);
	number[digits] = '\0';
	if (!parse_number(number, 1, UINT64_MAX / scale, &value))
		return false;
	*scaled = value * scale;
	return true;
}

bool parse_size(const char *text, uint64_t *size)
{
	return parse_scaled(text, 1024, size);
}

bool parse_rate(const char *text, uint64_t *rate)
{
	return parse_scaled(text, 1000, rate);
}

bool parse_operation(const char *word, enum operation *operation)
{
	if (!strcmp(word, operation_name(OPERATION_READ)))
		*operation = OPERATION_READ;
	else if (!strcmp(word, operation_name(OPERATION_WRITE)))
		*operation = OPERATION_WRITE;
	else
		return usage_error("the operation is 'read' or 'write', not '%s'", word) ==
		       PARSED_RUN;
	return true;
}

/* An option whose argument is a number from 1 to `maximum`. */
static enum parsed parse_count(const char *name, const char *argument, uint64_t maximum,
			       uint64_t *number)
{
	if (parse_number(argument, 1, maximum, number))
		return PARSED_RUN;
	return usage_error("%s takes a whole number from 1 to %" PRIu64 ", not '%s'", name, maximum,
			   argument);
}

/* An option whose argument is a size. */
static enum parsed parse_bytes(const char *name, const char *argument, uint64_t *size)
{
	if (!parse_size(argument, size))
		return usage_error("%s takes bytes, or a number with K, M or G, not '%s'", name,
				   argument);
	if (*size > LONGEST_PAYLOAD)
		return usage_error("%s takes at most %" PRIu64 " bytes, not '%s'", name,
				   LONGEST_PAYLOAD, argument);
	return PARSED_RUN;
}

/* The options that take a number. */
static enum parsed parse_numeric_option(struct options *options, int letter, const char *argument)
{
	enum parsed parsed = PARSED_RUN;
	uint64_t number = 0;

	switch (letter) {
	case 's':
		return parse_bytes("--size", argument, &options->pattern_size);
	case OPTION_MAX_SIZE:
		return parse_bytes("--max-size", argument, &options->maximum_payload);
	case OPTION_MIN_RATE:
		if (!parse_rate(argument, &options->minimum_rate))
			return usage_error("--min-rate takes bit/s, or a number with K, M or G, "
					   "not '%s'",
					   argument);
		return PARSED_RUN;
	case OPTION_TOS:
		if (!parse_number(argument, 0, UINT8_MAX, &number))
			return usage_error("--tos takes a number from 0 to 255, not '%s'",
					   argument);
		options->tos = (uint8_t)number;
		options->has_tos = true;
		return PARSED_RUN;
	case 'n':
		parsed = parse_count("--iters", argument, 1000000000, &number);
		options->iterations = number;
		return parsed;
	case OPTION_DURATION:
		parsed = parse_count("--duration", argument, 1000000, &number);
		options->duration_seconds = (unsigned int)number;
		return parsed;
	case OPTION_DEPTH:
		parsed = parse_count("--depth", argument, 65536, &number);
		options->depth = (unsigned int)number;
		return parsed;
	case 't':
		parsed = parse_count("--timeout", argument, 1000000, &number);
		options->timeout_seconds = (unsigned int)number;
		return parsed;
	default: /* getopt_long(3) has said what is wrong */
		return usage_error(NULL);
	}
}

enum parsed parse_common_option(struct options *options, int letter, const char *argument,
				const char *help)
{
	switch (letter) {
	case 'B':
		options->bind = argument;
		return PARSED_RUN;
	case 'm':
		options->message = argument;
		return PARSED_RUN;
	case 'f':
		options->file = argument;
		return PARSED_RUN;
	case 'o':
		options->output = argument;
		return PARSED_RUN;
	case OPTION_VERIFY_ALL:
		options->every_pass = true;
		return PARSED_RUN;
	case OPTION_BUSY_POLL:
		options->busy_poll = true;
		return PARSED_RUN;
	case OPTION_REPORT:
		options->report = true;
		return PARSED_RUN;
	case 'J':
		options->json = true;
		return PARSED_RUN;
	case 'v':
		options->verbose = true;
		return PARSED_RUN;
	case 'h':
		fputs(help, stdout);
		return PARSED_EXIT;
	case OPTION_VERSION:
		printf("%s %s\n", program_invocation_short_name, PROGRAM_VERSION);
		return PARSED_EXIT;
	default:
		return parse_numeric_option(options, letter, argument);
	}
}

/*
 * Whether what --file names has a length that only its end tells: a pipe or a device. Where that
 * cannot be found out, or it is a folder, reading it says why.
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

	if (payloads > 1)
		return usage_error("--message, --file and --size exclude each other: there is one "
				   "outgoing payload");
	if (options->iterations > 0 && options->duration_seconds > 0)
		return usage_error("--iters and --duration exclude each other: a count, or a time");
	/* what is read is the peer's payload */
	if (options->operation == OPERATION_WRITE && options->iterations > 0 &&
	    options->pattern_size > LONGEST_PAYLOAD / options->iterations)
		return usage_error("--size times --iters is more than %" PRIu64
				   " bytes; lower one of them",
				   LONGEST_PAYLOAD);
	if (options->file && options->operation == OPERATION_WRITE &&
	    operation_passes(options) != 1 && !serves_many(options) && has_one_pass(options->file))
		return usage_error("'%s' is a pipe or a device, which can be sent once: leave "
				   "--iters and --duration out, or send a file",
				   options->file);
	if (is_standard_output(options->output) && options->json)
		return usage_error("--json and --output - both need standard output");
	if (payloads && !sends_payload(options->role, options->operation, options->one_way))
		return usage_error("with --one-way and read this side sends no payload");
	if (options->output &&
	    !sends_payload(other_role(options->role), options->operation, options->one_way))
		return usage_error("with --one-way and write nothing is received that --output "
				   "could store");
	return PARSED_RUN;
}
