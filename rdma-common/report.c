// SPDX-License-Identifier: MIT
/*
 * What the user is told: the narration, the payload, progress, figures, the outcome.
 */
#include "../rdma-common.h"

#include <err.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

/* The most that is shown of a payload, in bytes: a screen of text. */
#define SHOWN_PAYLOAD 1024
/* A run that takes longer than this shows its progress, and as often as the other says. */
#define PROGRESS_AFTER_NANOSECONDS (1000 * (int64_t)1000000)
#define NANOSECONDS_PER_SECOND     1e9

/* ---- Lines ---- */

/* Standard output carries one thing: the narration, unless it was asked for another. */
static FILE *narration(const struct process *process)
{
	const struct options *options = process->options;

	return options->json || is_standard_output(options->output) ? stderr : stdout;
}

/* Takes the line of progress away, so that another can be printed there. */
static void clear_progress(struct process *process)
{
	if (atomic_exchange(&process->progress_shown, false))
		fputs("\r\033[K", stderr);
}

/* One line on `stream` in one piece: two threads print. */
__attribute__((format(printf, 4, 0))) static void print_line(struct process *process, FILE *stream,
							     const char *prefix, const char *format,
							     va_list arguments)
{
	flockfile(stream);
	clear_progress(process);
	fputs(prefix, stream);
	vfprintf(stream, format, arguments);
	fputc('\n', stream);
	fflush(stream);
	funlockfile(stream);
}

void say(struct process *process, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(process, narration(process), "", format, arguments);
	va_end(arguments);
}

/* What stands in front of a line of this connection's. */
static const char *line_prefix(const struct connection *connection, char *buffer, size_t size)
{
	buffer[0] = '\0';
	if (connection->number)
		snprintf(buffer, size, "[%u] ", connection->number);
	return buffer;
}

void connection_say(const struct connection *connection, const char *format, ...)
{
	char prefix[16];
	va_list arguments;

	va_start(arguments, format);
	print_line(connection->process, narration(connection->process),
		   line_prefix(connection, prefix, sizeof(prefix)), format, arguments);
	va_end(arguments);
}

void connection_trace(const struct connection *connection, const char *format, ...)
{
	char prefix[16];
	va_list arguments;

	if (!connection->process->options->verbose)
		return;
	va_start(arguments, format);
	print_line(connection->process, stderr, line_prefix(connection, prefix, sizeof(prefix)),
		   format, arguments);
	va_end(arguments);
}

void process_complain(struct process *process, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(process->error, sizeof(process->error), format, arguments);
	va_end(arguments);
	warnx("%s", process->error);
}

enum status flush_output(void)
{
	int failed = ferror(stdout);

	if (fclose(stdout) || failed) {
		warnx("cannot write to standard output; is the disk full, or the reader gone?");
		return STATUS_LOCAL_FAILURE;
	}
	return STATUS_SUCCESS;
}

/* ---- The payload ---- */

