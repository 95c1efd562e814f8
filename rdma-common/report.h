/* SPDX-License-Identifier: MIT */
/*
 * The report at the end of a session: lines, figures, and the outcome as a JSON object.
 */
#ifndef RDMA_COMMON_REPORT_H
#define RDMA_COMMON_REPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "latency.h"
#include "log.h"
#include "status.h"

/* The report at the end of a session; of a program that had none, status and cause. */
struct report {
	enum status status;
	const char *cause; /* why the session failed and what to do; unless STATUS_SUCCESS */
	int signal_number; /* with STATUS_INTERRUPTED */
	const char *peer;  /* "ADDRESS port PORT" */
	const char *transport, *device; /* NULL: not known */
	int tos;                        /* type of service; -1: not known */
	bool connected, disconnected;   /* a connection stood; it was seen to end */
	bool operated;         /* this side's operation has completed where that says something */
	bool peer_operated;    /* and the peer's: its MSG_DONE is here */
	bool delivered;        /* what this side sent matches its digest there, the peer says */
	enum ibv_mtu peer_mtu; /* of the peer's port; any number, as the peer says */
	/* The name of the peer's device: any bytes, as the peer says; empty: not known. */
	const char *peer_device;
	uint64_t operations, bytes;    /* of this side */
	uint64_t request_bytes;        /* of its longest work request */
	unsigned int depth;            /* work requests that may have been outstanding */
	int64_t nanoseconds;           /* from the first posting to the last completion */
	const struct latency *latency; /* NULL: not measured */
	int64_t outgoing_digest_nanoseconds, verification_nanoseconds;
	uint64_t received_bytes;               /* of payload */
	bool verified;                         /* they match the peer's digest */
	uint64_t verified_bytes;               /* if they do: of all passes that were verified */
	const struct counters *before, *after; /* of the device's port; NULL: not wanted */
	uint64_t unfinished_sends;
	unsigned int unfinished_receives; /* work requests that never completed */
};

/* Prints that the connection is gone, what was measured and, if the session failed, why. */
void report_session(const struct log *log, const struct report *report);

/* With --json: prints one object. */
void report_json(const struct log *log, const struct report *report);

#endif
