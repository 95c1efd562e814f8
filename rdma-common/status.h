/* SPDX-License-Identifier: MIT */
/*
 * The end of a session or a program: a status, and the reason in words.
 */
#ifndef RDMA_COMMON_STATUS_H
#define RDMA_COMMON_STATUS_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

/*
 * The outcome of a session, and the exit status of a program. The numbers are documented in --help;
 * a MSG_VERDICT carries three of them. STATUS_INTERRUPTED never is an exit status: main() ends by
 * the signal instead, or, as a server without --one-off, with STATUS_SUCCESS.
 */
enum status {
	STATUS_SUCCESS = 0,        /* both directions delivered and verified */
	STATUS_LOCAL_FAILURE = 1,  /* something failed on this host that should not */
	STATUS_USAGE = 2,          /* the command line is wrong */
	STATUS_UNRESOLVED = 3,     /* no usable RDMA device, address or route */
	STATUS_REFUSED = 4,        /* the peer or its adapter refused */
	STATUS_TIMED_OUT = 5,      /* nothing happened for longer than --timeout */
	STATUS_PEER_LOST = 6,      /* the peer went away in the middle of a session */
	STATUS_CONTENTS_WRONG = 7, /* payload damaged, or messages that break the protocol */
	STATUS_TOO_SLOW = 8,       /* delivered and verified, but slower than --min-rate; of
				      --check: this host is, than its hardware */
	STATUS_INTERRUPTED = 9,    /* SIGINT, SIGTERM or SIGHUP */
};

/* Bytes for a reason in words, the terminating zero included. */
#define CAUSE_SIZE 512

/*
 * The reason for a failure. Functions that fail for more than one reason take one from their caller
 * and fill it in; the caller decides whom it concerns: one session, or the program.
 */
struct failure {
	enum status status;     /* STATUS_SUCCESS: nothing failed */
	char cause[CAUSE_SIZE]; /* what was attempted, on what, why it failed, what to do */
};

/* A text that is put together of several parts; what does not fit is cut off. */
struct words {
	char text[1024];
	size_t length;
};

/* Adds to it as printf(3) does. */
void append(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills in `failure` as printf(3) does, and returns `status`. */
enum status failure_set(struct failure *failure, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A name for a message, of a file, a host or whatever a user has typed. A long one loses its
 * middle: the reason and the advice behind it must have room.
 */
#define SHORT_NAME 128
struct short_name {
	char text[SHORT_NAME];
};
struct short_name short_name(const char *name);

/*
 * Of two sessions' outcomes the one that counts for both: an interruption, else the failure with
 * the higher number, but what is only too slow behind all that went wrong.
 */
enum status worse_status(enum status one, enum status other);

/*
 * The errno value of a verb that returns one, 0 if it succeeds: verb_error(ibv_destroy_cq(cq)).
 * ibv_post_send(3) promises a positive value, but libcxgb4 and libsiw return some of theirs
 * negated, and libsiw also returns -1 with errno. Any thread.
 */
#define verb_error(call) (errno = 0, verb_result_error(call))
/* The same for a result, where errno was 0 before the call. -1 without errno is EPERM. */
int verb_result_error(int result);

/* The text for a status when no particular reason was recorded. The string is static. */
const char *status_in_words(enum status status);

#endif
