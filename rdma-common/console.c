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

/* What a pipe carries: the kernel takes it whole or not at all. */
struct line {
	char *text;     /* with its newline; whoever takes it frees it */
	uint32_t lost;  /* lines that were dropped before this one */
	uint32_t drawn; /* no line, but what a terminal shows until there is one */
};

/* A descriptor, and the pipe in front of it. */
struct outlet {
	struct outlets *all;
	int descriptor;
	int entrance, exit; /* neither blocks */
	pthread_t thread;
	atomic_uint lost;     /* lines that were dropped since the last one that was not */
	atomic_uint drawings; /* texts that are drawn, and wait */
	bool drawn;           /* the cursor stands behind one; the thread's */
	atomic_bool failed;   /* write(2) has failed at least once */
};

struct outlets {
	struct outlet outlets[STREAMS];
	unsigned int count;      /* one if both streams are one file */
	atomic_uint running;     /* threads */
	int ended;               /* eventfd(2): the last one has */
	atomic_ullong unwritten; /* lines that were printed, and are neither written nor said to be
				    lost */
};

/* ---- The threads ---- */

/* The next line. False: the entrance is closed, or, unless that is waited for, there is none. */
static bool take_line(struct outlet *outlet, struct line *line, bool wait)
{
	struct pollfd ready = { .fd = outlet->exit, .events = POLLIN };
	ssize_t size;

	while ((size = read(outlet->exit, line, sizeof(*line))) < 0 && errno == EAGAIN && wait)
		poll(&ready, 1, -1);
	return size > 0;
}

/* Waits for the reader. What cannot be written because of an error is gone, as with stdio(3). */
static void write_text(struct outlet *outlet, const char *text)
{
	struct pollfd ready = { .fd = outlet->descriptor, .events = POLLOUT };
	size_t size = strlen(text);

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
	char notice[80];

	if (outlet->drawn && !line->drawn)
		write_text(outlet, "\r\033[K");
	if (line->lost) {
		snprintf(notice, sizeof(notice), "(%u lines were dropped here: nobody read them)\n",
			 line->lost);
		write_text(outlet, notice);
	}
	write_text(outlet, line->text);
	outlet->drawn = line->drawn;
}

static void *run_outlet(void *argument)
{
	struct outlet *outlet = argument;
	struct line line;

	while (take_line(outlet, &line, true)) {
		write_line(outlet, &line);
		if (line.drawn)
			atomic_fetch_sub(&outlet->drawings, 1);
		else
			atomic_fetch_sub(&outlet->all->unwritten, line.lost + (*line.text != '\0'));
		free(line.text);
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
	fcntl(ends[1], F_SETPIPE_SZ, (int)(CONSOLE_CAPACITY * sizeof(struct line)));
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

void console_init(struct console *console, bool json)
{
	console->json = json;
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

uint64_t console_close(struct console *console, bool *failed)
{
	struct outlets *outlets = console->outlets;
	struct line line;
	uint64_t left;
	bool ended;

	*failed = false;
	if (!outlets)
		return 0;
	/* what still waits is taken away from the threads, which then find the end */
	for (unsigned int i = 0; i < outlets->count; i++) {
		while (take_line(&outlets->outlets[i], &line, false))
			free(line.text);
	}
	ended = console_drain(console, END_MILLISECONDS, -1) == DRAINED_ALL;
	/* behind that: the line that a thread has in hand may fail meanwhile */
	*failed = atomic_load(&outlets->outlets[STREAM_OUTPUT].failed);
	left = atomic_load(&outlets->unwritten);
	for (unsigned int i = 0; i < outlets->count && !ended; i++)
		pthread_detach(outlets->outlets[i].thread);
	if (ended)
		free_outlets(outlets);
	console->outlets = NULL;
	return left;
}

/* ---- Printing ---- */

static struct outlet *outlet_of(struct outlets *outlets, enum stream stream)
{
	return &outlets->outlets[stream < outlets->count ? stream : STREAM_OUTPUT];
}

/* The text is the thread's then. False: there was no memory for it, or the pipe is full. */
static bool put(struct outlet *outlet, struct line line)
{
	if (line.text && write(outlet->entrance, &line, sizeof(line)) == sizeof(line))
		return true;
	free(line.text);
	return false;
}

/*
 * Lets the line wait, or drops it: the next one then brings how many there were. Between objects of
 * JSON there is no such line: standard error says what was dropped on standard output, too.
 */
static void queue_line(struct console *console, enum stream stream, char *text)
{
	struct outlet *outlet = outlet_of(console->outlets, stream);
	struct outlet *notices = outlet_of(console->outlets, console->json ? STREAM_ERROR : stream);
	unsigned int lost = atomic_exchange(&outlet->lost, 0);

	atomic_fetch_add(&console->outlets->unwritten, 1);
	if (put(outlet, (struct line){ .text = text, .lost = lost }))
		return;
	atomic_fetch_add(&outlet->lost, lost);
	atomic_fetch_add(&notices->lost, 1);
}

/* Without a thread: writes the line. flush_output() finds an error of standard output. */
static void write_at_once(FILE *stream, char *text)
{
	if (text)
		fputs(text, stream);
	fflush(stream);
	free(text);
}

void console_print(struct console *console, enum stream stream, const char *prefix,
		   const char *format, va_list arguments)
{
	char *text, *line = NULL;

	if (vasprintf(&text, format, arguments) >= 0) {
		if (asprintf(&line, "%s%s\n", prefix, text) < 0)
			line = NULL;
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
	struct line line = { .drawn = *text != '\0' };
	struct outlet *outlet;

	if (!console->outlets)
		return;
	outlet = outlet_of(console->outlets, STREAM_ERROR);
	if (line.drawn && atomic_fetch_add(&outlet->drawings, 1) >= MOST_DRAWN) {
		atomic_fetch_sub(&outlet->drawings, 1);
		return;
	}
	if (asprintf(&line.text, line.drawn ? "\r%s\033[K" : "%s", text) < 0)
		line.text = NULL;
	if (!put(outlet, line) && line.drawn)
		atomic_fetch_sub(&outlet->drawings, 1);
}
