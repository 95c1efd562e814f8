/* SPDX-License-Identifier: MIT */
/*
 * Print status lines, traces, results, the payload and progress.
 *
 * Threads: any thread may print. After console_open(), printing never waits for the reader.
 */
#ifndef RDMA_COMMON_LOG_H
#define RDMA_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "options.h"
#include "status.h"
#include "verify.h"

struct process;

/* The source of lines: a session, or the program. */
struct log {
	struct console *console;
	const struct options *options; /* selects the streams and the amount of output */
	char prefix[16];               /* printed before each line: "[2] ", or nothing */
};

/*
 * Print one status line on standard output, or on standard error if --json, --check or --output
 * takes standard output. In a session of --check, on either side, print it only with --verbose.
 */
void print_status(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * With --verbose, print one line on standard error. Without it, the macro evaluates no argument
 * after `log`, because traces are in the path of each operation.
 */
#define print_trace(log, ...) \
	((log)->options->verbose ? print_trace_line(log, __VA_ARGS__) : (void)0)
void print_trace_line(const struct log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Print a line of --check, or JSON, on standard output. */
void print_result(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Wait until all lines are written, at most for --timeout. An ending signal limits the wait to 1 s,
 * and the next ending signal ends the process at once. Return STATUS_SUCCESS, or
 * STATUS_LOCAL_FAILURE after a message. If the message would block, omit it. Call this in the main
 * thread after all threads that print have ended. Print nothing afterwards.
 */
enum status flush_output(const struct log *log, struct process *process);

/*
 * Return the bytes as text of the user's locale. Unprintable and deceptive characters, backslashes
 * and invalid bytes are escaped. The caller frees the text. Return NULL if memory runs out. Any
 * thread.
 */
char *escape(const uint8_t *bytes, size_t size);

/*
 * Like escape(), in the locale `locale_name`. "" is the user's locale. If `harmless` is false,
 * escape only invalid bytes. If the locale cannot be loaded, escape all bytes but ASCII, because
 * not every C library rejects the other bytes in its default locale.
 */
char *escape_in(const char *locale_name, bool harmless, const uint8_t *bytes, size_t size);

/* Print at most SHOWN_PAYLOAD bytes of the incoming payload. Print only the size of a pattern. */
void print_payload(const struct log *log, const struct excerpt *excerpt);

/*
 * On a terminal, draw the progress of a transfer once it has lasted a second: `done` of `all` bytes
 * in `nanoseconds`. `all` is UINT64_MAX if the length is unknown. With --verbose or several
 * sessions draw nothing.
 */
void print_progress(const struct log *log, uint64_t done, uint64_t all, int64_t nanoseconds);

#endif
