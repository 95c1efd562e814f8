/* SPDX-License-Identifier: MIT */
/*
 * A queue of lines in front of standard output and standard error. One thread empties it, so that
 * whoever prints never waits for a reader: a pager, a stopped terminal, a slow disk. What waits is
 * bounded; lines beyond that are dropped, and a line in their place says how many.
 *
 * Lines leave in the order in which they came. Those of one stream overtake those of the other only
 * while the other takes nothing. Any thread may print.
 */
#ifndef RDMA_COMMON_CONSOLE_H
#define RDMA_COMMON_CONSOLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "options.h"

/* Bytes that wait at most for each stream, what it takes to keep them included. */
#define CONSOLE_CAPACITY ((size_t)128 * 1024)

/* The streams that a program prints to. */
enum stream {
	STREAM_OUTPUT,
	STREAM_ERROR,
};
#define STREAMS 2

struct writer;

struct console {
	const struct options *options; /* they select the streams, and how much is printed */
	/* Queue and thread; NULL: there is none, who prints writes, and waits for the reader. Set
	 * while there is one thread alone. */
	struct writer *writer;
};

/* Initialises `console`, without a queue. `options` must outlive it. */
void console_init(struct console *console, const struct options *options);

/*
 * Starts the thread, which writes to these descriptors. The ending signals and SIGALRM have to be
 * blocked: it inherits that. 0 or an errno value.
 */
int console_open(struct console *console, int output, int error);

/* Prints `prefix` and what printf(3) would, as one line. Without memory the line is dropped. */
void console_print(struct console *console, enum stream stream, const char *prefix,
		   const char *format, va_list arguments) __attribute__((format(printf, 4, 0)));

/* Prints a line on standard error as warnx(3) does, with the name of the program in front. */
void print_warning(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Lets standard error, a terminal, end with this text, without a newline, until the next line is
 * printed. It replaces the text before it; an empty one takes that away. At most 120 bytes.
 */
void console_draw(struct console *console, const char *text);

/* Reasons for which console_drain() returns. */
enum drained {
	DRAINED_ALL,         /* everything is written, or could not be */
	DRAINED_EXPIRED,     /* the time is up */
	DRAINED_INTERRUPTED, /* `interruption` can be read */
};

/*
 * Waits until everything is written, at most `milliseconds`, or until the descriptor `interruption`
 * (-1: none) can be read. The main thread's.
 */
enum drained console_drain(struct console *console, int milliseconds, int interruption);

/*
 * Ends the thread, whatever is left, and frees the queue; a thread that is stuck in write(2) is
 * left to the end of the process. The number of lines that were not written, and in `*failed`
 * whether writing to standard output has failed before. Without a queue: 0 and false. No other
 * thread may print any more.
 */
uint64_t console_close(struct console *console, bool *failed);

#endif