/* Whether a terminal shows a character where it stands, and does nothing else. */
static bool is_harmless(wint_t character)
{
	/* these are "printable", but change the direction of what follows, or are invisible */
	bool formats = (character >= 0x200b && character <= 0x200f) ||
		       (character >= 0x2028 && character <= 0x202e) ||
		       (character >= 0x2060 && character <= 0x206f) || character == 0xfeff;

	return iswprint(character) && !formats;
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

void show_payload(const struct connection *connection)
{
	const struct region *incoming = &connection->incoming;
	size_t size = incoming->size;
	char *text;

	if (connection->expects_pattern) {
		connection_say(connection, "remote buffer: a pattern of %zu bytes", size);
		return;
	}
	while (size > 0 && !incoming->memory[size - 1])
		size--;
	text = escape_in_locale(incoming->memory, size < SHOWN_PAYLOAD ? size : SHOWN_PAYLOAD);
	if (!text)
		connection_say(connection, "remote buffer: (no memory to show it)");
	else if (size <= SHOWN_PAYLOAD)
		connection_say(connection, "remote buffer: %s", text);
	else
		connection_say(connection, "remote buffer: %s... (%d of %zu bytes)", text,
			       SHOWN_PAYLOAD, incoming->size);
	free(text);
}

/* ---- Latencies ---- */

/*
 * Up to 256 every nanosecond has a bucket of its own; from there on each power of two has 128, so
 * that no bucket is wider than a 128th of what it counts.
 */
static unsigned int bucket_of(uint64_t nanoseconds)
{
	unsigned int shift = 0;

	if (nanoseconds >= 256)
		shift = 56 - (unsigned int)__builtin_clzll(nanoseconds);
	return shift * 128 + (unsigned int)(nanoseconds >> shift);
}

/* The middle of a bucket. */
static int64_t bucket_value(unsigned int bucket)
{
	unsigned int shift = bucket < 256 ? 0 : bucket / 128 - 1;
	int64_t width = (int64_t)1 << shift;

	return (int64_t)(bucket - shift * 128) * width + width / 2;
}

void latency_count(struct latency *latency, int64_t nanoseconds)
{
	latency->counts[bucket_of((uint64_t)nanoseconds)]++;
	if (!latency->total || nanoseconds < latency->minimum)
		latency->minimum = nanoseconds;
	if (nanoseconds > latency->maximum)
		latency->maximum = nanoseconds;
	latency->total++;
}

int64_t latency_quantile(const struct latency *latency, double share)
{
	double wanted = share * (double)latency->total;
	uint64_t passed = 0;

	for (unsigned int bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
		passed += latency->counts[bucket];
		if (passed && (double)passed >= wanted)
			return bucket_value(bucket);
	}
	return latency->maximum;
}

/* ---- Figures ---- */

/* What is told of a session's operation. */
struct summary {
	uint64_t operations, bytes;
	double seconds; /* 0: unknown */
	double bytes_per_second, operations_per_second;
};

static struct summary summarize(const struct connection *connection)
{
	const struct figures *figures = &connection->figures;
	struct summary summary = { 0 };

	if (!connection->parts)
		return summary;
	summary.operations = connection->requests_completed / connection->parts;
	summary.bytes = summary.operations * operation_length(connection);
	if (!summary.operations || figures->completed <= figures->started)
		return summary;
	summary.seconds = (double)(figures->completed - figures->started) / NANOSECONDS_PER_SECOND;
	summary.bytes_per_second = (double)summary.bytes / summary.seconds;
	summary.operations_per_second = (double)summary.operations / summary.seconds;
	return summary;
}

static void say_figures(const struct connection *connection)
{
	const struct summary summary = summarize(connection);
	const struct latency *latency = connection->figures.latency;
	const int64_t digest = connection->process->payload.digest.nanoseconds;

	if (summary.operations)
		connection_say(connection,
			       "%s %" PRIu64 " bytes in %" PRIu64 " operations and %.6f s: "
			       "%.2f MB/s (%.2f MiB/s), %.0f operations/s",
			       connection->protocol.operation == OPERATION_WRITE ? "wrote" : "read",
			       summary.bytes, summary.operations, summary.seconds,
			       summary.bytes_per_second / 1e6, summary.bytes_per_second / 1048576,
			       summary.operations_per_second);
	if (latency && latency->total)
		connection_say(connection,
			       "latency in us: minimum %.2f, median %.2f, 99th percentile %.2f, "
			       "99.9th %.2f, maximum %.2f",
			       (double)latency->minimum / 1e3,
			       (double)latency_quantile(latency, 0.5) / 1e3,
			       (double)latency_quantile(latency, 0.99) / 1e3,
			       (double)latency_quantile(latency, 0.999) / 1e3,
			       (double)latency->maximum / 1e3);
	connection_say(connection,
		       "digests took %.6f s for what was handed over, %.6f s for what "
		       "was received",
		       (double)digest / NANOSECONDS_PER_SECOND,
		       (double)connection->figures.check_nanoseconds / NANOSECONDS_PER_SECOND);
}

void connection_report(struct connection *connection, enum status status)
{
	const struct options *options = connection->process->options;
	bool client = connection->process->role == ROLE_CLIENT;
	char prefix[16];

	if (connection->protocol.disconnected)
		connection_say(connection, client ? "disconnected." : "peer disconnected.");
	if ((options->report || options->iterations > 1) && connection->protocol.connected)
		say_figures(connection);
	if (outstanding_sends(connection) || connection->outstanding_receives)
		connection_trace(connection, "%" PRIu64 " sends and %u receives never came back",
				 outstanding_sends(connection), connection->outstanding_receives);
	clear_progress(connection->process);
	if (status != STATUS_SUCCESS)
		warnx("%s%s: %s", line_prefix(connection, prefix, sizeof(prefix)), connection->peer,
		      connection_cause(connection, status));
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

/* Whether standard error is a terminal that can take a line away again, and may be drawn on. */
static bool can_draw(void)
{
	const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 &&
	       !(no_color && *no_color);
}

void show_progress(struct connection *connection)
{
	uint64_t part = connection->part_size;
	char so_far[32], in_all[32], rate[32];
	double done, all, passed;
	int64_t elapsed;

	/* the server comes here for every connection at every event: what costs more is asked last
	 */
	if (!connection->requests_completed ||
	    connection->requests_completed == connection->requests || connection->number ||
	    connection->process->options->verbose)
		return;
	elapsed = now_nanoseconds() - connection->figures.started;
	if (elapsed < PROGRESS_AFTER_NANOSECONDS || !can_draw())
		return;
	passed = (double)elapsed / NANOSECONDS_PER_SECOND;
	if (part > operation_length(connection))
		part = operation_length(connection);
	done = (double)connection->requests_completed * (double)part;
	all = (double)connection->requests * (double)part;
	flockfile(stderr);
	fprintf(stderr, "\r%s of %s, %s/s, %.0f s left\033[K", amount(done, so_far, sizeof(so_far)),
		amount(all, in_all, sizeof(in_all)), amount(done / passed, rate, sizeof(rate)),
		(all - done) * passed / done);
	fflush(stderr);
	atomic_store(&connection->process->progress_shown, true);
	funlockfile(stderr);
}

/* ---- JSON ---- */

static void add_string(struct json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, value ? json_object_new_string(value) : NULL);
}

static void add_count(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

/* A number that is null where nothing was measured. */
static void add_number(struct json_object *object, const char *key, double value, bool known)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", value); /* more digits were not measured */
	json_object_object_add(object, key, known ? json_object_new_double_s(value, text) : NULL);
}

static void add_latency(struct json_object *object, const struct latency *latency)
{
	struct json_object *inner;

	if (!latency || !latency->total) {
		json_object_object_add(object, "latency_us", NULL);
		return;
	}
	inner = json_object_new_object();
	add_number(inner, "min", (double)latency->minimum / 1e3, true);
	add_number(inner, "p50", (double)latency_quantile(latency, 0.5) / 1e3, true);
	add_number(inner, "p99", (double)latency_quantile(latency, 0.99) / 1e3, true);
	add_number(inner, "p999", (double)latency_quantile(latency, 0.999) / 1e3, true);
	add_number(inner, "max", (double)latency->maximum / 1e3, true);
	json_object_object_add(object, "latency_us", inner);
}

/* What there is to say of a session; of none, zeros and nulls. */
static void add_session(struct json_object *object, const struct connection *connection)
{
	const struct summary summary = connection ? summarize(connection) : (struct summary){ 0 };
	bool measured = summary.seconds > 0;
	bool has_device = connection && connection->device;
	bool checked = connection && connection->protocol.local >= LOCAL_CHECKED;

	add_string(object, "transport", connection ? connection->transport : NULL);
	add_string(object, "device",
		   has_device ? ibv_get_device_name(connection->device->verbs->device) : NULL);
	add_count(object, "bytes", summary.bytes);
	add_count(object, "operations", summary.operations);
	add_number(object, "seconds", summary.seconds, measured);
	add_number(object, "bytes_per_second", summary.bytes_per_second, measured);
	add_number(object, "ops_per_second", summary.operations_per_second, measured);
	add_latency(object, connection ? connection->figures.latency : NULL);
	add_count(object, "received_bytes", checked ? connection->incoming.size : 0);
	json_object_object_add(
		object, "verified",
		json_object_new_boolean(checked && connection->protocol.verifying &&
					connection->protocol.check == STATUS_SUCCESS));
}

void report_json(struct process *process, const struct connection *connection, enum status status)
{
	const char *error = connection ? connection_cause(connection, status) : process->error;
	struct json_object *object;
	int exit_status = (int)status;

	if (!process->options->json)
		return;
	object = json_object_new_object();
	if (status == STATUS_INTERRUPTED) /* as a shell shows it */
		exit_status = 128 + process->signal_number;
	add_string(object, "role", process->role == ROLE_CLIENT ? "client" : "server");
	add_string(object, "operation", operation_name(process->options->operation));
	add_session(object, connection);
	json_object_object_add(object, "status", json_object_new_int(exit_status));
	add_string(object, "error", status == STATUS_SUCCESS ? NULL : error);
	flockfile(stdout);
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_SPACED));
	fflush(stdout);
	funlockfile(stdout);
	json_object_put(object);
}
