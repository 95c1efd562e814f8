/* SPDX-License-Identifier: MIT */
/*
 * Encode and decode messages and hellos.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_WIRE_H
#define RDMA_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Message types. The numbers are on the wire. */
enum message_type {
	MSG_MR = 0,      /* the sender's region: address, length, key, produced bytes */
	MSG_DONE = 1,    /* the sender's operation is complete. Has the digest of its payload. */
	MSG_VERDICT = 2, /* the sender's result: payload verified and stored, or not */
	MSG_WINDOW = 3,  /* progress of both streams at the sender (transfer.h) */
	MESSAGE_TYPES = 4
};

/* Return the name of a message type, for traces. The string is static. */
const char *message_name(enum message_type type);

#define MESSAGE_SIZE 56 /* bytes */

/* A length that is unknown until the source ends. No position or known length has this value. */
#define LENGTH_UNKNOWN UINT64_MAX

/* The fields of a MSG_WINDOW (transfer.h). */
struct window {
	uint64_t received; /* number of MSG_WINDOWs that the sender has received */
	uint64_t produced; /* end of the produced bytes in the sender's outgoing stream */
	uint64_t consumed; /* end of the consumed bytes in the sender's incoming stream */
	uint64_t stored;   /* end of the stored bytes in the sender's incoming stream */
	bool end;          /* `produced` is the end of the stream. Set at most once. */
};

/* A decoded message. Only the fields of its type are valid. */
struct message {
	enum message_type type;
	uint64_t value; /* MR: address of the region. DONE: digest. VERDICT: status. */
	/*
	 * A number of bytes:
	 * - MR: length of the region
	 * - DONE: sent bytes. A stream that repeats counts one pass.
	 * - VERDICT: bytes that the sender's operation carried, in all passes
	 */
	uint64_t length;
	uint64_t produced; /* MR: bytes that may be read already */
	/* VERDICT: counts of the sender's port during the session. */
	bool counted; /* the port counts errors. Otherwise `errors` is 0. */
	uint64_t errors;
	uint64_t missing; /* gaps in the sequence of received packets */
	uint64_t retransmitted;
	uint32_t rkey;        /* MR: key of the region */
	struct window window; /* WINDOW: its fields */
};

/* Encode `message`, little-endian, with zeros in reserved bytes. Cannot fail. */
void encode_message(const struct message *message, uint8_t wire[MESSAGE_SIZE]);

/*
 * Decode a message of `size` bytes. Return false if its size or type is wrong. The caller validates
 * the fields (region_is_usable()).
 */
bool decode_message(const uint8_t *wire, size_t size, struct message *message);

/*
 * Return true if a peer's region has an address, has at least `needed` bytes, and does not wrap
 * around. An empty region is not usable.
 */
bool region_is_usable(const struct message *region, uint64_t needed);

/* Reasons why a server refuses a client. The numbers are on the wire. */
enum refusal {
	REFUSAL_NONE = 0,
	REFUSAL_VERSION = 1,   /* the client speaks another version of the protocol */
	REFUSAL_OPERATION = 2, /* the client reads where the server writes, or the reverse */
	REFUSAL_LENGTH = 3,   /* the client's payload is empty, or longer than the server accepts */
	REFUSAL_SESSIONS = 4, /* the session limit is reached: --max-sessions, --one-off */
	REFUSAL_PASSES = 5,   /* a payload of unknown length would be sent more than once */
	REFUSAL_NO_MODE = 6,  /* neither side has chosen an operation */
	REFUSAL_MEMORY = 7,   /* the server cannot allocate or register memory */
	/* 8 is reserved */
	REFUSAL_SETUP = 9, /* the server could not get a thread or another resource */
};

#define HELLO_SIZE        56 /* bytes. A connect request over InfiniBand carries no more. */
#define HELLO_DEVICE_SIZE 16 /* bytes of the device name, with its terminating zero */
#define HELLO_VERSION     4

/*
 * Private data of the connection manager. In a connect request and its acceptance it describes the
 * sender's side. In a rejection it states the reason. A peer may send any values.
 */
struct hello {
	uint8_t version;
	uint8_t operation; /* enum operation */
	uint16_t flags;    /* HELLO_ONE_WAY and the flags below, or-ed */
	uint8_t refusal;   /* enum refusal. REFUSAL_NONE except in a rejection. */
	uint8_t mtu;       /* enum ibv_mtu of this side's port */
	/*
	 * Bytes of this side's payload. 0 means no payload, or an unknown length. In a rejection it
	 * is the maximum that this side accepts.
	 */
	uint64_t length;
	uint32_t seconds; /* seconds of this side's operation, if `passes` is 0 */
	uint64_t passes;  /* passes of this side's operation. 0 means until `seconds` are over. */
	/* Name of this side's RDMA device, truncated to fit. */
	char device[HELLO_DEVICE_SIZE];
	/*
	 * Above 0 in the hello of a client that runs --check. The server sends a pattern of this
	 * number of bytes, at most MAX_WANTED, and performs the client's operation. The server
	 * stores nothing, and repeats the number in its acceptance.
	 */
	uint32_t wanted;
	uint32_t wanted_seconds; /* seconds of the server's operation. 0 means one pass. */
};

#define MAX_WANTED ((uint32_t)1 << 20)

#define HELLO_ONE_WAY (1 << 0) /* only the client operates, so one side sends no payload */
#define HELLO_PATTERN (1 << 1) /* this side's payload is the pattern of --size */
#define HELLO_UNKNOWN (1 << 2) /* the length of this side's payload is unknown until its end */
/* 1 << 3 to 1 << 7 are reserved. */
/* This side reports errors of both ports, so the peer's MSG_VERDICT must have its port's counts. */
#define HELLO_COUNTS (1 << 8)

/* Kinds of private data from a peer. */
enum hello_kind {
	HELLO_ABSENT,  /* no hello. The tutorial's program sends none (README.md, Licence). */
	HELLO_CURRENT, /* a hello of this version */
	/*
	 * A hello of another version, or a truncated one. Only `version` is decoded. It is 0 if a
	 * truncated hello lacks it.
	 */
	HELLO_OTHER_VERSION,
};

/* Encode `hello`. Cannot fail. */
void encode_hello(const struct hello *hello, uint8_t wire[HELLO_SIZE]);

/*
 * Decode a hello from private data of `size` bytes. NULL and 0 are allowed. Private data that
 * begins with HELLO_MAGIC is a hello.
 *
 * A truncated hello of this version is recognized only over iWARP: InfiniBand and RoCE pad private
 * data with zeros (rdma_get_cm_event(3), PRIVATE DATA), so there the sent size is not known.
 */
enum hello_kind decode_hello(const uint8_t *wire, size_t size, struct hello *hello);

#endif
