/* SPDX-License-Identifier: MIT */
/*
 * What the tests' peers can be made to say wrong, tests/peer between hosts and the fake library's:
 * "FIELD=VALUE" is sent in place of what would be right; +VALUE is added to that.
 */
#ifndef TESTS_PEER_DEVIATION_H
#define TESTS_PEER_DEVIATION_H

#include <stdlib.h>
#include <string.h>

#include "../../rdma-common/wire.h"

#define DEVIATION_FIELD(name, type, member)                  \
	{                                                    \
		name, type, offsetof(struct message, member) \
	}

static const struct deviation_field {
	const char *name;
	enum message_type type;
	size_t offset; /* of a number of 64 bits */
} deviation_fields[] = {
	DEVIATION_FIELD("mr.address", MSG_MR, value),
	DEVIATION_FIELD("mr.ready", MSG_MR, ready),
	DEVIATION_FIELD("done.digest", MSG_DONE, value),
	DEVIATION_FIELD("done.bytes", MSG_DONE, length),
	DEVIATION_FIELD("verdict.status", MSG_VERDICT, value),
	DEVIATION_FIELD("verdict.bytes", MSG_VERDICT, length),
	DEVIATION_FIELD("verdict.errors", MSG_VERDICT, errors),
	DEVIATION_FIELD("window.received", MSG_WINDOW, window.received),
	DEVIATION_FIELD("window.ready", MSG_WINDOW, window.ready),
	DEVIATION_FIELD("window.taken", MSG_WINDOW, window.taken),
};

/* Puts the value in the field that `text` names, if the message has that. */
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
			return true;
		}
	}
	return false;
}

#endif
