// SPDX-License-Identifier: MIT
#include "log.h"

#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "options.h"
#include "process.h"

/* Time, in nanoseconds, after which a transfer shows its progress. */
#define PROGRESS_AFTER_NANOSECONDS ((int64_t)1000 * 1000000)

/* Maximum time, in milliseconds, to wait for unwritten lines after a signal. */
#define HURRY_MILLISECONDS 1000

/* ---- Lines ---- */

static enum stream status_stream(const struct options *options)
{
	return options->json || options->check || is_standard_output(options->output)
		       ? STREAM_ERROR
		       : STREAM_OUTPUT;
}

void print_status(const struct log *log, const char *format, ...)
{
	const struct options *options = log->options;
	va_list arguments;

	if (options->check && !options->verbose)
		return;
	va_start(arguments, format);
	console_print(log->console, status_stream(options), log->prefix, format, arguments);
	va_end(arguments);
}

void print_trace_line(const struct log *log, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(log->console, STREAM_ERROR, log->prefix, format, arguments);
	va_end(arguments);
}

void print_result(struct console *console, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(console, STREAM_OUTPUT, "", format, arguments);
	va_end(arguments);
}

/* ---- The end of the program ---- */

static void drain(const struct log *log, struct process *process)
{
	int milliseconds = (int)timeout_milliseconds(log->options);

	if (!process->signal_number &&
	    !console_drain(log->console, milliseconds, process->signal_descriptor))
		process_take_signal(process); /* without a signal, this does nothing */
	if (process->signal_number)
		console_drain(log->console, HURRY_MILLISECONDS, -1);
}

enum status flush_output(const struct log *log, struct process *process)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	uint64_t left;
	bool failed;

	drain(log, process);
	left = console_close(log->console, &failed);
	failed |= ferror(stdout) != 0;
	/* do not close the descriptor while a thread is stuck in its write(2) */
	failed |= (left ? fflush(stdout) : fclose(stdout)) != 0;
	if (!failed && !left)
		return STATUS_SUCCESS;
	/* a warning would block if standard error is full, too */
	if (poll(&ready, 1, 0) == 0)
		return STATUS_LOCAL_FAILURE;
	if (failed && !atomic_load(&log->console->warned))
		print_warning(log->console, "cannot write to standard output: check for a full "
					    "disk, or a reader that has exited");
	if (left)
		print_warning(log->console,
			      "the output was not read in time: its last %" PRIu64 " line%s lost",
			      left, left == 1 ? " is" : "s are");
	return STATUS_LOCAL_FAILURE;
}

/* ---- Untrusted text ---- */

/* Return true if a terminal only shows the character, alone or as a combining mark. */
static bool is_harmless(wchar_t character)
{
	/* Bidirectional controls and invisible characters. */
	static const wchar_t deceptive[] =
		L"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
		L"\u00ad\u034f\u115f\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
		L"\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07"
		L"\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f\ufff9\ufffa\ufffb";
	wint_t c = (wint_t)character;

	/* not every C library returns -1 from wcwidth(3) for a character that it does not print */
	return iswprint(c) && (wcwidth(character) > 0 || iswctype(c, wctype("combining"))) &&
	       !wcschr(deceptive, character) && character >> 12 != 0xe0; /* tag characters */
}

/* Load the locale only if a byte is not ASCII, because loading is slow. Return 0 if not loaded. */
static locale_t load_locale(const char *name, const uint8_t *bytes, size_t size)
{
	size_t offset = 0;

	while (offset < size && bytes[offset] < 0x80)
		offset++;
	return offset < size ? newlocale(LC_CTYPE_MASK, name, (locale_t)0) : (locale_t)0;
}

char *escape_in(const char *locale_name, bool harmless, const uint8_t *bytes, size_t size)
{
	const locale_t locale = load_locale(locale_name, bytes, size);
	const locale_t before = uselocale(locale); /* changes the locale of this thread only */
	char *text = calloc(size + 1, strlen("\\xff")), *end = text;
	size_t step;

	for (size_t offset = 0; text && offset < size; offset += step) {
		mbstate_t state = { 0 };
		wchar_t character = L'\0';
		bool kept = locale || bytes[offset] < 0x80;

		step = mbrtowc(&character, (const char *)bytes + offset, size - offset, &state);
		kept = kept && step > 0 && step <= size - offset && character <= 0x10ffff;
		if (!kept || (harmless && !is_harmless(character))) {
			step = 1;
			end += sprintf(end, "\\x%02x", bytes[offset]);
		} else if (harmless && character == L'\\') {
			end = mempcpy(end, "\\\\", 2);
		} else {
			end = mempcpy(end, bytes + offset, step);
		}
	}
	uselocale(before);
	if (locale)
		freelocale(locale);
	return text;
}

char *escape(const uint8_t *bytes, size_t size)
{
	return escape_in("", true, bytes, size);
}

/* ---- The payload ---- */

void print_payload(const struct log *log, const struct excerpt *excerpt)
{
	size_t length = excerpt->head_size;
	char *text;

	if (excerpt->is_pattern) {
		print_status(log, "remote buffer: a pattern of %" PRIu64 " byte%s", excerpt->size,
			     plural(excerpt->size));
		return;
	}
	while (!excerpt->goes_on && length > 0 && !excerpt->head[length - 1])
		length--;
	text = escape(excerpt->head, length);
	if (!text)
		print_status(log, "remote buffer: (not enough memory to show it)");
	else if (excerpt->goes_on)
		print_status(log, "remote buffer: %s... (%d of %" PRIu64 " bytes)", text,
			     SHOWN_PAYLOAD, excerpt->size);
	else
		print_status(log, "remote buffer: %s", text);
	free(text);
}

/* ---- Progress ---- */

/* Write an amount of bytes in the largest unit that gives at least 1. Return `buffer`. */
static const char *amount(double bytes, char *buffer, size_t size)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;

	while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buffer, size, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
	return buffer;
}

/* Return true if standard error is a terminal that erases lines, and NO_COLOR is empty or unset. */
static bool can_draw(void)
{
	const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 &&
	       !(no_color && *no_color);
}

void print_progress(const struct log *log, uint64_t done, uint64_t all, int64_t nanoseconds)
{
	double seconds = (double)nanoseconds / 1e9;
	double rate = (double)done / seconds;
	char so_far[32], in_all[32], speed[32], text[128];

	/* can_draw() costs a system call: call it last */
	if (!done || nanoseconds < PROGRESS_AFTER_NANOSECONDS || log->options->verbose ||
	    log->options->connections > 1 || !can_draw())
		return;
	amount((double)done, so_far, sizeof(so_far));
	amount(rate, speed, sizeof(speed));
	if (all == UINT64_MAX)
		snprintf(text, sizeof(text), "%s, %s/s", so_far, speed);
	else
		snprintf(text, sizeof(text), "%s of %s, %s/s, %.0f s left", so_far,
			 amount((double)all, in_all, sizeof(in_all)), speed,
			 (double)(all - done) / rate);
	console_draw(log->console, text);
}
