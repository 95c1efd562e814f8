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
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "thread.h"

/* Maximum time, in milliseconds, for idle threads to end on a busy machine. */
#define END_MILLISECONDS 200

/*
 * Number of queued lines at which a progress text is dropped, so that the texts do not fill the
 * pipe of a stopped terminal.
 */
#define MAX_QUEUED_BEFORE_PROGRESS 8

/* An element of the pipe. Its size is a power of two, so that elements fill a page. */
struct line {
	_Alignas(16) char *text; /* a line with newline, or a progress text; the reader frees it */
	uint32_t lost;           /* lines dropped before this one */
	uint32_t drawn;          /* not 0 for a progress text, which the next line replaces */
};

/* ---- The threads ---- */

/* Read the next line. Return false if the pipe is closed or, without `wait`, empty. */
static bool take_line(struct outlet *outlet, struct line *line, bool wait)
{
	struct pollfd ready = { .fd = outlet->exit, .events = POLLIN };
	ssize_t size;

	while ((size = read(outlet->exit, line, sizeof(*line))) < 0 && errno == EAGAIN && wait)
		poll(&ready, 1, -1);
	return size > 0;
}

/*
 * Record that a write has failed. If it is the first one, warn at once, unless that would block.
 * Without this warning, flush_output() reports the failure.
 */
static void write_failed(struct outlet *outlet, int error)
{
	struct pollfd ready = { .fd = outlet->notices, .events = POLLOUT };

	if (!atomic_exchange(&outlet->failed, true) && outlet->notices >= 0 &&
	    poll(&ready, 1, 0) == 1 &&
	    dprintf(outlet->notices,
		    "%s: cannot write to standard output: %s; lines are lost until this is "
		    "mended\n",
		    program_invocation_short_name, strerror(error)) > 0)
		atomic_store(&outlet->console->warned, true);
}

/*
 * Write `text`. This may block. On error drop the rest, as stdio(3) does, and return false. Set
 * outlet->torn if only a part was written.
 */
static bool write_bytes(struct outlet *outlet, const char *text)
{
	struct pollfd ready = { .fd = outlet->descriptor, .events = POLLOUT };
	size_t size = strlen(text);

	while (size > 0) {
		ssize_t count = write(outlet->descriptor, text, size);

		if (count >= 0) {
			text += count;
			size -= (size_t)count;
			outlet->torn = size > 0;
		} else if (errno == EAGAIN) { /* the descriptor was opened with O_NONBLOCK */
			poll(&ready, 1, -1);
		} else if (errno != EINTR) {
			write_failed(outlet, errno);
			return false;
		}
	}
	return true;
}

/* Write `text`. End a torn line first. If that fails, drop `text`, which would be glued to it. */
static void write_text(struct outlet *outlet, const char *text)
{
	if (!outlet->torn || write_bytes(outlet, "\n"))
		write_bytes(outlet, text);
}

/*
 * Replace the progress text by `text`, cut before the last column of the terminal, so that the
 * cursor stays in this line. The width may change at any time.
 */
static void write_drawn(struct outlet *outlet, char *text)
{
	struct winsize size;

	if (!ioctl(outlet->descriptor, TIOCGWINSZ, &size) && size.ws_col > 0 &&
	    size.ws_col <= strlen(text))
		text[size.ws_col - 1] = '\0';
	write_text(outlet, "\r");
	write_text(outlet, text);
	write_text(outlet, "\033[K");
}

static void write_line(struct outlet *outlet, const struct line *line)
{
	char notice[128];

	if (outlet->drawn && !line->drawn)
		write_text(outlet, "\r\033[K");
	if (line->lost) {
		snprintf(notice, sizeof(notice),
			 "(%u line%s dropped here: the output was not read in time, or memory was "
			 "short)\n",
			 line->lost, line->lost == 1 ? " was" : "s were");
		write_text(outlet, notice);
	}
	if (line->drawn)
		write_drawn(outlet, line->text);
	else
		write_text(outlet, line->text);
	outlet->drawn = line->drawn;
}

static void *run_outlet(void *argument)
{
	struct outlet *outlet = argument;
	struct console *console = outlet->console;
	struct line line;

	while (take_line(outlet, &line, true)) {
		write_line(outlet, &line);
		if (!line.drawn)
			atomic_fetch_sub(&console->unwritten, line.lost + (*line.text != '\0'));
		free(line.text);
	}
	if (atomic_fetch_sub(&console->running, 1) == 1)
		eventfd_write(console->ended, 1);
	return NULL;
}

/* ---- Opening and closing ---- */

static bool is_same_file(int one, int other)
{
	struct stat about_one, about_other;

	return !fstat(one, &about_one) && !fstat(other, &about_other) &&
	       about_one.st_dev == about_other.st_dev && about_one.st_ino == about_other.st_ino;
}

/*
 * Add an outlet and start its thread. `notices` is the descriptor for a warning, or -1. Return 0
 * or an errno value.
 */
