// SPDX-License-Identifier: MIT
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Bytes of one write(2): a pipe for which poll(2) reports POLLOUT takes so many (pipe(7)). */
#define BUFFER_SIZE 4096
#define DRAWN_SIZE  128
/* The time in which the thread ends; after that write(2) may hold it up. */
#define END_MILLISECONDS 200
/* A pause when waiting fails, which is not to become a loop without one. */
#define PAUSE_NANOSECONDS 10000000

/* A line that waits. */
struct piece {
	STAILQ_ENTRY(piece) link;
	uint64_t number; /* in the order of all lines */
	size_t size;     /* bytes of the text, the newline included */
	size_t moved;    /* those that are in the outlet's buffer, or written */
	char text[];
};

/* A descriptor with the lines that wait for it. Both streams have the same one if they are one
 * file. */
struct outlet {
	int descriptor;
	bool reopened; /* it is the writer's own, and does not block */
	/* The mutex guards these: */
	STAILQ_HEAD(pieces, piece) pieces;
	size_t waiting;   /* bytes of the pieces */
	uint64_t dropped; /* lines, since the last piece */
	bool blocked;     /* it took nothing: the thread waits for it */
	/* The thread's: */
	char buffer[BUFFER_SIZE];
	size_t start, end; /* what is to be written of the buffer */
	bool failed;       /* write(2) has failed at least once */
};

struct writer {
	pthread_t thread;
	int epoll; /* what the thread waits for: `wake`, and outlets that are blocked */
	int wake;  /* eventfd(2): there is something to do */
	int done;  /* eventfd(2): everything is written, or the thread has ended */
	struct outlet outlets[STREAMS];
	struct outlet *outlet_of[STREAMS];
	bool json;
	pthread_mutex_t mutex;
	/* The mutex guards these: */
	uint64_t count; /* lines so far */
	bool sleeping;  /* the thread has to be woken */
	bool draining;  /* somebody waits for `done` */
	bool stopped;   /* the thread shall end */
	bool writing;   /* it is in write(2), which may hold it up */
	bool drawing;   /* `drawn` has changed */
	char drawn[DRAWN_SIZE];
	bool shown; /* the cursor stands behind what was drawn */
};

/* ---- Lines ---- */

/* A line. NULL: there is no memory. */
static __attribute__((format(printf, 2, 0))) struct piece *make_piece(const char *prefix,
								      const char *format,
								      va_list arguments)
{
	size_t prefix_size = strlen(prefix);
	struct piece *piece = NULL;
	va_list again;
	int size;

	va_copy(again, arguments);
	size = vsnprintf(NULL, 0, format, arguments);
	if (size >= 0)
		piece = malloc(sizeof(*piece) + prefix_size + (size_t)size + 1);
	if (piece) {
		piece->size = prefix_size + (size_t)size + 1;
		piece->moved = 0;
		memcpy(piece->text, prefix, prefix_size);
		vsnprintf(piece->text + prefix_size, (size_t)size + 1, format, again);
		piece->text[piece->size - 1] = '\n';
	}
	va_end(again);
	return piece;
}

static size_t memory_of(const struct piece *piece)
{
	return sizeof(*piece) + piece->size;
}

/* Adds a piece behind all others. The mutex is held. */
static void append(struct writer *writer, struct outlet *outlet, struct piece *piece)
{
	piece->number = writer->count++;
	outlet->waiting += memory_of(piece);
	STAILQ_INSERT_TAIL(&outlet->pieces, piece, link);
}

/* Takes the first piece off the queue, which is `piece`. */
static void remove_piece(struct outlet *outlet, struct piece *piece)
{
	outlet->waiting -= memory_of(piece);
	STAILQ_REMOVE_HEAD(&outlet->pieces, link);
	free(piece);
}

/* ---- The thread ---- */

/*
 * In the place of lines that were dropped, as soon as half of the queue is free: says how many
 * there were. Where standard output carries JSON, standard error says it.
 */
static void report_dropped(struct writer *writer, struct outlet *outlet)
{
	static const char format[] = "(%" PRIu64 " lines were dropped here: nobody read them)\n";
	struct outlet *target = writer->json ? writer->outlet_of[STREAM_ERROR] : outlet;
	struct piece *piece;

	if (!outlet->dropped || outlet->waiting > CONSOLE_CAPACITY / 2)
		return;
	piece = malloc(sizeof(*piece) + sizeof(format) + 20);
	if (!piece)
		return;
	piece->size = (size_t)sprintf(piece->text, format, outlet->dropped);
	piece->moved = 0;
	outlet->dropped = 0;
	append(writer, target, piece);
}

