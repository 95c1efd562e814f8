/* SPDX-License-Identifier: MIT */
/*
 * A pipe in front of each output, and a thread that empties it: whoever prints never waits for a
 * reader, be it a pager, a stopped terminal or a slow disk. What waits is bounded by the pipe;
 * lines that find it full are dropped, and the next one that does not has a line before it that
 * says how many.
 *
 * The pipe carries pointers, which the kernel takes whole or not at all, and puts in order: so no
 * line is torn, whatever its length, and there is no lock. Lines leave in the order in which they
 * came, those of both streams only if these are one file. Any thread may print.
 */
#ifndef RDMA_COMMON_CONSOLE_H
#define RDMA_COMMON_CONSOLE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Lines that wait at most for each output, of a few hundred bytes, and of 4 KiB at worst; more
 * where pages are longer than 4 KiB. */
#define CONSOLE_CAPACITY 2048

/* The streams that a program prints to. */
enum stream {
	STREAM_OUTPUT,
	STREAM_ERROR,
};
#define STREAMS 2

/* A descriptor, and the pipe in front of it. */
struct outlet {
	struct console *console;
	int descriptor;
	int entrance, exit; /* neither blocks */
	pthread_t thread;
	atomic_uint lost;   /* lines that were dropped since the last one that was not */
	atomic_bool failed; /* write(2) has failed at least once */
	bool drawn;         /* the cursor stands behind a text that is drawn; the thread's */
};

/* It is static: a thread that is stuck in write(2) may outlive main(). */
struct console {
	bool json;          /* standard output is for objects of JSON alone */
	unsigned int count; /* of outlets: one if both streams are one file; none, and no thread:
			       who prints writes, and waits for the reader */
	struct outlet outlets[STREAMS];
	atomic_uint running;     /* threads */
	int ended;               /* eventfd(2): the last one has */
	atomic_ullong unwritten; /* lines that were printed, and are neither written nor said to be
				    lost */
};

/* Initialises `console`, without threads. */
void console_init(struct console *console, bool json);

/*
 * Starts the threads, which write to these descriptors. The ending signals and SIGALRM have to be
 * blocked: they inherit that; SIGPIPE and SIGXFSZ ignored. 0 or an errno value.
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
 * printed. It replaces the text before it; an empty one takes that away. It is ASCII, and cut where
 * the terminal is narrower. Where much waits it is dropped.
 */
void console_draw(struct console *console, const char *text);

/*
 * Waits until everything is written, at most `milliseconds`, or until the descriptor `interruption`
 * (-1: none) can be read. True: everything is written, or could not be. The main thread's; from now
 * on nobody may print any more.
 */
bool console_drain(struct console *console, int milliseconds, int interruption);

/*
 * Ends the threads, whatever is left, and frees everything; a thread that is stuck in write(2) is
 * left, with what it uses, to the end of the process. The number of lines that were not written,
 * and in `*failed` whether writing to standard output has failed. Without threads: 0 and false.
 */
uint64_t console_close(struct console *console, bool *failed);

#endif
