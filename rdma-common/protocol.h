/* SPDX-License-Identifier: MIT */
/*
 * The state machine of a session: its states, its events and the actions that they lead to. Pure:
 * no verbs, no clock, no input or output, no memory. rdma-common.c drives it.
 *
 * Threads: the connection's thread; the main thread before that one starts and after it has ended.
 */
#ifndef RDMA_COMMON_PROTOCOL_H
#define RDMA_COMMON_PROTOCOL_H

#include <stdbool.h>

#include "options.h"
#include "status.h"

enum phase {
	PHASE_CONNECTING, /* not connected yet */
	PHASE_EXCHANGING, /* connected; messages and operations flow */
	PHASE_CLOSING,    /* nothing is posted any more; what was posted completes or is flushed */
	PHASE_FINISHED,   /* `status` is final; the connection may be destroyed */
};

/* Progress of this side's work requests. They complete in this order on one send queue. */
enum local_stage {
	LOCAL_IDLE,
	LOCAL_MR_POSTED,
	LOCAL_MR_SENT,
	LOCAL_OPERATION_POSTED,
	LOCAL_DONE_POSTED,
	LOCAL_DONE_SENT,
	LOCAL_VERIFYING, /* the incoming payload is being verified, and stored: EVENT_VERIFIED */
	LOCAL_VERIFIED,  /* the incoming payload has been compared with the digest */
	LOCAL_VERDICT_POSTED,
	LOCAL_VERDICT_SENT,
};

/*
 * The last of these messages that the peer sent. It sends each once, in this order; but one that
 * gives up sends a bad verdict ahead of its turn, and nothing more.
 */
enum remote_stage {
	REMOTE_SILENT,
	REMOTE_MR,
	REMOTE_DONE,
	REMOTE_VERDICT,
	REMOTE_GAVE_UP,
};

/* The state of a session. Initialise with protocol_start(). */
struct protocol {
	enum role role;
	enum operation operation;
	bool verifying; /* the peer has a hello: digests and verdicts are exchanged */
	bool operates; /* this side performs the operation; not a server in a one-way session, whose
			  operation is nothing */
	enum phase phase;
	enum local_stage local;
	enum remote_stage remote;
	bool done_posted;    /* MSG_DONE is */
	bool gave_up;        /* the payload of either direction cannot be had, or be kept */
	bool connected;      /* a connection stood, so DISCONNECTED will be reported */
	bool disconnected;   /* it was */
	bool drained;        /* closing, and no posted work request is outstanding */
	bool overdue;        /* closing, and the deadline passed once */
	bool post_failed;    /* a send was refused, or no receive is left; not explained yet */
	enum status check;   /* what this side found in the incoming payload, or why it gave up */
	enum status verdict; /* what the peer found in the outgoing payload, once received */
	enum status status;  /* why the session closes; final once finished */
};

enum event_type {
	EVENT_ESTABLISHED,
	EVENT_MR_RECEIVED,
	EVENT_DONE_RECEIVED,
	EVENT_VERDICT_RECEIVED, /* status: what the peer found */
	EVENT_PEER_GAVE_UP,     /* status: its bad verdict, ahead of its MSG_DONE or this side's */
	EVENT_MR_SENT,
	EVENT_DONE_DUE, /* operation_runs(), and transfer_done_due() */
	EVENT_DONE_SENT,
	EVENT_VERDICT_SENT,
	EVENT_VERIFIED, /* LOCAL_VERIFYING is over; status: what was found */
	EVENT_GAVE_UP,  /* status: the outgoing payload cannot be read, or the incoming one kept */
	EVENT_FAILED,   /* status: the reason; a completion or the connection failed */
	EVENT_SEND_REFUSED,    /* a work request could not be posted into the send queue */
	EVENT_RECEIVE_REFUSED, /* no receive is left: posting them again was refused */
	EVENT_FLUSHED,         /* a work request was flushed: the connection goes down */
	EVENT_DISCONNECTED,
	EVENT_DRAINED, /* no posted work request is outstanding, and none will follow */
	EVENT_DEADLINE,
	EVENT_INTERRUPTED,
	EVENT_TYPES /* how many there are */
};

struct event {
	enum event_type type;
	enum status status;
};

/* Actions for the caller, in this order. Bits of a set. */
enum action {
	ACTION_SEND_MR = 1 << 0,
	ACTION_POST_OPERATION = 1 << 1,
	ACTION_SEND_DONE = 1 << 2,
	ACTION_SEND_VERDICT = 1 << 3,
	ACTION_DISCONNECT = 1 << 4,
	ACTION_FORCE_ERROR = 1 << 5, /* force the queue pair into the error state */
};

struct step {
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed */
};

/*
 * The state in which a session begins. `verifying` is false and `operates` is true; where that is
 * not so they are set before the connection is established.
 */
struct protocol protocol_start(enum role role, enum operation operation);

/*
 * The whole protocol: the state after `event`, and what to do now. Every event is allowed in every
 * state; one that the peer should not have caused ends the session with STATUS_CONTENTS_WRONG.
 */
struct step protocol_step(struct protocol protocol, struct event event);

/*
 * True if `status` is why the session closes: the first reason counts. But a peer that is lost may
 * have broken the protocol before it went, and the completion that shows it comes only now. And
 * while a refused post has no explanation, any reason explains it.
 */
bool counts_as_reason(const struct protocol *protocol, enum status status);

/*
 * Return true while requests of this side's operation may be posted: from both MSG_MR until this
 * side's MSG_DONE. The caller then asks transfer_done_due(), and feeds EVENT_DONE_DUE.
 */
bool operation_runs(const struct protocol *protocol);

/* Names for traces and tests. The strings are static. */
const char *event_name(enum event_type type);
const char *phase_name(enum phase phase);
const char *local_stage_name(enum local_stage local);
const char *remote_stage_name(enum remote_stage remote);

/*
 * True while this side may send MSG_WINDOW: from its MSG_MR until both verdicts are there. Behind
 * its own it only confirms, so that a peer that stores slowly does not run out of credits.
 */
bool window_may_be_sent(const struct protocol *protocol);

/* True while a MSG_WINDOW of the peer is in turn: from its MSG_MR on, unless it gave up. */
bool window_may_come(const struct protocol *protocol);

/* True if all of the incoming payload is here, and was compared with the digest if there is one. */
bool protocol_has_verified(const struct protocol *protocol);
/* True if it matches its digest. */
bool protocol_verified(const struct protocol *protocol);

/* True if a probe of the peer's adapter would be in the way now; on iWARP it is more often. */
bool probe_disturbs(const struct protocol *protocol, bool iwarp);

#endif