/* Moves pieces into the empty buffer, as many as fit, up to the one with number `limit`. */
static void fill(struct outlet *outlet, uint64_t limit)
{
	struct piece *piece;

	outlet->start = 0;
	outlet->end = 0;
	while ((piece = STAILQ_FIRST(&outlet->pieces)) && piece->number < limit) {
		size_t room = BUFFER_SIZE - outlet->end;
		size_t size = piece->size - piece->moved;

		if (size > room && outlet->end > 0)
			return; /* a line is cut only if it is longer than the buffer */
		if (size > room)
			size = room;
		memcpy(outlet->buffer + outlet->end, piece->text + piece->moved, size);
		outlet->end += size;
		piece->moved += size;
		if (piece->moved < piece->size)
			return;
		remove_piece(outlet, piece);
	}
}

/* Lets the terminal end with `text`; an empty one clears the line. */
static struct outlet *draw(struct writer *writer, const char *text)
{
	struct outlet *outlet = writer->outlet_of[STREAM_ERROR];

	writer->shown = text[0];
	outlet->start = 0;
	outlet->end = (size_t)snprintf(outlet->buffer, BUFFER_SIZE, "\r%s\033[K", text);
	return outlet;
}

/* The number of the outlet's next line; UINT64_MAX: there is none, or it cannot be written now. */
static uint64_t next_number(const struct outlet *outlet)
{
	const struct piece *first = STAILQ_FIRST(&outlet->pieces);

	return first && !outlet->blocked ? first->number : UINT64_MAX;
}

/* What is to be written next, in the buffer of its outlet. NULL: nothing can be. Holds the mutex.
 */
static struct outlet *take_next(struct writer *writer)
{
	struct outlet *first = &writer->outlets[0], *second = &writer->outlets[1];
	const struct outlet *error = writer->outlet_of[STREAM_ERROR];
	uint64_t numbers[STREAMS];

	report_dropped(writer, first);
	report_dropped(writer, second);
	for (unsigned int i = 0; i < STREAMS; i++) { /* a line that has begun goes on */
		struct outlet *outlet = &writer->outlets[i];

		if (outlet->start < outlet->end && !outlet->blocked)
			return outlet;
		numbers[i] = next_number(outlet);
	}
	if (numbers[0] == numbers[1]) { /* no line */
		if (!writer->drawing || error->blocked)
			return NULL;
		writer->drawing = false;
		return draw(writer, writer->drawn);
	}
	if (writer->shown && !error->blocked)
		return draw(writer, "");
	if (numbers[1] < numbers[0]) {
		fill(second, numbers[0]);
		return second;
	}
	fill(first, numbers[1]);
	return first;
}

/*
 * Writes from the outlet's buffer; true if it has to be waited for. What cannot be written because
 * of an error is gone, as with stdio(3).
 */
static bool write_buffer(struct outlet *outlet)
{
	struct pollfd ready = { .fd = outlet->descriptor, .events = POLLOUT };
	ssize_t count;

	if (!outlet->reopened && poll(&ready, 1, 0) == 0)
		return true;
	count = write(outlet->descriptor, outlet->buffer + outlet->start,
		      outlet->end - outlet->start);
	if (count >= 0) {
		outlet->start += (size_t)count;
	} else if (errno == EAGAIN) {
		return true;
	} else if (errno != EINTR) {
		outlet->start = outlet->end;
		outlet->failed = true;
	}
	return false;
}

/* True if nothing is left. */
static bool is_empty(const struct writer *writer)
{
	for (unsigned int i = 0; i < STREAMS; i++) {
		const struct outlet *outlet = &writer->outlets[i];

		if (!STAILQ_EMPTY(&outlet->pieces) || outlet->start < outlet->end)
			return false;
	}
	return true;
}

/* Waits until there is something to do, without the mutex, which the caller holds. */
static void wait_for_work(struct writer *writer)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NANOSECONDS };
	struct epoll_event event;
	struct outlet *outlet;
	eventfd_t wakes;
	int count;

	writer->sleeping = true;
	if (writer->draining && is_empty(writer))
		eventfd_write(writer->done, 1);
	pthread_mutex_unlock(&writer->mutex);
	count = epoll_wait(writer->epoll, &event, 1, -1);
	if (count < 0 && errno != EINTR)
		nanosleep(&pause, NULL);
	pthread_mutex_lock(&writer->mutex);
	writer->sleeping = false;
	outlet = count > 0 ? event.data.ptr : NULL;
	if (!outlet) {
		eventfd_read(writer->wake, &wakes);
	} else {
		epoll_ctl(writer->epoll, EPOLL_CTL_DEL, outlet->descriptor, NULL);
		outlet->blocked = false;
	}
}

