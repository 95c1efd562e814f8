// SPDX-License-Identifier: MIT
#include "wire.h"

#include <endian.h>
#include <string.h>

static void put16(uint8_t *wire, uint16_t value)
{
	value = htole16(value);
	memcpy(wire, &value, sizeof(value));
}

static void put32(uint8_t *wire, uint32_t value)
{
	value = htole32(value);
	memcpy(wire, &value, sizeof(value));
}

static void put64(uint8_t *wire, uint64_t value)
{
	value = htole64(value);
	memcpy(wire, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *wire)
{
	uint16_t value;

	memcpy(&value, wire, sizeof(value));
	return le16toh(value);
}

static uint32_t get32(const uint8_t *wire)
{
	uint32_t value;

	memcpy(&value, wire, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const uint8_t *wire)
{
	uint64_t value;

	memcpy(&value, wire, sizeof(value));
	return le64toh(value);
}

/* Offsets of the fields of a message: the tutorial's struct on 64-bit little-endian machines. */
#define MESSAGE_TYPE     0
#define MESSAGE_READY    8
#define MESSAGE_RECEIVED 8
#define MESSAGE_KEPT     16
#define MESSAGE_VALUE    24
#define MESSAGE_LENGTH   32
#define MESSAGE_RKEY     48
#define MESSAGE_END      48

void encode_message(const struct message *message, uint8_t wire[MESSAGE_SIZE])
{
	memset(wire, 0, MESSAGE_SIZE);
	put32(wire + MESSAGE_TYPE, message->type);
	put64(wire + MESSAGE_VALUE, message->value);
	if (message->type != MSG_VERDICT)
		put64(wire + MESSAGE_LENGTH, message->length);
	if (message->type == MSG_MR) {
		put64(wire + MESSAGE_READY, message->ready);
		put32(wire + MESSAGE_RKEY, message->rkey);
	} else if (message->type == MSG_WINDOW) {
		put64(wire + MESSAGE_RECEIVED, message->received);
		put64(wire + MESSAGE_KEPT, message->kept);
		put32(wire + MESSAGE_END, message->end);
	}
}

bool decode_message(const uint8_t *wire, size_t size, struct message *message)
{
	uint32_t type;

	if (size != MESSAGE_SIZE)
		return false;
	type = get32(wire + MESSAGE_TYPE);
	if (type >= MESSAGE_TYPES)
		return false;
	*message = (struct message){
		.type = (enum message_type)type,
		.value = get64(wire + MESSAGE_VALUE),
		.length = get64(wire + MESSAGE_LENGTH),
	};
	if (message->type == MSG_MR) {
		message->ready = get64(wire + MESSAGE_READY);
		message->rkey = get32(wire + MESSAGE_RKEY);
	} else if (message->type == MSG_WINDOW) {
		message->received = get64(wire + MESSAGE_RECEIVED);
		message->kept = get64(wire + MESSAGE_KEPT);
		message->end = get32(wire + MESSAGE_END) != 0;
	}
	return true;
}

bool region_is_usable(const struct message *region, uint64_t needed)
{
	return region->value && region->length >= needed &&
	       region->length - 1 <= UINT64_MAX - region->value;
}

/* Offsets of the fields of a hello. All others are reserved. */
#define HELLO_MAGIC        0x4f485752 /* "RWHO" */
#define HELLO_AT_MAGIC     0
#define HELLO_AT_VERSION   4
#define HELLO_AT_OPERATION 5
#define HELLO_AT_FLAGS     6
#define HELLO_AT_LENGTH    8
#define HELLO_AT_REFUSAL   16
#define HELLO_AT_MTU       17
#define HELLO_AT_LACKING   18
#define HELLO_AT_SECONDS   20
#define HELLO_AT_PASSES    24
#define HELLO_AT_DEVICE    32

void encode_hello(const struct hello *hello, uint8_t wire[HELLO_SIZE])
{
	memset(wire, 0, HELLO_SIZE);
	put32(wire + HELLO_AT_MAGIC, HELLO_MAGIC);
	wire[HELLO_AT_VERSION] = hello->version;
	wire[HELLO_AT_OPERATION] = hello->operation;
	put16(wire + HELLO_AT_FLAGS, hello->flags);
	put64(wire + HELLO_AT_LENGTH, hello->length);
	wire[HELLO_AT_REFUSAL] = hello->refusal;
	wire[HELLO_AT_MTU] = hello->mtu;
	wire[HELLO_AT_LACKING] = hello->lacking;
	put32(wire + HELLO_AT_SECONDS, hello->seconds);
	put64(wire + HELLO_AT_PASSES, hello->passes);
	memcpy(wire + HELLO_AT_DEVICE, hello->device,
	       strnlen(hello->device, HELLO_DEVICE_SIZE - 1));
}

enum greeting decode_hello(const uint8_t *wire, size_t size, struct hello *hello)
{
	memset(hello, 0, sizeof(*hello));
	/* that of another version may be shorter */
	if (!wire || size <= HELLO_AT_VERSION || get32(wire + HELLO_AT_MAGIC) != HELLO_MAGIC)
		return GREETING_NONE;
	hello->version = wire[HELLO_AT_VERSION];
	if (hello->version != HELLO_VERSION)
		return GREETING_VERSION;
	if (size < HELLO_LEAST)
		return GREETING_NONE;
	hello->operation = wire[HELLO_AT_OPERATION];
	hello->flags = get16(wire + HELLO_AT_FLAGS);
	hello->length = get64(wire + HELLO_AT_LENGTH);
	hello->refusal = wire[HELLO_AT_REFUSAL];
	hello->mtu = wire[HELLO_AT_MTU];
	hello->lacking = wire[HELLO_AT_LACKING];
	hello->seconds = get32(wire + HELLO_AT_SECONDS);
	hello->passes = get64(wire + HELLO_AT_PASSES);
	if (size >= HELLO_SIZE) /* what stands for the terminating zero is not copied */
		memcpy(hello->device, wire + HELLO_AT_DEVICE, HELLO_DEVICE_SIZE - 1);
	return GREETING_HELLO;
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
