/* SPDX-License-Identifier: MIT */
/*
 * The result of a session or a program: a status and its reason.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_STATUS_H
#define RDMA_COMMON_STATUS_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The result of a session, and the exit status of a program (--help). A MSG_VERDICT carries
 * STATUS_SUCCESS, STATUS_LOCAL_FAILURE or STATUS_CONTENTS_WRONG.
 *
 * STATUS_INTERRUPTED is never an exit status: the signal ends an interrupted program. A server
 * without --one-off exits with STATUS_SUCCESS instead.
 */
enum status {
	STATUS_SUCCESS = 0,        /* each payload was delivered and verified */
	STATUS_LOCAL_FAILURE = 1,  /* a failure of this host */
	STATUS_USAGE = 2,          /* the command line is wrong */
	STATUS_UNRESOLVED = 3,     /* no usable RDMA device, address or route */
	STATUS_REFUSED = 4,        /* the peer or its adapter refused */
	STATUS_TIMED_OUT = 5,      /* no progress during --timeout */
	STATUS_PEER_LOST = 6,      /* the peer left in the middle of a session */
	STATUS_CONTENTS_WRONG = 7, /* damaged payload, or a message that violates the protocol */
	/*
	 * Verified, but slower than --min-rate. With --check: something slows this host, or packets
	 * are lost.
	 */
	STATUS_TOO_SLOW = 8,
	STATUS_INTERRUPTED = 9, /* SIGINT, SIGTERM or SIGHUP */
};

/* Size of the text of a reason, with the terminating zero. */
#define CAUSE_SIZE 512

/*
 * A function that can fail for several reasons fills in its caller's struct failure. The caller
 * decides if the session or the program has failed.
 */
struct failure {
	enum status status;     /* STATUS_SUCCESS if nothing failed */
	char cause[CAUSE_SIZE]; /* the attempt, its object, the reason, and advice */
};

/* A text built from parts, and cut off if it is too long. */
struct strbuf {
	char text[1024];
	size_t length;
};

/* Return the ending of the noun for `count` things: "" for one, else "s". The string is static. */
const char *plural(uint64_t count);

/* Append formatted text (printf(3)). */
void strbuf_addf(struct strbuf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Describe a rate in the unit that suits it, as in "355 Mbit/s". */
struct strbuf rate_describe(double bits_per_second);

/* Fill in `failure` with formatted text (printf(3)). Return `status`. */
enum status failure_set(struct failure *failure, enum status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A user's text, such as a file's name, for a message. The middle of a long text is omitted, so
 * that the reason and the advice have room.
 */
#define ELLIPSIZED_SIZE 128
struct ellipsize {
	char text[ELLIPSIZED_SIZE];
};
struct ellipsize ellipsize(const char *name);

/*
 * Return the status of two sessions together. The higher number wins, except that any other failure
 * outranks STATUS_TOO_SLOW.
 */
enum status worse_status(enum status one, enum status other);

/*
 * Call a verb, and return its errno value, or 0, as in verb_error(ibv_destroy_cq(cq)). A failed
 * ibv_post_send(3) returns an errno value. But libcxgb4 and libsiw negate some of these values, and
 * libsiw also returns -1 with errno.
 */
#define verb_error(call) (errno = 0, verb_result_error(call))
/*
 * Return the errno value for a verb's nonzero result. errno must be 0 before the verb is called. A
 * result of -1 without errno becomes EPERM.
 */
int failed_verb_error(int result);
static inline int verb_result_error(int result)
{
	return result == 0 ? 0 : failed_verb_error(result);
}

/* Return the text for a status without a recorded reason. The string is static. */
const char *status_describe(enum status status);

#endif
