/* SPDX-License-Identifier: MIT */
/*
 * The objects of --json, built with json-c.
 *
 * Threads: any thread may print. An object belongs to the thread that began it.
 */
#ifndef RDMA_COMMON_JSON_H
#define RDMA_COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "counters.h"
#include "log.h"
#include "measurement.h"
#include "status.h"

struct json_object; /* from json-c */

/* The version of the keys. New keys do not change it. See COMPATIBILITY in rdma-pair(7). */
#define JSON_SCHEMA 1

/*
 * Begin an object of this kind for print_json(), with JSON_SCHEMA, the program's version, the time
 * (UTC, RFC 3339) and the host's name.
 */
struct json_object *json_begin(const char *kind);

/* Add a text, or null for NULL. Bytes that are not UTF-8 are escaped, as in "\xff". */
void json_add_text(struct json_object *object, const char *key, const char *text);

void json_add_count(struct json_object *object, const char *key, uint64_t number);
void json_add_flag(struct json_object *object, const char *key, bool flag);

/* Add a number, or null for 0, which means unknown or not given. */
void json_add_known(struct json_object *object, const char *key, uint64_t number);

/* Add a number, or null if it was not measured. */
void json_add_number(struct json_object *object, const char *key, double number, bool measured);

/*
 * Add "error_counters" and "congestion_counters": the growth of each counter that has grown. Both
 * are null if `growth->any` is false.
 */
void json_add_counters(struct json_object *object, const struct counters *growth);

/* Add "peer_error_count". It is null unless the peer's port counts errors (`counted`). */
void json_add_peer_errors(struct json_object *object, bool counted, uint64_t errors);

/* Add "peer" and "peer_port", or null for NULL. */
void json_add_peer(struct json_object *object, const char *address, const char *port);

/*
 * Add "status", the exit status. For STATUS_INTERRUPTED it is 128 + `signal_number`, the signal
 * that interrupted the program.
 */
void json_add_status(struct json_object *object, enum status status, int signal_number);

/* Return an object as a line without its newline. The object owns the text. */
const char *json_line(struct json_object *object);

/* Print an object as a line on standard output, and free it. */
void print_json(struct console *console, struct json_object *object);

/*
 * Print the rate of an interval and the growth of the counters. With --json, print them also as an
 * object.
 */
void print_interval(const struct log *log, const struct interval *interval);

#endif
