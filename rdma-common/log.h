/* SPDX-License-Identifier: MIT */
/*
 * Output: status lines, traces, the payload, progress, and what JSON objects are made of.
 *
 * Any thread may print; nobody waits for a reader, since all of it goes through the console's
 * pipes.
 */
#ifndef RDMA_COMMON_LOG_H
#define RDMA_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "counters.h"
#include "status.h"
#include "verify.h"

struct json_object; /* of json-c */
struct options;
struct process;

/* The origin of a line: who prints. */
struct log {
	struct console *console;
	const struct options *options; /* which streams, and how much is printed */
	char prefix[16];               /* in front of each line: "[2] ", or nothing */
};

/* Prints one status line, at once: on standard output, or on standard error if that is taken by
 * --json, --check or --output. Those of the sessions of --check are traces. */
void print_status(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* With --verbose, prints one line on standard error. */
void print_trace(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints a line on standard output: what --check finds, or JSON. */
void print_result(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * An object of this kind, for print_json(). It says what it is, which version made it,
 * when, in UTC as RFC 3339 has it, and on which host.
 */
struct json_object *json_begin(const char *kind);

/* Adds a text (NULL: null) to an object. Bytes of it that are not UTF-8 appear as \xff. */
void json_add_text(struct json_object *object, const char *key, const char *text);

/* Adds a number, or whether something is so. */
void json_add_count(struct json_object *object, const char *key, uint64_t number);
void json_add_flag(struct json_object *object, const char *key, bool flag);

/* Adds a number; 0 is what is not known, or was not given: null. */
void json_add_known(struct json_object *object, const char *key, uint64_t number);

/* Adds a number that was measured; null where it was not. */
void json_add_number(struct json_object *object, const char *key, double number, bool measured);

/*
 * Adds "errors_counted" and "waits_counted": the counters of either kind that have grown, by how
 * much; null: there are none.
 */
void json_add_counters(struct json_object *object, const struct counters *growth);

/*
 * Adds "errors_counted_by_peer", of a peer that has told how many errors its port has counted, and
 * 1 (wire.h); null: 0, it has not.
 */
void json_add_peer_errors(struct json_object *object, uint64_t errors);

/* Adds "peer" and "peer_port"; NULL: not known. */
void json_add_peer(struct json_object *object, const char *address, const char *port);

/* Adds "status", the exit status; `signal_number` is what interrupted the program, if one did. */
void json_add_status(struct json_object *object, enum status status, int signal_number);

/* Prints an object, which is freed, as a line on standard output. */
void print_json(struct console *console, struct json_object *object);

/*
 * Waits until all that was printed is written: for --timeout at most, and for a second at most if
 * the process was interrupted, or is now; another signal ends it at once. STATUS_SUCCESS, or a
 * message and the failure. The main thread's, after all others have ended; afterwards nothing is
 * printed any more.
 */
enum status flush_output(const struct log *log, struct process *process);

/*
 * The bytes as text of the user's locale, with nothing left in it that a terminal would obey, or
 * that would deceive a reader. The caller frees it; NULL means that there is no memory. Any thread.
 */
char *escape(const uint8_t *bytes, size_t size);

/* Prints the incoming payload, as much of it as is sensible on a terminal. */
void print_payload(const struct log *log, const struct excerpt *excerpt);

/* A part of a session's operation, in seconds since its beginning. */
struct interval {
	unsigned int session; /* its number */
	double begin, end;
	uint64_t bytes;         /* have completed meanwhile */
	struct counters growth; /* of the port's counters of errors */
};

/* Prints the rate of an interval and the errors counted meanwhile; with --json as an object, too.
 */
void print_interval(const struct log *log, const struct interval *interval);

/*
 * On a terminal: how many bytes of `all` (UINT64_MAX: not known) are done in `nanoseconds`, if it
 * takes long.
 */
void print_progress(const struct log *log, uint64_t done, uint64_t all, int64_t nanoseconds);

#endif
