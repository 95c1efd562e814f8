/* SPDX-License-Identifier: MIT */
/*
 * The state machine of a session: states, events, and the actions that follow from them. Pure: no
 * verbs, no clock, no input or output, no allocation. session.c feeds events, and rdma-common.c
 * executes actions.
 *
 * The messages of a session:
 *
 *     client                                            server
 *     connect request, with a hello        ------->     decides (hello_refusal())
 *                                          <-------     rejection or acceptance, with a hello
 *     MSG_MR: address, length, rkey        ------->
 *                                          <-------     MSG_MR
 *     RDMA WRITE or READ                   <=====>      RDMA WRITE or READ
 *     MSG_DONE: digest                     <------>     MSG_DONE: digest
 *     MSG_VERDICT                          <------>     MSG_VERDICT
 *     disconnects                          ------->
 *
 * MSG_DONE follows the sender's WRITE or completed READ. After both MSG_DONEs each side verifies
 * its incoming payload. From its MSG_MR on, each side reports the progress of both streams by
 * MSG_WINDOW. A side that gives up sends a bad MSG_VERDICT at once, but after its MSG_MR. If the
 * peer has no hello, as the tutorial's program, both sides send only MSG_MR and MSG_DONE.
 *
 * Threads: the connection's thread; the main thread before and after that thread runs.
 */
#ifndef RDMA_COMMON_PROTOCOL_H
#define RDMA_COMMON_PROTOCOL_H

#include <stdbool.h>

#include "options.h"
#include "status.h"

enum phase {
	PHASE_CONNECTING, /* not connected yet */
	PHASE_EXCHANGING, /* connected; messages and operations flow */
	PHASE_CLOSING,    /* nothing more is posted; posted requests complete or are flushed */
	PHASE_FINISHED,   /* `result` is final, and the connection may be destroyed */
};

/*
 * Progress of this side, in this order: work requests of one send queue complete in the order of
 * their posts. A side that gives up may skip stages until LOCAL_VERDICT_POSTED.
 */
enum local_stage {
	LOCAL_IDLE,
	LOCAL_MR_POSTED,
	LOCAL_MR_SENT,
	LOCAL_OPERATION_POSTED,
	LOCAL_DONE_POSTED,
	LOCAL_DONE_SENT,
	LOCAL_VERIFYING, /* the payload is being verified and stored */
	LOCAL_VERIFIED,  /* the verification has ended with `own_verdict` */
	LOCAL_VERDICT_POSTED,
	LOCAL_VERDICT_SENT,
};

/*
 * The last message of the peer, apart from MSG_WINDOW. The peer sends each once, in this order. A
 * peer that gives up sends a bad verdict instead of the next message, and nothing more.
 */
enum remote_stage {
	REMOTE_SILENT,
	REMOTE_MR,
	REMOTE_DONE,
	REMOTE_VERDICT,
	REMOTE_GAVE_UP,
};

/*
 * A status, and the number of the text that explains it. The caller chooses the number and keeps
 * the text. The number is 0 if no text explains the status.
 */
struct result {
	enum status status;
	unsigned int cause;
};

/* The state of a session. Initialize with protocol_start(). */
struct protocol {
	enum role role;
	bool verifying; /* digests and verdicts are exchanged, because the peer has a hello */
	enum phase phase;
	enum local_stage local;
	enum remote_stage remote;
	bool done_posted;  /* MSG_DONE was posted; an early verdict may have followed */
	bool gave_up;      /* this side cannot read, verify or store a payload */
	bool connected;    /* the connection was established, so DISCONNECTED will come */
	bool disconnected; /* DISCONNECTED was reported */
	bool drained;      /* no posted work request is outstanding, while closing */
	bool overdue;      /* the first deadline of closing has passed */
	bool post_failed;  /* a post was refused, and no event has explained the refusal yet */
	bool lingers;      /* the peer has left, and disconnecting waits for MSG_DONE to complete */
	unsigned int post_cause; /* number of the text that explains the refused post, or 0 */
	/* This side's verdict on the incoming payload, or its reason to give up. */
	struct result own_verdict;
	struct result peer_verdict; /* the peer's verdict, once received */
	struct result result;       /* why the session closes. Final in PHASE_FINISHED. */
};

