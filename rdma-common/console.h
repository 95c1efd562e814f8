/* SPDX-License-Identifier: MIT */
/*
 * Print lines without waiting for an output, such as a pager, a stopped terminal or a slow disk.
 * Each output has a pipe and a thread that empties it. If the pipe is full, lines are dropped. The
 * number of dropped lines is printed before the next line that fits. If a write fails, the rest of
 * the line is lost, and the next text begins a new line. The first failure of standard output is
 * reported at once, unless standard error is the same file or would block.
 *
 * The pipe carries pointers to lines. The kernel writes each pointer whole and in order, so no lock
 * is needed. The order between the streams is kept only if both are one file.
 *
 * Threads: any thread may print. The main thread opens, drains and closes.
 */
#ifndef RDMA_COMMON_CONSOLE_H
#define RDMA_COMMON_CONSOLE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Number of lines that can be queued for each output. It is larger if pages exceed 4 KiB, and
 * smaller if the user has many pipes (pipe(7)).
 */
#define CONSOLE_CAPACITY 2048

enum stream {
	STREAM_OUTPUT,
	STREAM_ERROR,
};
#define STREAMS 2

struct outlet {
	struct console *console;
	int descriptor;
	int entrance, exit; /* non-blocking ends of the pipe */
	pthread_t thread;
	atomic_uint lost;   /* dropped lines that no line has reported yet */
	atomic_bool failed; /* write(2) has failed at least once */
	int notices;        /* descriptor for a warning about the failure, or -1 */
	/* Only the thread uses these: */
	bool torn;  /* a failed write has cut the last line */
	bool drawn; /* the cursor is at the end of a progress text */
};

/* A console must be static: a thread stuck in write(2) may outlive main(). */
struct console {
	bool json; /* standard output carries only JSON objects */
	/*
	 * Number of outlets: 1 if both streams are one file. It is 0 without threads:
	 * console_print() then writes, and may block.
	 */
	unsigned int count;
	struct outlet outlets[STREAMS];
	atomic_uint running;     /* number of running threads */
	int ended;               /* eventfd(2): readable after the last thread has ended */
	atomic_ullong unwritten; /* queued lines, and dropped lines not reported yet */
	atomic_bool warned;      /* a failure of standard output was reported */
};

/* Initialize `console` without threads. */
void console_init(struct console *console, bool json);

/*
 * Start the threads, which write to these descriptors. The caller must have blocked SIGALRM and the
 * signals that end the program, because threads inherit the mask. It must ignore SIGPIPE and
 * SIGXFSZ. Return 0 or an errno value.
 */
int console_open(struct console *console, int output, int error);

/* Print `prefix` and the text as one line. Drop it if the pipe is full or memory runs out. */
void console_print(struct console *console, enum stream stream, const char *prefix,
		   const char *format, va_list arguments) __attribute__((format(printf, 4, 0)));

/* Print a line on standard error with the program's name in front, as warnx(3) does. */
void print_warning(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Draw `text` as the last line of the terminal at standard error. It is ASCII without a newline. It
 * replaces the previous text, and is cut to the terminal's width. If several lines are queued, it
 * is dropped. An empty text, or the next printed line, removes it. Without threads do nothing.
 */
void console_draw(struct console *console, const char *text);

/*
 * Close the pipes, and wait until each queued line was written, or its write failed. Wait at most
 * `milliseconds`, and only until the descriptor `interruption` is readable, unless it is -1. Return
 * true if no line is queued any more. Afterwards no thread may print.
 */
bool console_drain(struct console *console, int milliseconds, int interruption);

/*
 * Drop queued lines, end the threads and free everything. A thread stuck in write(2) is left
 * running, with its memory, until the process ends. Return the number of unwritten lines. Set
 * `*failed` to true if a write to standard output has failed, else to false.
 */
uint64_t console_close(struct console *console, bool *failed);

#endif
