/* SPDX-License-Identifier: MIT */
/*
 * Output: status lines, traces, the payload and progress.
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
#include "status.h"
#include "verify.h"

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

/*
 * A copy of the bytes in which those are escaped that are no characters of a locale or, `harmless`,
 * that a terminal would obey. Without the locale that is all but ASCII, of which not every library
 * says that they are none. The caller frees it; NULL: there is no memory. Any thread.
 */
char *escape_in(const char *locale_name, bool harmless, const uint8_t *bytes, size_t size);

/* Prints the incoming payload, as much of it as is sensible on a terminal. */
void print_payload(const struct log *log, const struct excerpt *excerpt);

/*
 * On a terminal: how many bytes of `all` (UINT64_MAX: not known) are done in `nanoseconds`, if it
 * takes long.
 */
void print_progress(const struct log *log, uint64_t done, uint64_t all, int64_t nanoseconds);

#endif
