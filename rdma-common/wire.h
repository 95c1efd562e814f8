/* SPDX-License-Identifier: MIT */
/*
 * The messages and the hello, encoded and decoded.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_WIRE_H
#define RDMA_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of messages. The numbers are on the wire. */
enum message_type {
	MSG_MR = 0,       /* address, length and rkey of the sender's region */
	MSG_DONE = 1,     /* the sender's operation is done; the digest of its outgoing payload */
	MSG_VERDICT = 2,  /* whether the sender's incoming payload fits the digest, and is stored */
	MSG_WINDOW = 3,   /* how far the sender's ends of both streams are (transfer.h) */
	MESSAGE_TYPES = 4 /* how many there are */
};

/* The name of a type, for traces. The string is static. */
const char *message_name(enum message_type type);

#define MESSAGE_SIZE 56 /* bytes */

/*
 * A length that only the source knows, and only at its end. No position, nor length, is this
 * number.
 */
#define LENGTH_UNKNOWN UINT64_MAX

/* The numbers in a MSG_WINDOW: positions (transfer.h). */
struct window {
	uint64_t received; /* MSG_WINDOWs that its sender has received */
	uint64_t produced; /* of its sender's outgoing stream */
	uint64_t consumed; /* of its sender's incoming stream */
	uint64_t stored;
	bool end; /* `ready` is the end; said once */
};

/* One message, decoded. Only what its type uses has a meaning. */
struct message {
	enum message_type type;
	uint64_t value;    /* MR: address; DONE: digest; VERDICT: status */
	uint64_t length;   /* bytes. MR: in the region; DONE: sent, of one pass if they repeat;
			      VERDICT: that the sender's operation carried, each time counted */
	uint64_t produced; /* MR: bytes that may be read */
	uint64_t errors;   /* VERDICT: that the sender's port has counted, and 1; 0: not counted */
	uint32_t rkey;     /* MR */
	struct window window; /* WINDOW: alone */
};

/* Writes `message` in its wire form, little-endian, reserved bytes zero. Cannot fail. */
void encode_message(const struct message *message, uint8_t wire[MESSAGE_SIZE]);

/*
 * Reads a message of `size` bytes. False if it is too short, too long or of an unknown type; the
 * contents of its fields are for the caller to judge (see region_is_usable()).
 */
bool decode_message(const uint8_t *wire, size_t size, struct message *message);

/* True if a region that a peer announced has `needed` bytes at an address that does not wrap. */
bool region_is_usable(const struct message *region, uint64_t needed);

/* Reasons for which a server refuses a client. The numbers are on the wire. */
enum refusal {
	REFUSAL_NONE = 0,
	REFUSAL_VERSION = 1,   /* the client speaks another version of this protocol */
	REFUSAL_OPERATION = 2, /* the client reads where the server writes, or the reverse */
	REFUSAL_LENGTH = 3,    /* the client's payload is empty or larger than the server accepts */
	REFUSAL_SESSIONS = 4,  /* the server takes no more at a time: --max-sessions, --one-off */
	REFUSAL_PASSES = 5,    /* one side is to send again and again what has no length */
	REFUSAL_NO_MODE = 6,   /* neither server nor client says which operation it is */
	REFUSAL_MEMORY = 7,    /* the server has none to allocate, or to register */
	REFUSAL_STORAGE = 8,   /* the server cannot store what the client would send */
	REFUSAL_SETUP = 9, /* the server lacks threads, open files, or another need of a session */
};

#define HELLO_SIZE        48 /* bytes; a connect request over InfiniBand carries up to 56 */
#define HELLO_DEVICE_SIZE 16 /* bytes of that name, the terminating zero included */
#define HELLO_VERSION     3

/*
 * The connection manager's private data: in the connect request and its acceptance what either side
 * is about to do, in a rejection the reason.
 */
struct hello {
	uint8_t version;
	uint8_t operation; /* enum operation, but a peer may send any number */
	uint16_t flags;    /* HELLO_ONE_WAY and those below, or-ed */
	uint8_t refusal;   /* enum refusal; REFUSAL_NONE unless in a rejection */
	uint8_t mtu;       /* of this side's port: enum ibv_mtu, but a peer may send any number */
	uint64_t length;   /* bytes of payload that this side sends; rejection: its limit */
	uint32_t seconds;  /* for how long, if `passes` is 0 */
	uint64_t passes;   /* how often this side performs its operation; 0: until a time is up */
	/* Of this side's RDMA device, as much of the name as fits; a peer may send any bytes. */
	char device[HELLO_DEVICE_SIZE];
};

#define HELLO_ONE_WAY    (1 << 0) /* the client alone operates, so one side sends no payload */
#define HELLO_PATTERN    (1 << 1) /* the payload of this side is the pattern of --size */
#define HELLO_UNKNOWN    (1 << 2) /* the payload of this side has a length that its end tells */
#define HELLO_VERIFY_ALL (1 << 3) /* every pass of this side's operation is verified */
/*
 * The client examines the path: the server sends a pattern as long as the client's payload in place
 * of its own, performs its operation once, and stores nothing. It says so in its acceptance.
 */
#define HELLO_CHECK       (1 << 4)
#define HELLO_CHECK_SHORT (1 << 5) /* with that: a pattern of one byte */
/* 1 << 6 is reserved. */
/* The server performs whichever operation a client asks for. */
#define HELLO_ANY_OPERATION (1 << 7)
/* This side reports the errors that ports count: the peer counts its own, and tells how many. */
#define HELLO_COUNTS (1 << 8)
/* With HELLO_CHECK: the client measures, so the server performs the client's operation. */
#define HELLO_CHECK_RATE (1 << 9)
/*
 * With both: the server sends a pattern of BACK_SIZE bytes, and repeats its operation for the
 * seconds that the client's hello has.
 */
#define HELLO_CHECK_BACK (1 << 10)
#define BACK_SIZE        65536

/* Kinds of private data that a peer may send. */
enum hello_kind {
	HELLO_ABSENT,  /* no hello: a program that follows the well-known tutorial */
	HELLO_CURRENT, /* a hello of our version */
	/* A hello of another version, or a short one: only `version` is decoded, 0 if it is cut
	 * off. */
	HELLO_OTHER_VERSION,
};

/* Writes `hello` in its wire form. Cannot fail. */
void encode_hello(const struct hello *hello, uint8_t wire[HELLO_SIZE]);

/*
 * Reads a hello out of private data of `size` bytes, NULL and 0 allowed. Private data that begins
 * with the magic is a hello, and is never taken for the tutorial's program. InfiniBand and RoCE pad
 * private data with zeros, iWARP does not, so nothing may be concluded from `size` beyond
 * "enough" (rdma_get_cm_event(3), PRIVATE DATA). So a short hello with the right version is
 * recognized over iWARP alone.
 */
enum hello_kind decode_hello(const uint8_t *wire, size_t size, struct hello *hello);

#endif
