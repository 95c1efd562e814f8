// SPDX-License-Identifier: MIT
/*
 * Decode any bytes that a peer may send: no byte beyond them is read, decoded values survive
 * encoding and decoding, and no control character reaches the terminal.
 */
#include "rdma-common.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* Maximum number of bytes to escape: longer inputs find nothing new. */
#define SHOWN 4096

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
	(void)count;
	(void)arguments;
	require(!setenv("LC_ALL", "C.UTF-8", 1) && setlocale(LC_CTYPE, ""));
	return 0;
}

static void try_message(const uint8_t *data, size_t size)
{
	struct message message, again;
	uint8_t wire[MESSAGE_SIZE], wire_again[MESSAGE_SIZE];

	if (!decode_message(data, size, &message)) {
		require(size != MESSAGE_SIZE || data[0] > MSG_WINDOW || data[1] || data[2] ||
			data[3]);
		return;
	}
	require(size == MESSAGE_SIZE);
	encode_message(&message, wire);
	/*
	 * encoding keeps a byte, or sets a reserved byte to 0 or a flag to 1; wire-test checks the
	 * offsets
	 */
	for (size_t i = 0; i < MESSAGE_SIZE; i++)
		require(wire[i] == data[i] || wire[i] == 0 || (wire[i] == 1 && message.window.end));
	require(decode_message(wire, sizeof(wire), &again));
	encode_message(&again, wire_again);
	require(!memcmp(wire_again, wire, sizeof(wire)));
}

static void try_hello(const uint8_t *data, size_t size)
{
	struct hello hello, again;
	uint8_t wire[HELLO_SIZE], wire_again[HELLO_SIZE];
	enum hello_kind hello_kind = decode_hello(data, size, &hello);

	if (hello_kind == HELLO_ABSENT) {
		require(size < 4 || memcmp(data, "RWHO", 4) != 0);
		return;
	}
	require(size >= 4 && !memcmp(data, "RWHO", 4));
	require(hello.version == (size > 4 ? data[4] : 0));
	if (hello_kind == HELLO_OTHER_VERSION) {
		require(hello.version != HELLO_VERSION || size < HELLO_SIZE);
		return;
	}
	require(hello.version == HELLO_VERSION && size >= HELLO_SIZE);
	encode_hello(&hello, wire);
	require(!memcmp(wire, data, 18) && !memcmp(wire + 24, data + 24, 8) &&
		!memcmp(wire + 48, data + 48, 8));
	require(decode_hello(wire, sizeof(wire), &again) == HELLO_CURRENT);
	encode_hello(&again, wire_again);
	require(!memcmp(wire_again, wire, sizeof(wire)));
}

static uint8_t hexadecimal(char digit)
{
	const char *digits = "0123456789abcdef", *found = strchr(digits, digit);

	require(digit && found);
	return (uint8_t)(found - digits);
}

/* Undo the escapes in `text`, and require that the result is `data`. */
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
