// SPDX-License-Identifier: MIT
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* The time in which a thread ends that has nothing left to write, on a machine with much to do. */
#define END_MILLISECONDS 200
/* Texts that are drawn and may wait: a stopped terminal leaves the rest of the pipe to lines. */
#define MOST_DRAWN 8

struct line {
	size_t lost; /* lines that were dropped before this one */
	size_t size; /* bytes of the text, the newline included */
	bool drawn;  /* no line, but what a terminal shows until there is one */
	char text[];
};

/* A descriptor, and the pipe in front of it. */
struct outlet {
	struct outlets *all;
	int descriptor;
	int entrance, exit; /* of pointers to lines; whoever takes one frees it. Neither blocks */
	pthread_t thread;
	atomic_size_t lost;   /* lines that were dropped since the last one that was not */
	atomic_uint drawings; /* texts that are drawn and wait */
	bool drawn;           /* the cursor stands behind one; the thread's */
	atomic_bool failed;   /* write(2) has failed at least once */
};

struct outlets {
	struct outlet outlets[STREAMS];
	unsigned int count;  /* one if both streams are one file */
	atomic_uint running; /* threads */
	int ended;           /* eventfd(2): the last one has */
};

/* ---- The threads ---- */

/* The next line. NULL: the entrance is closed, or, unless that is waited for, there is none. */
static struct line *take_line(struct outlet *outlet, bool wait)
{
	struct pollfd ready = { .fd = outlet->exit, .events = POLLIN };
	ssize_t size;
	void *line;

	while ((size = read(outlet->exit, &line, sizeof(line))) < 0 && errno == EAGAIN && wait)
		poll(&ready, 1, -1);
	return size > 0 ? line : NULL;
}

/* Waits for the reader. What cannot be written because of an error is gone, as with stdio(3). */
static void write_text(struct outlet *outlet, const char *text, size_t size)
{
	struct pollfd ready = { .fd = outlet->descriptor, .events = POLLOUT };

	while (size > 0) {
		ssize_t count = write(outlet->descriptor, text, size);

		if (count >= 0) {
			text += count;
			size -= (size_t)count;
		} else if (errno == EAGAIN) { /* whoever opened it may have it so */
			poll(&ready, 1, -1);
		} else if (errno != EINTR) {
			atomic_store(&outlet->failed, true);
			return;
		}
	}
}

static void write_line(struct outlet *outlet, const struct line *line)
{
	static const char clear[] = "\r\033[K";
	char notice[80];

	if (outlet->drawn && !line->drawn)
		write_text(outlet, clear, strlen(clear));
	if (line->lost)
		write_text(outlet, notice,
			   (size_t)snprintf(notice, sizeof(notice),
					    "(%zu lines were dropped here: nobody read them)\n",
					    line->lost));
	write_text(outlet, line->text, line->size);
	outlet->drawn = line->drawn;
	atomic_fetch_sub(&outlet->drawings, line->drawn);
}

static void *run_outlet(void *argument)
{
	struct outlet *outlet = argument;
	struct line *line;

	while ((line = take_line(outlet, true))) {
		write_line(outlet, line);
		free(line);
	}
	if (atomic_fetch_sub(&outlet->all->running, 1) == 1)
		eventfd_write(outlet->all->ended, 1);
	return NULL;
}

/* ---- Opening and closing ---- */

static bool is_same_file(int one, int other)
{
	struct stat about_one, about_other;

	return !fstat(one, &about_one) && !fstat(other, &about_other) &&
	       about_one.st_dev == about_other.st_dev && about_one.st_ino == about_other.st_ino;
}