enum event_type {
	EVENT_ESTABLISHED,
	EVENT_MR_RECEIVED,
	EVENT_DONE_RECEIVED,
	EVENT_VERDICT_RECEIVED, /* status: the peer's verdict */
	EVENT_PEER_GAVE_UP,     /* status: a bad verdict that does not follow both MSG_DONEs */
	EVENT_MR_SENT,
	EVENT_DONE_DUE, /* MSG_DONE may be posted: transfer_done_is_due() */
	EVENT_DONE_SENT,
	EVENT_VERDICT_SENT,
	EVENT_VERIFIED,        /* status: the result of the verification */
	EVENT_GAVE_UP,         /* status: why this side cannot read, verify or store a payload */
	EVENT_FAILED,          /* status: the reason of a failure that has no event of its own */
	EVENT_SEND_REFUSED,    /* a post to the send queue was refused */
	EVENT_RECEIVE_REFUSED, /* a receive was refused, and none is left */
	EVENT_FLUSHED,         /* a work request was flushed: the connection is going down */
	EVENT_DISCONNECTED,
	EVENT_DRAINED, /* the last posted work request has completed, while closing */
	EVENT_DEADLINE,
	EVENT_TYPES
};

/*
 * An event. `cause` is the number of the text that explains its status or the refused post, or 0.
 */
struct event {
	enum event_type type;
	enum status status;
	unsigned int cause;
};

/* Actions that the caller executes, in this order. They are bits of a set. */
enum action {
	ACTION_SEND_MR = 1 << 0,
	ACTION_POST_OPERATION = 1 << 1,
	ACTION_SEND_DONE = 1 << 2,
	ACTION_SEND_VERDICT = 1 << 3,
	ACTION_DISCONNECT = 1 << 4,
	ACTION_FORCE_ERROR = 1 << 5, /* move the queue pair to the error state */
};

struct step {
	struct protocol protocol;
	unsigned int actions; /* enum action, or-ed */
};

/* Return the initial state. The caller may set `verifying` before the connection is established. */
struct protocol protocol_start(enum role role);

/*
 * Return the state after `event`, and the actions to take. The caller feeds EVENT_DONE_DUE only
 * while operation_runs(), EVENT_VERIFIED only in LOCAL_VERIFYING, and a refused post only before
 * PHASE_CLOSING. Every other event is allowed in every state. An event that the peer should not
 * have caused closes the connection with STATUS_CONTENTS_WRONG.
 */
struct step protocol_step(struct protocol protocol, struct event event);

/*
 * Return true if EVENT_FLUSHED can change the state. Most requests are flushed while closing, when
 * the event seldom has an effect.
 */
bool flush_matters(const struct protocol *protocol);

/* Return true if text number `cause` explains, or may still explain, how the session ends. */
bool needs_cause(const struct protocol *protocol, unsigned int cause);

/*
 * Return true from the exchange of both MSG_MRs until this side posts MSG_DONE, gives up or closes.
 * Only during this time may requests of the operation be posted.
 */
static inline bool operation_runs(const struct protocol *protocol)
{
	return protocol->phase == PHASE_EXCHANGING && protocol->local == LOCAL_OPERATION_POSTED;
}

/* Return a name for traces and tests. The strings are static. */
const char *event_name(enum event_type type);
const char *phase_name(enum phase phase);
const char *local_stage_name(enum local_stage local);
const char *remote_stage_name(enum remote_stage remote);

/*
 * Return true while this side may send MSG_WINDOW: from its MSG_MR until both verdicts are
 * exchanged. After its own verdict this side only confirms the peer's MSG_WINDOWs, so that a peer
 * that stores slowly keeps its credits. A side that gave up sends none after its verdict.
 */
bool window_may_be_sent(const struct protocol *protocol);

/*
 * Return true while the peer may send MSG_WINDOW: from its MSG_MR until it gives up, and only with
 * a hello.
 */
bool window_may_come(const struct protocol *protocol);

/* Return true if the verification has ended, with any result, and this side has not given up. */
bool verification_ended(const struct protocol *protocol);
/* Return true if the verification by digest has succeeded. */
bool digest_matched(const struct protocol *protocol);

/* Return true if a keepalive could break the session now. */
bool keepalive_disturbs(const struct protocol *protocol, bool iwarp);

#endif
