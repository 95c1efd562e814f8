// SPDX-License-Identifier: MIT
/*
 * Whatever bytes a peer sends: nothing is read beyond them, what is understood survives encoding
 * and decoding, and nothing reaches the terminal that it would obey.
 */
#include "rdma-common.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* As long as what anybody would want to see; the rest of long inputs shows nothing new. */
#define SHOWN 4096

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__extension__ typedef unsigned __int128 wide_number;

static void require(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
	(void)count;
	(void)arguments;
	require(setlocale(LC_CTYPE, "C.UTF-8"));
	return 0;
}

/* The same question, asked with numbers in which nothing can wrap. */
static bool fits(const struct message *region, uint64_t needed)
{
	wide_number end = region->value;

	end += region->length;
	return region->value != 0 && region->length != 0 && region->length >= needed &&
	       end <= (wide_number)UINT64_MAX + 1;
}

static void try_message(const uint8_t *data, size_t size)
{
	struct message message, again;
	uint8_t wire[MESSAGE_SIZE];

	if (!decode_message(data, size, &message)) {
		require(size != MESSAGE_SIZE || data[0] > MSG_PROGRESS || data[1] || data[2] ||
			data[3]);
		return;
	}
	require(size == MESSAGE_SIZE);
	encode_message(&message, wire);
	require(decode_message(wire, sizeof(wire), &again));
	require(again.type == message.type && again.value == message.value);
	require(!memcmp(wire + 24, data + 24, 8)); /* the value where the peer had it */
	if (message.type == MSG_MR) {
		require(again.length == message.length && again.rkey == message.rkey);
		require(!memcmp(wire + 32, data + 32, 8) && !memcmp(wire + 48, data + 48, 4));
	} else {
		require(again.length == 0 && again.rkey == 0);
	}
	for (uint64_t needed = 1; needed; needed <<= 1)
		require(region_is_usable(&message, needed) == fits(&message, needed));
	require(region_is_usable(&message, message.length) == fits(&message, message.length));
}

static void try_hello(const uint8_t *data, size_t size)
{
	struct options options = { .role = ROLE_SERVER,
				   .operation = OPERATION_WRITE,
				   .maximum_payload = 1 << 20 };
	struct introduction peer = { .greeting = decode_hello(data, size, &peer.hello) };
	const enum greeting greeting = peer.greeting;
	const struct hello hello = peer.hello;
	struct hello again;
	uint8_t wire[HELLO_SIZE];
	enum refusal refusal = hello_refusal(&options, &peer);

	if (greeting == GREETING_NONE) {
		require(refusal == REFUSAL_NONE);
		return;
	}
	require(size >= HELLO_SIZE && !memcmp(data, "RWHO", 4));
	if (greeting == GREETING_VERSION) {
		require(hello.version != HELLO_VERSION && refusal == REFUSAL_VERSION);
		return;
	}
	require(hello.version == HELLO_VERSION);
	encode_hello(&hello, wire);
	require(decode_hello(wire, sizeof(wire), &again) == GREETING_HELLO);
	require(again.operation == hello.operation && again.length == hello.length &&
		again.refusal == hello.refusal && again.flags == hello.flags);
	require((refusal == REFUSAL_NONE) ==
		(hello.operation == OPERATION_WRITE && hello.length != 0 &&
		 hello.length <= options.maximum_payload));
}

static uint8_t hexadecimal(char digit)
{
	const char *digits = "0123456789abcdef", *found = strchr(digits, digit);

	require(digit && found);
	return (uint8_t)(found - digits);
}

/* Checks that what was escaped can be got back: nothing is lost, and nothing can be mistaken. */
static void require_original(const char *text, const uint8_t *data, size_t size)
{
	size_t done = 0;

	while (*text) {
		uint8_t byte = (uint8_t)*text++;

		if (byte == '\\' && *text == '\\') {
			text++;
		} else if (byte == '\\') {
			require(*text++ == 'x');
			byte = (uint8_t)(hexadecimal(text[0]) << 4);
			byte = (uint8_t)(byte | hexadecimal(text[1]));
			text += 2;
		}
		require(done < size && data[done] == byte);
		done++;
	}
	require(done == size);
}

static void try_escape(const uint8_t *data, size_t size)
{
	char *text = escape(data, size);
	mbstate_t state;
	size_t length;

	require(text);
	memset(&state, 0, sizeof(state));
	length = strlen(text);
	for (size_t offset = 0, step; offset < length; offset += step) {
		wchar_t character;

		step = mbrtowc(&character, text + offset, length - offset, &state);
		require(step > 0 && step <= length - offset);
		require(iswprint((wint_t)character) && !iswcntrl((wint_t)character));
	}
	require_original(text, data, size);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_message(data, size);
	try_hello(data, size);
	try_escape(data, size < SHOWN ? size : SHOWN);
	return 0;
}
