/* SPDX-License-Identifier: MIT */
/*
 * The wrong values that a test's peer can send (tests/peer, and the peer in the fake library).
 * "FIELD=VALUE" replaces the correct value; "FIELD=+VALUE" adds to it.
 */
#ifndef TESTS_PEER_DEVIATION_H
#define TESTS_PEER_DEVIATION_H

#include <stdlib.h>
#include <string.h>

#include "../../rdma-common/wire.h"

static const struct deviation_field {
	const char *name;
	enum message_type type;
	size_t offset; /* offset of the field, which has 64 bits */
} deviation_fields[] = {
	{ "mr.address", MSG_MR, offsetof(struct message, value) },
	{ "mr.length", MSG_MR, offsetof(struct message, length) },
	{ "mr.produced", MSG_MR, offsetof(struct message, produced) },
	{ "done.digest", MSG_DONE, offsetof(struct message, value) },
	{ "done.bytes", MSG_DONE, offsetof(struct message, length) },
	{ "verdict.status", MSG_VERDICT, offsetof(struct message, value) },
	{ "verdict.bytes", MSG_VERDICT, offsetof(struct message, length) },
	{ "verdict.errors", MSG_VERDICT, offsetof(struct message, errors) },
	{ "verdict.missing", MSG_VERDICT, offsetof(struct message, missing) },
	{ "verdict.retransmitted", MSG_VERDICT, offsetof(struct message, retransmitted) },
	{ "window.received", MSG_WINDOW, offsetof(struct message, window.received) },
	{ "window.produced", MSG_WINDOW, offsetof(struct message, window.produced) },
	{ "window.consumed", MSG_WINDOW, offsetof(struct message, window.consumed) },
};

/* Change the field of "FIELD=VALUE" in a message. Return false if this message lacks the field. */
static inline bool deviate(struct message *message, const char *text)
{
	size_t length = strcspn(text, "=");
	const char *value = text + length + (text[length] == '=');
	uint64_t number = strtoull(value, NULL, 0);

	if (message->type == MSG_MR && !strncmp(text, "mr.rkey=", length + 1)) {
		message->rkey = (uint32_t)(number + (*value == '+' ? message->rkey : 0));
		return true;
	}
	for (size_t i = 0; i < sizeof(deviation_fields) / sizeof(deviation_fields[0]); i++) {
		const struct deviation_field *field = &deviation_fields[i];
		uint64_t *place = (uint64_t *)((uint8_t *)message + field->offset);

		if (message->type == field->type && !strncmp(field->name, text, length) &&
		    !field->name[length]) {
			*place = number + (*value == '+' ? *place : 0);
			if (place == &message->errors)
				message->counted = true;
			return true;
		}
	}
	return false;
}

#endif