/* Adds an outlet; 0 or an errno value. */
static int start_outlet(struct outlets *outlets, int descriptor)
{
	struct outlet *outlet = &outlets->outlets[outlets->count];
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return errno;
	/* if it stays longer, more lines may wait */
	fcntl(ends[1], F_SETPIPE_SZ, (int)(CONSOLE_CAPACITY * sizeof(void *)));
	outlet->all = outlets;
	outlet->descriptor = descriptor;
	outlet->exit = ends[0];
	outlet->entrance = ends[1];
	error = pthread_create(&outlet->thread, NULL, run_outlet, outlet);
	if (error) {
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	atomic_fetch_add(&outlets->running, 1); /* it cannot end before the entrance is closed */
	outlets->count++;
	return 0;
}

/* Nothing is printed any more: the threads end behind the last line. */
static void close_entrances(struct outlets *outlets)
{
	for (unsigned int i = 0; i < outlets->count; i++) {
		struct outlet *outlet = &outlets->outlets[i];

		if (outlet->entrance >= 0)
			close(outlet->entrance);
		outlet->entrance = -1;
	}
}

/* The threads are about to end. */
static void free_outlets(struct outlets *outlets)
{
	for (unsigned int i = 0; i < outlets->count; i++) {
		pthread_join(outlets->outlets[i].thread, NULL);
		close(outlets->outlets[i].exit);
	}
	if (outlets->ended >= 0)
		close(outlets->ended);
	free(outlets);
}

void console_init(struct console *console, const struct options *options)
{
	console->options = options;
	console->outlets = NULL;
}

int console_open(struct console *console, int output, int error)
{
	struct outlets *outlets = calloc(1, sizeof(*outlets));
	int result;

	if (!outlets)
		return errno;
	outlets->ended = eventfd(0, EFD_CLOEXEC);
	result = outlets->ended < 0 ? errno : start_outlet(outlets, output);
	if (!result && !is_same_file(output, error))
		result = start_outlet(outlets, error);
	if (!result) {
		console->outlets = outlets;
	} else {
		close_entrances(outlets);
		free_outlets(outlets);
	}
	return result;
}

enum drained console_drain(struct console *console, int milliseconds, int interruption)
{
	struct outlets *outlets = console->outlets;
	struct pollfd ready[] = {
		{ .fd = outlets ? outlets->ended : -1, .events = POLLIN },
		{ .fd = interruption, .events = POLLIN },
	};
	int count;

	if (!outlets)
		return DRAINED_ALL;
	close_entrances(outlets);
	do
		count = poll(ready, 2, milliseconds);
	while (count < 0 && errno == EINTR);
	if (ready[0].revents)
		return DRAINED_ALL;
	return count > 0 ? DRAINED_INTERRUPTED : DRAINED_EXPIRED;
}

/* Takes what waits away from the thread, which then finds the end; how many lines that is. */
static uint64_t discard_lines(struct outlet *outlet)
{
	uint64_t count = atomic_load(&outlet->lost);
	struct line *line;

	while ((line = take_line(outlet, false))) {
		count += line->lost + (line->size > 0 && !line->drawn);
		free(line);
	}
	return count;
}

uint64_t console_close(struct console *console, bool *failed)
{
	struct outlets *outlets = console->outlets;
	uint64_t left = 0;
	bool ended;

	*failed = false;
	if (!outlets)
		return 0;
	for (unsigned int i = 0; i < outlets->count; i++)
		left += discard_lines(&outlets->outlets[i]);
	ended = console_drain(console, END_MILLISECONDS, -1) == DRAINED_ALL;
	/* behind that: the line that a thread has in hand may fail meanwhile */
	*failed = atomic_load(&outlets->outlets[STREAM_OUTPUT].failed);
	if (ended) {
		free_outlets(outlets);
	} else {
		left += atomic_load(&outlets->running); /* what write(2) was called with */
		for (unsigned int i = 0; i < outlets->count; i++)
			pthread_detach(outlets->outlets[i].thread);
	}
	console->outlets = NULL;
	return left;
}

/* ---- Printing ---- */

/* NULL: there is no memory. */
static struct line *new_line(const char *before, const char *text, const char *behind)
{
	size_t size = strlen(before) + strlen(text) + strlen(behind);
	struct line *line = malloc(sizeof(*line) + size + 1);

	if (line) {
		line->lost = 0;
		line->size = size;
		line->drawn = false;
		snprintf(line->text, size + 1, "%s%s%s", before, text, behind);
	}
	return line;
}

static struct outlet *outlet_of(struct outlets *outlets, enum stream stream)
{
	return &outlets->outlets[stream < outlets->count ? stream : STREAM_OUTPUT];
}

/* The line is the thread's then. False: the pipe is full. */
static bool put(struct outlet *outlet, void *line)
{
	return write(outlet->entrance, &line, sizeof(line)) == sizeof(line);
}

/*
 * Lets the line wait, or drops it: the next one then brings how many there were. Between objects of
 * JSON there is no such line: standard error says what was dropped on standard output, too.
 */
static void queue_line(struct console *console, enum stream stream, struct line *line)
{
	struct outlet *outlet = outlet_of(console->outlets, stream);
	struct outlet *notices =
		outlet_of(console->outlets, console->options->json ? STREAM_ERROR : stream);
	size_t lost = atomic_exchange(&outlet->lost, 0);

	if (line)
		line->lost = lost;
	if (line && put(outlet, line))
		return;
	atomic_fetch_add(&outlet->lost, lost);
	atomic_fetch_add(&notices->lost, 1);
	free(line);
}

/* Without a thread: writes the line. flush_output() finds an error of standard output. */
static void write_at_once(FILE *stream, struct line *line)
{
	if (line)
		fputs(line->text, stream);
	fflush(stream);
	free(line);
}

void console_print(struct console *console, enum stream stream, const char *prefix,
		   const char *format, va_list arguments)
{
	struct line *line = NULL;
	char *text;

	if (vasprintf(&text, format, arguments) >= 0) {
		line = new_line(prefix, text, "\n");
		free(text);
	}
	if (console->outlets)
		queue_line(console, stream, line);
	else
		write_at_once(stream == STREAM_OUTPUT ? stdout : stderr, line);
}

void print_warning(struct console *console, const char *format, ...)
{
	char prefix[64];
	va_list arguments;

	snprintf(prefix, sizeof(prefix), "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	console_print(console, STREAM_ERROR, prefix, format, arguments);
	va_end(arguments);
}

void console_draw(struct console *console, const char *text)
{
	bool drawn = text[0];
	struct outlet *outlet;
	struct line *line;

	if (!console->outlets)
		return;
	outlet = outlet_of(console->outlets, STREAM_ERROR);
	if (drawn && atomic_load(&outlet->drawings) >= MOST_DRAWN)
		return;
	line = drawn ? new_line("\r", text, "\033[K") : new_line("", "", "");
	if (!line)
		return;
	line->drawn = drawn;
	atomic_fetch_add(&outlet->drawings, drawn);
	if (!put(outlet, line)) {
		atomic_fetch_sub(&outlet->drawings, drawn);
		free(line);
	}
}
