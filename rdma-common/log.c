// SPDX-License-Identifier: MIT
#include "log.h"

#include <err.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "digest.h"
#include "process.h"

/* A transfer that takes longer than this shows its progress. */
#define PROGRESS_AFTER_NANOSECONDS ((int64_t)1000 * 1000000)

/* After an interruption unwritten lines are waited for as long as this. */
#define HURRY_MILLISECONDS 1000

/* ---- Lines ---- */

/* Standard output carries one thing: the status lines, unless an option puts another there. */
static enum stream status_stream(const struct options *options)
{
	return options->json || options->check || is_standard_output(options->output)
		       ? STREAM_ERROR
		       : STREAM_OUTPUT;
}

/* "[N] " of a session with a number. */
static const char *line_prefix(const struct log *log, char *buffer, size_t size)
{
	buffer[0] = '\0';
	if (log->session)
		snprintf(buffer, size, "[%u] ", log->session);
	return buffer;
}

__attribute__((format(printf, 3, 0))) static void print_line(const struct log *log,
							     enum stream stream, const char *format,
							     va_list arguments)
{
	char prefix[16];

	console_print(log->console, stream, line_prefix(log, prefix, sizeof(prefix)), format,
		      arguments);
}

void print_status(const struct log *log, const char *format, ...)
{
	const struct options *options = log->console->options;
	va_list arguments;

	if (options->check && !options->verbose)
		return;
	va_start(arguments, format);
	print_line(log, status_stream(options), format, arguments);
	va_end(arguments);
}

void print_trace(const struct log *log, const char *format, ...)
{
	va_list arguments;

	if (!log->console->options->verbose)
		return;
	va_start(arguments, format);
	print_line(log, STREAM_ERROR, format, arguments);
	va_end(arguments);
}

void print_result(struct console *console, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	console_print(console, STREAM_OUTPUT, "", format, arguments);
	va_end(arguments);
}

void print_failure(const struct log *log, const char *peer, const char *cause)
{
	char prefix[16];

	print_warning(log->console, "%s%s: %s", line_prefix(log, prefix, sizeof(prefix)), peer,
		      cause);
}

/* ---- The end of the program ---- */

/* Waits until all is written or the time is up; a second signal ends the process. */
static void drain(struct console *console, bool interrupted)
{
	int64_t patience = timeout_milliseconds(console->options);
	int signals;

	if (!interrupted) {
		signals = open_signal_descriptor();
		interrupted = console_drain(console, patience < INT_MAX ? (int)patience : INT_MAX,
					    signals) == DRAINED_INTERRUPTED;
		if (interrupted)
			take_signal_number(signals);
		if (signals >= 0)
			close(signals);
	}
	if (interrupted)
		console_drain(console, HURRY_MILLISECONDS, -1);
}

/* warnx(3), unless standard error takes nothing: there is nobody left to wait for that. */
static __attribute__((format(printf, 1, 2))) void complain(const char *format, ...)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	va_list arguments;

	if (poll(&ready, 1, 0) == 0)
		return;
	va_start(arguments, format);
	vwarnx(format, arguments);
	va_end(arguments);
}

enum status flush_output(struct console *console, bool interrupted)
{
	uint64_t left;
	bool failed;

	drain(console, interrupted);
	left = console_close(console, &failed);
	failed |= ferror(stdout) != 0;
	/* a thread that is stuck in write(2) still has the descriptor */
	failed |= (left ? fflush(stdout) : fclose(stdout)) != 0;
	if (failed)
		complain("cannot write to standard output; is the disk full, or the reader gone?");
	if (left)
		complain("the last %" PRIu64 " lines are lost: nobody read them in time", left);
	return failed || left ? STATUS_LOCAL_FAILURE : STATUS_SUCCESS;
}

/* ---- The payload ---- */

/*
 * True if a character is invisible, or changes how others are shown: category Cf of Unicode 15, the
 * separators of lines and paragraphs, and Default_Ignorable_Code_Point, which includes characters
 * that are reserved for the same purpose. iswprint(3) is true for many of them.
 */
