/* SPDX-License-Identifier: MIT */
/*
 * The objects of --json, with json-c.
 *
 * Any thread may print. An object belongs to the thread that began it.
 */
#ifndef RDMA_COMMON_JSON_H
#define RDMA_COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "counters.h"
#include "log.h"
#include "status.h"

struct json_object; /* of json-c */

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

#endif
