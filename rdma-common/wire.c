// SPDX-License-Identifier: MIT
#include "wire.h"

#include <endian.h>
#include <string.h>

/* Write the lower `size` bytes of a number, little-endian. */
static void put(uint8_t *wire, uint64_t value, size_t size)
{
	value = htole64(value);
	memcpy(wire, &value, size);
}

/* Read a number of `size` bytes, little-endian. */
static uint64_t get(const uint8_t *wire, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, wire, size);
	return le64toh(value);
}

/*
 * Offsets of the fields of a message. The tutorial's struct has type, address, length and key at
 * the same offsets on 64-bit little-endian machines.
 */
#define MESSAGE_TYPE     0
#define MESSAGE_PRODUCED 8
#define MESSAGE_VALUE    24
#define MESSAGE_LENGTH   32
#define MESSAGE_RKEY     48
#define VERDICT_ERRORS   8 /* 1 + the number of errors. 0 means that they are not counted. */
#define VERDICT_MISSING  16
#define VERDICT_RESENT   40
#define WINDOW_RECEIVED  8
#define WINDOW_STORED    16
#define WINDOW_PRODUCED  24
#define WINDOW_CONSUMED  32
#define WINDOW_END       48

void encode_message(const struct message *message, uint8_t wire[MESSAGE_SIZE])
{
	const struct window *window = &message->window;

	memset(wire, 0, MESSAGE_SIZE);
	put(wire + MESSAGE_TYPE, message->type, 4);
	if (message->type == MSG_WINDOW) {
		put(wire + WINDOW_RECEIVED, window->received, 8);
		put(wire + WINDOW_STORED, window->stored, 8);
		put(wire + WINDOW_PRODUCED, window->produced, 8);
		put(wire + WINDOW_CONSUMED, window->consumed, 8);
		put(wire + WINDOW_END, window->end, 4);
		return;
	}
	put(wire + MESSAGE_VALUE, message->value, 8);
	put(wire + MESSAGE_LENGTH, message->length, 8);
	if (message->type == MSG_MR) {
		put(wire + MESSAGE_PRODUCED, message->produced, 8);
		put(wire + MESSAGE_RKEY, message->rkey, 4);
	} else if (message->type == MSG_VERDICT) {
		put(wire + VERDICT_ERRORS, message->counted ? message->errors + 1 : 0, 8);
		put(wire + VERDICT_MISSING, message->missing, 8);
		put(wire + VERDICT_RESENT, message->retransmitted, 8);
	}
}

bool decode_message(const uint8_t *wire, size_t size, struct message *message)
{
	uint64_t type;

	if (size != MESSAGE_SIZE)
		return false;
	type = get(wire + MESSAGE_TYPE, 4);
	if (type >= MESSAGE_TYPES)
		return false;
	*message = (struct message){ .type = (enum message_type)type };
	if (message->type == MSG_WINDOW) {
		message->window = (struct window){ .received = get(wire + WINDOW_RECEIVED, 8),
						   .stored = get(wire + WINDOW_STORED, 8),
						   .produced = get(wire + WINDOW_PRODUCED, 8),
						   .consumed = get(wire + WINDOW_CONSUMED, 8),
						   .end = get(wire + WINDOW_END, 4) != 0 };
		return true;
	}
	message->value = get(wire + MESSAGE_VALUE, 8);
	message->length = get(wire + MESSAGE_LENGTH, 8);
	if (message->type == MSG_MR) {
		message->produced = get(wire + MESSAGE_PRODUCED, 8);
		message->rkey = (uint32_t)get(wire + MESSAGE_RKEY, 4);
	} else if (message->type == MSG_VERDICT) {
		message->errors = get(wire + VERDICT_ERRORS, 8);
		message->counted = message->errors > 0;
		if (message->counted)
			message->errors--;
		message->missing = get(wire + VERDICT_MISSING, 8);
		message->retransmitted = get(wire + VERDICT_RESENT, 8);
	}
	return true;
}