static bool is_format(wint_t character)
{
	static const struct {
		wint_t first, last;
	} ranges[] = {
		{ 0x00ad, 0x00ad },   { 0x034f, 0x034f },   { 0x0600, 0x0605 },
		{ 0x061c, 0x061c },   { 0x06dd, 0x06dd },   { 0x070f, 0x070f },
		{ 0x0890, 0x0891 },   { 0x08e2, 0x08e2 },   { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfffb },   { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd },
		{ 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (character <= ranges[i].last)
			return character >= ranges[i].first;
	}
	return false;
}

/* True if a terminal shows a character where it stands, and does nothing else. */
static bool is_harmless(wint_t character)
{
	return iswprint(character) && !is_format(character);
}

char *escape(const uint8_t *bytes, size_t size)
{
	char *text = NULL;
	size_t text_size = 0, step;
	mbstate_t state = { 0 };
	FILE *stream = open_memstream(&text, &text_size);

	if (!stream)
		return NULL;
	for (size_t offset = 0; offset < size; offset += step) {
		wchar_t character = L'\0';

		step = mbrtowc(&character, (const char *)bytes + offset, size - offset, &state);
		if (step == 0 || step > size - offset || !is_harmless((wint_t)character)) {
			/* the end of a string, no character of this locale, or one that does
			 * something */
			memset(&state, 0, sizeof(state));
			step = 1;
			fprintf(stream, "\\x%02x", bytes[offset]);
		} else if (character == L'\\') {
			fputs("\\\\", stream);
		} else {
			fwrite(bytes + offset, 1, step, stream);
		}
	}
	if (fclose(stream)) {
		free(text);
		return NULL;
	}
	return text;
}

/* escape() in the user's locale. That is loaded only if it is needed: loading takes its time. */
static char *escape_in_locale(const uint8_t *bytes, size_t size)
{
	locale_t locale, before;
	size_t offset = 0;
	char *text;

	while (offset < size && bytes[offset] < 0x80)
		offset++;
	locale = offset < size ? newlocale(LC_CTYPE_MASK, "", (locale_t)0) : (locale_t)0;
	if (!locale)
		return escape(bytes, size);
	before = uselocale(locale); /* of this thread alone */
	text = escape(bytes, size);
	uselocale(before);
	freelocale(locale);
	return text;
}

void excerpt_add(struct excerpt *excerpt, const uint8_t *bytes, size_t size)
{
	size_t room = SHOWN_PAYLOAD - excerpt->head_size;
	size_t length = text_length(bytes, size);

	if (room > size)
		room = size;
	if (room > 0)
		memcpy(excerpt->head + excerpt->head_size, bytes, room);
	excerpt->head_size += room;
	if (length > 0)
		excerpt->text_length = excerpt->size + length;
	excerpt->size += size;
}

void print_payload(const struct log *log, const struct excerpt *excerpt)
{
	char *text;

	if (excerpt->is_pattern) {
		print_status(log, "remote buffer: a pattern of %" PRIu64 " bytes", excerpt->size);
		return;
	}
	text = escape_in_locale(excerpt->head, excerpt->text_length < SHOWN_PAYLOAD
						       ? (size_t)excerpt->text_length
						       : SHOWN_PAYLOAD);
	if (!text)
		print_status(log, "remote buffer: (no memory to show it)");
	else if (excerpt->text_length <= SHOWN_PAYLOAD)
		print_status(log, "remote buffer: %s", text);
	else
		print_status(log, "remote buffer: %s... (%d of %" PRIu64 " bytes)", text,
			     SHOWN_PAYLOAD, excerpt->size);
	free(text);
}

/* ---- Progress ---- */

/* An amount of bytes in the largest unit of which there is one. */
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

/* True if standard error is a terminal that can take a line away again, and may be drawn on. */
static bool can_draw(void)
{
	const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 &&
	       !(no_color && *no_color);
}

void print_progress(struct console *console, uint64_t done, uint64_t all, int64_t nanoseconds)
{
	double seconds = (double)nanoseconds / 1e9;
	double rate = (double)done / seconds;
	char so_far[32], in_all[32], speed[32], text[128];

	/* whether this is a terminal is asked last: it costs a system call */
	if (!done || nanoseconds < PROGRESS_AFTER_NANOSECONDS || console->options->verbose ||
	    !can_draw())
		return;
	amount((double)done, so_far, sizeof(so_far));
	amount(rate, speed, sizeof(speed));
	if (all == UINT64_MAX)
		snprintf(text, sizeof(text), "%s, %s/s", so_far, speed);
	else
		snprintf(text, sizeof(text), "%s of %s, %s/s, %.0f s left", so_far,
			 amount((double)all, in_all, sizeof(in_all)), speed,
			 (double)(all - done) / rate);
	console_draw(console, text);
}

/* ---- JSON ---- */

/*
 * The number of bytes of the UTF-8 character that `text` begins with; 0 if that is none: cut off,
 * in an overlong form, half of a surrogate pair or beyond U+10FFFF (RFC 3629).
 */
static size_t utf8_size(const char *text)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t first = (uint8_t)text[0];
	const unsigned int ones = (unsigned int)__builtin_clz(~((uint32_t)first << 24));
	const size_t size =
		ones ? ones : 1; /* the first byte begins with as many bits that are 1 */
	uint32_t character = first & (0x7fU >> ones);

	if (ones == 1 || ones > 4)
		return 0;
	for (size_t i = 1; i < size; i++) {
		const uint8_t next = (uint8_t)text[i];

		if ((next & 0xc0) != 0x80) /* the end of the string, too */
			return 0;
		character = character << 6 | (next & 0x3f);
	}
	if (character < smallest[size] || (character >= 0xd800 && character < 0xe000) ||
	    character > 0x10ffff)
		return 0;
	return size;
}

/* A copy of `text` in which bytes that are not UTF-8 are escaped; the caller frees it. Or NULL. */
static char *make_utf8(const char *text)
{
	char *copy = malloc(4 * strlen(text) + 1), *end = copy;

	while (copy && *text) {
		size_t size = utf8_size(text);

		if (size)
			end = mempcpy(end, text, size);
		else
			end += sprintf(end, "\\x%02x", (uint8_t)*text);
		text += size ? size : 1;
	}
	if (copy)
		*end = '\0';
	return copy;
}

/* JSON is UTF-8 (RFC 8259), but the name of a file need not be, and a message may be cut off. */
void json_add_text(struct json_object *object, const char *key, const char *value)
{
	char *text = value ? make_utf8(value) : NULL;

	json_object_object_add(object, key, text ? json_object_new_string(text) : NULL);
	free(text);
}

void print_json(struct console *console, struct json_object *object)
{
	print_result(console, "%s",
		     json_object_to_json_string_ext(object, JSON_C_TO_STRING_SPACED));
}

void json_add_status(struct json_object *object, enum status status, int signal_number)
{
	/* as a shell shows it */
	int number = status == STATUS_INTERRUPTED ? 128 + signal_number : (int)status;

	json_object_object_add(object, "status", json_object_new_int(number));
}
