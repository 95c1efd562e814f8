/* SPDX-License-Identifier: MIT */
/*
 * Output: status lines, traces, the payload, progress, figures, and the outcome as a JSON object.
 *
 * Any thread may print; nobody waits for a reader, since all of it goes through the console's
 * queue.
 */
#ifndef RDMA_COMMON_REPORT_H
#define RDMA_COMMON_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "counters.h"
#include "latency.h"
#include "process.h"
#include "status.h"

struct json_object; /* of json-c */

/* The origin of a line: who prints. */
struct log {
	struct console *console;
	unsigned int session; /* its number stands in front of each line; 0: none does */
};

/* The report at the end of a session; of a program that had none, status and cause. */
struct report {
	enum status status;
	const char *cause; /* why the session failed and what to do; unless STATUS_SUCCESS */
	int signal_number; /* with STATUS_INTERRUPTED */
	const char *peer;  /* "ADDRESS port PORT" */
	const char *transport, *device; /* NULL: not known */
	int tos;                        /* type of service; -1: not known */
	bool connected, disconnected;   /* a connection stood; it was seen to end */
	bool operated;         /* this side's operation has completed where that says something */
	bool peer_operated;    /* and the peer's: its MSG_DONE is here */
	bool delivered;        /* what this side sent matches its digest there, the peer says */
	enum ibv_mtu peer_mtu; /* of the peer's port; any number, as the peer says */
	/* The name of the peer's device: any bytes, as the peer says; empty: not known. */
	const char *peer_device;
	uint64_t operations, bytes;    /* of this side */
	uint64_t request_bytes;        /* of its longest work request */
	unsigned int depth;            /* work requests that may have been outstanding */
	int64_t nanoseconds;           /* from the first posting to the last completion */
	const struct latency *latency; /* NULL: not measured */
	int64_t outgoing_digest_nanoseconds, verification_nanoseconds;
	uint64_t received_bytes;               /* of payload */
	bool verified;                         /* they match the peer's digest */
	uint64_t verified_bytes;               /* if they do: of all passes that were verified */
	const struct counters *before, *after; /* of the device's port; NULL: not wanted */
	uint64_t unfinished_sends;
	unsigned int unfinished_receives; /* work requests that never completed */
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

/* Adds a text (NULL: null) to an object. Bytes of it that are not UTF-8 appear as \xff. */
void json_add_text(struct json_object *object, const char *key, const char *text);

/* Adds "status", the exit status; `signal_number` is what interrupted the program, if one did. */
void json_add_status(struct json_object *object, enum status status, int signal_number);

/* Prints an object, which stays the caller's, as a line on standard output. */
void print_json(struct console *console, struct json_object *object);

/*
 * Waits until all that was printed is written: for --timeout at most, and for a second at most if
 * the process was interrupted, or is now; another signal ends it at once. STATUS_SUCCESS, or a
 * message and the failure. The main thread's, after all others have ended; afterwards nothing is
 * printed any more.
 */
enum status flush_output(struct console *console, bool interrupted);

/*
 * The bytes as text with nothing left in it that a terminal would obey. The caller frees it; NULL
 * means that there is no memory.
 */
char *escape(const uint8_t *bytes, size_t size);

/* Bytes of a payload that are shown at most: a screen of text. */
#define SHOWN_PAYLOAD 1024

/* What is shown of an incoming payload. All zero: nothing of it has come yet. */
struct excerpt {
	uint8_t head[SHOWN_PAYLOAD]; /* its first bytes */
	size_t head_size;            /* how many of those have come */
	uint64_t text_length;        /* bytes up to the last one that is not zero */
	uint64_t size;               /* all bytes */
	bool is_pattern;
};

/* Takes note of the payload's next bytes. */
void excerpt_add(struct excerpt *excerpt, const uint8_t *bytes, size_t size);

/* Prints the incoming payload, as much of it as is sensible on a terminal. */
void print_payload(const struct log *log, const struct excerpt *excerpt);

/*
 * On a terminal: how many bytes of `all` (UINT64_MAX: not known) are done in `nanoseconds`, if it
 * takes long.
 */
void print_progress(struct console *console, uint64_t done, uint64_t all, int64_t nanoseconds);

/* Prints that the connection is gone, what was measured and, if the session failed, why. */
void report_session(const struct log *log, const struct report *report);

/* With --json: prints one object. */
void report_json(const struct log *log, const struct report *report);

#endif