static int start_outlet(struct console *console, int descriptor, int notices)
{
	struct outlet *outlet = &console->outlets[console->count];
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return errno;
	/* on failure the pipe keeps its size */
	fcntl(ends[1], F_SETPIPE_SZ, (int)(CONSOLE_CAPACITY * sizeof(struct line)));
	*outlet = (struct outlet){ .console = console,
				   .descriptor = descriptor,
				   .notices = notices,
				   .exit = ends[0],
				   .entrance = ends[1] };
	error = start_thread(&outlet->thread, run_outlet, outlet);
	if (error) {
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	/* counting after the start is safe: the thread counts down only once the pipe is closed */
	atomic_fetch_add(&console->running, 1);
	console->count++;
	return 0;
}

void console_init(struct console *console, bool json)
{
	memset(console, 0, sizeof(*console));
	console->json = json;
	console->ended = -1;
}

int console_open(struct console *console, int output, int error)
{
	int result;
	bool failed, same;

	console->ended = eventfd(0, EFD_CLOEXEC);
	same = is_same_file(output, error);
	result = console->ended < 0 ? errno : start_outlet(console, output, same ? -1 : error);
	if (!result && !same)
		result = start_outlet(console, error, -1);
	if (result)
		console_close(console, &failed);
	return result;
}

bool console_drain(struct console *console, int milliseconds, int interruption)
{
	struct pollfd ready[] = {
		{ .fd = console->ended, .events = POLLIN },
		{ .fd = interruption, .events = POLLIN },
	};

	/* close the pipes, so that the outlets' threads end */
	for (unsigned int i = 0; i < console->count; i++) {
		if (console->outlets[i].entrance >= 0)
			close(console->outlets[i].entrance);
		console->outlets[i].entrance = -1;
	}
	if (console->count == 0)
		return true;
	while (poll(ready, 2, milliseconds) < 0 && errno == EINTR)
		;
	return ready[0].revents;
}

uint64_t console_close(struct console *console, bool *failed)
{
	uint64_t unwritten;
	struct line line;
	bool ended;

	/* drop the queued lines, so that the threads find the end of the pipe */
	for (unsigned int i = 0; i < console->count; i++) {
		while (take_line(&console->outlets[i], &line, false))
			free(line.text);
	}
	ended = console_drain(console, END_MILLISECONDS, -1);
	for (unsigned int i = 0; i < console->count && !ended; i++)
		pthread_detach(console->outlets[i].thread);
	for (unsigned int i = 0; i < console->count && ended; i++) {
		pthread_join(console->outlets[i].thread, NULL);
		close(console->outlets[i].exit);
	}
	if (ended && console->ended >= 0) { /* a stuck thread may still write to it */
		close(console->ended);
		console->ended = -1;
	}
	/*
	 * Read `failed` last: a running thread sets it before it subtracts the line from
	 * `unwritten`, so one of the two shows a failed write.
	 */
	unwritten = atomic_load(&console->unwritten);
	*failed = atomic_load(&console->outlets[STREAM_OUTPUT].failed);
	console->count = 0;
	return unwritten;
}

/* ---- Printing ---- */

static struct outlet *outlet_of(struct console *console, enum stream stream)
{
	return &console->outlets[stream < console->count ? stream : STREAM_OUTPUT];
}

/*
 * Hand a line to the thread, which frees it. If the pipe is full or `text` is NULL, free it and
 * return false.
 */
static bool enqueue(struct outlet *outlet, struct line line)
{
	if (line.text && write(outlet->entrance, &line, sizeof(line)) == sizeof(line))
		return true;
	free(line.text);
	return false;
}

/*
 * Queue a line, or drop and count it. With --json, standard error reports the dropped lines of both
 * streams, because standard output carries only objects.
 */
static void queue_line(struct console *console, enum stream stream, char *text)
{
	struct outlet *outlet = outlet_of(console, stream);
	struct outlet *notices = outlet_of(console, console->json ? STREAM_ERROR : stream);
	unsigned int lost = atomic_exchange(&outlet->lost, 0);

	atomic_fetch_add(&console->unwritten, 1);
	if (enqueue(outlet, (struct line){ .text = text, .lost = lost }))
		return;
	atomic_fetch_add(&outlet->lost, lost);
	atomic_fetch_add(&notices->lost, 1);
}

/* Write a line without a thread. flush_output() reports an error of standard output. */
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
	if (console->count > 0)
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
	struct outlet *outlet = outlet_of(console, STREAM_ERROR);
	int waiting = 0; /* bytes in the pipe */

	if (console->count == 0)
		return;
	ioctl(outlet->entrance, FIONREAD, &waiting);
	if (line.drawn && (size_t)waiting >= MAX_QUEUED_BEFORE_PROGRESS * sizeof(line))
		return;
	line.text = strdup(text);
	enqueue(outlet, line);
}
