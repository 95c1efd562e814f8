// SPDX-License-Identifier: MIT
#include "json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

/* ---- Objects ---- */

/*
 * Return true if the text is printable ASCII. Such a text needs no escaped copy, so it is not lost
 * if the memory for a copy runs out.
 */
static bool is_plain(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

/*
 * Escape bytes that are not UTF-8, as JSON requires (RFC 8259): a file name may have some, and a
 * message may be cut off inside a character.
 */
void json_add_text(struct json_object *object, const char *key, const char *value)
{
	char *text = NULL;

	if (value && !is_plain(value)) {
		text = escape_in("C.UTF-8", false, (const uint8_t *)value, strlen(value));
		value = text;
	}
	json_object_object_add(object, key, value ? json_object_new_string(value) : NULL);
	free(text);
}

void json_add_count(struct json_object *object, const char *key, uint64_t number)
{
	json_object_object_add(object, key, json_object_new_uint64(number));
}

void json_add_flag(struct json_object *object, const char *key, bool flag)
{
	json_object_object_add(object, key, json_object_new_boolean(flag));
}

void json_add_known(struct json_object *object, const char *key, uint64_t number)
{
	json_object_object_add(object, key, number ? json_object_new_uint64(number) : NULL);
}

void json_add_number(struct json_object *object, const char *key, double number, bool measured)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", number); /* no measurement is more precise */
	json_object_object_add(object, key,
			       measured ? json_object_new_double_s(number, text) : NULL);
}

void json_add_counters(struct json_object *object, const struct counters *growth)
{
	struct json_object *errors = growth->any ? json_object_new_object() : NULL;
	struct json_object *waits = growth->any ? json_object_new_object() : NULL;

	for (unsigned int i = 0; growth->any && i < COUNTERS; i++) {
		if (growth->values[i] > 0)
			json_add_known(i < ERROR_COUNTERS ? errors : waits, counter_name(i),
				       growth->values[i]);
	}
	json_object_object_add(object, "error_counters", errors);
	json_object_object_add(object, "congestion_counters", waits);
}

void json_add_peer_errors(struct json_object *object, bool counted, uint64_t errors)
{
	json_object_object_add(object, "peer_error_count",
			       counted ? json_object_new_uint64(errors) : NULL);
}

void json_add_peer(struct json_object *object, const char *address, const char *port)
{
	json_add_text(object, "peer", address);
	json_add_known(object, "peer_port", port ? strtoul(port, NULL, 10) : 0);
}

struct json_object *json_begin(const char *kind)
{
	struct json_object *object = json_object_new_object();
	char seconds[32], milliseconds[48], host[HOST_NAME_MAX + 1] = "";
	struct timespec now;
	struct tm parts;

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(seconds, sizeof(seconds), "%FT%T", gmtime_r(&now.tv_sec, &parts));
	snprintf(milliseconds, sizeof(milliseconds), "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
	gethostname(host, sizeof(host) - 1);
	json_add_text(object, "kind", kind);
	json_add_count(object, "schema", JSON_SCHEMA);
	json_add_text(object, "version", program_version);
	json_add_text(object, "time", milliseconds);
	json_add_text(object, "host", host);
	return object;
}

const char *json_line(struct json_object *object)
{
	return json_object_to_json_string_ext(object, JSON_C_TO_STRING_SPACED |
							      JSON_C_TO_STRING_NOSLASHESCAPE);
}

void print_json(struct console *console, struct json_object *object)
{
	print_result(console, "%s", json_line(object));
	json_object_put(object);
}

void json_add_status(struct json_object *object, enum status status, int signal_number)
{
	bool interrupted = status == STATUS_INTERRUPTED;

	json_add_count(object, "status",
		       (uint64_t)(interrupted ? 128 + signal_number : (int)status));
}

/* ---- Intervals ---- */

void print_interval(const struct log *log, const struct interval *interval)
{
	double rate = (double)interval->bytes / (interval->end - interval->begin);
	const struct options *options = log->options;
	struct json_object *object;
	const struct strbuf grown = counters_describe(&interval->growth);

	print_status(log, "%.3f to %.3f s: %" PRIu64 " byte%s, %.2f MB/s (%.3f Gbit/s)%s%s",
		     interval->begin, interval->end, interval->bytes, plural(interval->bytes),
		     rate / 1e6, rate * 8 / 1e9,
		     grown.length > 0 ? ", counted in this interval: " : "", grown.text);
	if (!options->json)
		return;
	object = json_begin("interval");
	json_add_text(object, "role", role_name(options->role));
	json_add_known(object, "session", interval->session);
	json_add_number(object, "begin", interval->begin, true);
	json_add_number(object, "end", interval->end, true);
	json_add_count(object, "bytes", interval->bytes);
	json_add_number(object, "bytes_per_second", rate, true);
	json_add_number(object, "bits_per_second", rate * 8, true);
	json_add_counters(object, &interval->growth);
	print_json(log->console, object);
}