/* Lets epoll(7) report when the outlet takes bytes again. The mutex is held. */
static void block(struct writer *writer, struct outlet *outlet)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = outlet };

	outlet->blocked = !epoll_ctl(writer->epoll, EPOLL_CTL_ADD, outlet->descriptor, &event);
}

static void *run_writer(void *argument)
{
	struct writer *writer = argument;
	struct outlet *outlet;
	bool full;

	pthread_mutex_lock(&writer->mutex);
	while (!writer->stopped) {
		outlet = take_next(writer);
		if (!outlet) {
			wait_for_work(writer);
			continue;
		}
		writer->writing = true;
		pthread_mutex_unlock(&writer->mutex);
		full = write_buffer(outlet);
		pthread_mutex_lock(&writer->mutex);
		writer->writing = false;
		if (full)
			block(writer, outlet);
	}
	pthread_mutex_unlock(&writer->mutex);
	eventfd_write(writer->done, 1);
	return NULL;
}

/* ---- Opening and closing ---- */

/*
 * A pipe or a terminal is opened once more, so that write(2) does not block on it, and nobody else
 * finds it non-blocking. What cannot be opened is asked by poll(2) before each write.
 */
static void open_outlet(struct outlet *outlet, int descriptor)
{
	char name[64];
	struct stat about;
	int own;

	STAILQ_INIT(&outlet->pieces);
	outlet->descriptor = descriptor;
	if (fstat(descriptor, &about) || !(S_ISFIFO(about.st_mode) || isatty(descriptor)))
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
	own = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own < 0)
		return;
	outlet->descriptor = own;
	outlet->reopened = true;
}

static bool is_same_file(int one, int other)
{
	struct stat about_one, about_other;

	return !fstat(one, &about_one) && !fstat(other, &about_other) &&
	       about_one.st_dev == about_other.st_dev && about_one.st_ino == about_other.st_ino;
}

/* Everything but the thread; 0 or an errno value. writer_free() is due in any case. */
static int writer_init(struct writer *writer, int output, int error)
{
	struct epoll_event event = { .events = EPOLLIN };

	pthread_mutex_init(&writer->mutex, NULL);
	open_outlet(&writer->outlets[STREAM_OUTPUT], output);
	open_outlet(&writer->outlets[STREAM_ERROR], error);
	writer->outlet_of[STREAM_OUTPUT] = &writer->outlets[STREAM_OUTPUT];
	writer->outlet_of[STREAM_ERROR] =
		&writer->outlets[is_same_file(output, error) ? STREAM_OUTPUT : STREAM_ERROR];
	writer->wake = -1;
	writer->done = -1;
	writer->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (writer->epoll < 0)
		return errno;
	writer->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (writer->wake < 0)
		return errno;
	writer->done = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (writer->done < 0)
		return errno;
	return epoll_ctl(writer->epoll, EPOLL_CTL_ADD, writer->wake, &event) ? errno : 0;
}

static void close_descriptor(int descriptor)
{
	if (descriptor >= 0)
		close(descriptor);
}

static void writer_free(struct writer *writer)
{
	for (unsigned int i = 0; i < STREAMS; i++) {
		struct outlet *outlet = &writer->outlets[i];

		while (!STAILQ_EMPTY(&outlet->pieces))
			remove_piece(outlet, STAILQ_FIRST(&outlet->pieces));
		if (outlet->reopened)
			close(outlet->descriptor);
	}
	close_descriptor(writer->epoll);
	close_descriptor(writer->wake);
	close_descriptor(writer->done);
	pthread_mutex_destroy(&writer->mutex);
	free(writer);
}

void console_init(struct console *console, const struct options *options)
{
	console->options = options;
	console->writer = NULL;
}

int console_open(struct console *console, int output, int error)
{
	struct writer *writer = calloc(1, sizeof(*writer));
	int result;

	if (!writer)
		return errno;
	writer->json = console->options->json;
	result = writer_init(writer, output, error);
	if (!result)
		result = pthread_create(&writer->thread, NULL, run_writer, writer);
	if (result)
		writer_free(writer);
	else
		console->writer = writer;
	return result;
}

enum drained console_drain(struct console *console, int milliseconds, int interruption)
{
	struct writer *writer = console->writer;
	struct pollfd ready[] = {
		{ .fd = writer ? writer->done : -1, .events = POLLIN },
		{ .fd = interruption, .events = POLLIN },
	};
	int count;

