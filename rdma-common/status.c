// SPDX-License-Identifier: MIT
#include "status.h"

#include <stdio.h>
#include <string.h>

enum status failure_set(struct failure *failure, enum status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	failure->status = status;
	vsnprintf(failure->cause, sizeof(failure->cause), format, arguments);
	va_end(arguments);
	return status;
}

const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

void strbuf_addf(struct strbuf *buf, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buf->text + buf->length, sizeof(buf->text) - buf->length, format, arguments);
	va_end(arguments);
	buf->length += strlen(buf->text + buf->length);
}

struct strbuf rate_describe(double rate)
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s" };
	struct strbuf text = { 0 };
	size_t unit = 0;

	for (; rate >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		rate /= 1000;
	strbuf_addf(&text, "%.4g %s", rate, units[unit]);
	return text;
}

struct ellipsize ellipsize(const char *name)
{
	const size_t half = (ELLIPSIZED_SIZE - sizeof("...")) / 2;
	struct ellipsize result;
	size_t length = strlen(name);

	if (length < sizeof(result.text))
		snprintf(result.text, sizeof(result.text), "%s", name);
	else
		snprintf(result.text, sizeof(result.text), "%.*s...%s", (int)half, name,
			 name + length - half);
	return result;
}

enum status worse_status(enum status one, enum status other)
{
	enum status lower = one < other ? one : other, higher = one < other ? other : one;

	return higher == STATUS_TOO_SLOW && lower != STATUS_SUCCESS ? lower : higher;
}

int failed_verb_error(int result)
{
	if (result == -1 && errno)
		return errno;
	return result < 0 ? -result : result;
}

const char *status_describe(enum status status)
{
	switch (status) {
	case STATUS_REFUSED:
		return "the peer refused; see its messages";
	case STATUS_TIMED_OUT:
		return "no progress during --timeout: check that the peer is running";
	case STATUS_PEER_LOST:
		return "the peer left before the session was complete; see its messages";
	case STATUS_CONTENTS_WRONG:
		return "the contents are wrong: the received bytes differ from the sent ones, or "
		       "the peer violated the protocol; do not trust this network path";
	case STATUS_INTERRUPTED:
		return "interrupted before the session was complete";
	default:
		return "unexpected failure";
	}
}