bool region_is_usable(const struct message *region, uint64_t needed)
{
	return region->value && region->length >= needed &&
	       region->length - 1 <= UINT64_MAX - region->value;
}

/* Offsets of the fields of a hello. All other bytes are reserved. */
#define HELLO_MAGIC             0x4f485752 /* "RWHO" */
#define HELLO_AT_MAGIC          0
#define HELLO_AT_VERSION        4
#define HELLO_AT_OPERATION      5
#define HELLO_AT_FLAGS          6
#define HELLO_AT_LENGTH         8
#define HELLO_AT_REFUSAL        16
#define HELLO_AT_MTU            17
#define HELLO_AT_SECONDS        20
#define HELLO_AT_PASSES         24
#define HELLO_AT_DEVICE         32
#define HELLO_AT_WANTED         48
#define HELLO_AT_WANTED_SECONDS 52

void encode_hello(const struct hello *hello, uint8_t wire[HELLO_SIZE])
{
	memset(wire, 0, HELLO_SIZE);
	put(wire + HELLO_AT_MAGIC, HELLO_MAGIC, 4);
	wire[HELLO_AT_VERSION] = hello->version;
	wire[HELLO_AT_OPERATION] = hello->operation;
	put(wire + HELLO_AT_FLAGS, hello->flags, 2);
	put(wire + HELLO_AT_LENGTH, hello->length, 8);
	wire[HELLO_AT_REFUSAL] = hello->refusal;
	wire[HELLO_AT_MTU] = hello->mtu;
	put(wire + HELLO_AT_SECONDS, hello->seconds, 4);
	put(wire + HELLO_AT_PASSES, hello->passes, 8);
	memcpy(wire + HELLO_AT_DEVICE, hello->device,
	       strnlen(hello->device, HELLO_DEVICE_SIZE - 1));
	put(wire + HELLO_AT_WANTED, hello->wanted, 4);
	put(wire + HELLO_AT_WANTED_SECONDS, hello->wanted_seconds, 4);
}

enum hello_kind decode_hello(const uint8_t *wire, size_t size, struct hello *hello)
{
	memset(hello, 0, sizeof(*hello));
	if (!wire || size < HELLO_AT_VERSION || get(wire + HELLO_AT_MAGIC, 4) != HELLO_MAGIC)
		return HELLO_ABSENT;
	if (size > HELLO_AT_VERSION)
		hello->version = wire[HELLO_AT_VERSION];
	if (hello->version != HELLO_VERSION || size < HELLO_SIZE)
		return HELLO_OTHER_VERSION;
	hello->operation = wire[HELLO_AT_OPERATION];
	hello->flags = (uint16_t)get(wire + HELLO_AT_FLAGS, 2);
	hello->length = get(wire + HELLO_AT_LENGTH, 8);
	hello->refusal = wire[HELLO_AT_REFUSAL];
	hello->mtu = wire[HELLO_AT_MTU];
	hello->seconds = (uint32_t)get(wire + HELLO_AT_SECONDS, 4);
	hello->passes = get(wire + HELLO_AT_PASSES, 8);
	/* the last byte stays zero and ends the string */
	memcpy(hello->device, wire + HELLO_AT_DEVICE, HELLO_DEVICE_SIZE - 1);
	hello->wanted = (uint32_t)get(wire + HELLO_AT_WANTED, 4);
	hello->wanted_seconds = (uint32_t)get(wire + HELLO_AT_WANTED_SECONDS, 4);
	return HELLO_CURRENT;
}

const char *message_name(enum message_type type)
{
	static const char *const names[MESSAGE_TYPES] = {
		[MSG_MR] = "MSG_MR",
		[MSG_DONE] = "MSG_DONE",
		[MSG_VERDICT] = "MSG_VERDICT",
		[MSG_WINDOW] = "MSG_WINDOW",
	};

	return type < MESSAGE_TYPES ? names[type] : "MSG_?";
}