	if (!writer)
		return DRAINED_ALL;
	pthread_mutex_lock(&writer->mutex);
	writer->draining = true;
	pthread_mutex_unlock(&writer->mutex);
	eventfd_write(writer->wake, 1);
	do
		count = poll(ready, 2, milliseconds);
	while (count < 0 && errno == EINTR);
	if (ready[0].revents)
		return DRAINED_ALL;
	return count > 0 ? DRAINED_INTERRUPTED : DRAINED_EXPIRED;
}

/* Lines in the queue, and those for which it had no room. */
static uint64_t count_waiting(const struct writer *writer)
{
	const struct piece *piece;
	uint64_t waiting = 0;

	for (unsigned int i = 0; i < STREAMS; i++) {
		waiting += writer->outlets[i].dropped;
		STAILQ_FOREACH (piece, &writer->outlets[i].pieces, link)
			waiting++;
	}
	return waiting;
}

/* Lines that the thread has taken, but not written to their end. */
static uint64_t count_taken(const struct writer *writer)
{
	uint64_t taken = 0;

	for (unsigned int i = 0; i < STREAMS; i++) {
		const struct outlet *outlet = &writer->outlets[i];

		for (size_t at = outlet->start; at < outlet->end; at++)
			taken += outlet->buffer[at] == '\n';
	}
	return taken;
}

static bool is_writing(struct writer *writer)
{
	bool writing;

	pthread_mutex_lock(&writer->mutex);
	writing = writer->writing;
	pthread_mutex_unlock(&writer->mutex);
	return writing;
}

uint64_t console_close(struct console *console, bool *failed)
{
	struct writer *writer = console->writer;
	struct pollfd ended = { .fd = writer ? writer->done : -1, .events = POLLIN };
	eventfd_t count;
	uint64_t left;

	*failed = false;
	if (!writer)
		return 0;
	console->writer = NULL;
	pthread_mutex_lock(&writer->mutex);
	writer->stopped = true;
	eventfd_read(writer->done, &count); /* from now on it says that the thread has ended */
	left = count_waiting(writer);
	pthread_mutex_unlock(&writer->mutex);
	eventfd_write(writer->wake, 1);
	/* if it is not there the machine has other things to do, and it ends when it gets to run */
	if (poll(&ended, 1, END_MILLISECONDS) <= 0 && is_writing(writer)) {
		pthread_detach(writer->thread);
		return left + 1; /* what write(2) was called with */
	}
	pthread_join(writer->thread, NULL);
	left = count_waiting(writer) + count_taken(writer);
	*failed = writer->outlets[STREAM_OUTPUT].failed;
	writer_free(writer);
	return left;
}

/* ---- Printing ---- */

/* Lets the piece wait, or drops it; NULL: a line for which there was no memory. */
static void queue_piece(struct writer *writer, struct outlet *outlet, struct piece *piece)
{
	bool wake;

	pthread_mutex_lock(&writer->mutex);
	if (piece && !outlet->dropped && outlet->waiting + memory_of(piece) <= CONSOLE_CAPACITY) {
		append(writer, outlet, piece);
		piece = NULL;
	} else {
		outlet->dropped++;
	}
	wake = writer->sleeping && !outlet->blocked;
	if (wake)
		writer->sleeping = false;
	pthread_mutex_unlock(&writer->mutex);
	if (wake)
		eventfd_write(writer->wake, 1);
	free(piece);
}

/* Without a queue: writes the line. flush_output() finds an error of standard output. */
static void write_piece(FILE *stream, struct piece *piece)
{
	if (piece)
		fwrite(piece->text, 1, piece->size, stream);
	fflush(stream);
	free(piece);
}

void console_print(struct console *console, enum stream stream, const char *prefix,
		   const char *format, va_list arguments)
{
	struct piece *piece = make_piece(prefix, format, arguments);
	struct writer *writer = console->writer;

	if (writer)
		queue_piece(writer, writer->outlet_of[stream], piece);
	else
		write_piece(stream == STREAM_OUTPUT ? stdout : stderr, piece);
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
	struct writer *writer = console->writer;
	bool wake;

	if (!writer)
		return;
	pthread_mutex_lock(&writer->mutex);
	if (!text[0] && !writer->shown) { /* nothing to take away */
		writer->drawing = false;
	} else {
		snprintf(writer->drawn, sizeof(writer->drawn), "%s", text);
		writer->drawing = true;
	}
	wake = writer->sleeping && writer->drawing;
	if (wake)
		writer->sleeping = false;
	pthread_mutex_unlock(&writer->mutex);
	if (wake)
		eventfd_write(writer->wake, 1);
}
