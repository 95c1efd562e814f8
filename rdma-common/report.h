/* SPDX-License-Identifier: MIT */
/*
 * The report at the end of a session: lines, figures, and the outcome as a JSON object. It reads a
 * connection that is joined, and changes nothing. The main thread's.
 */
#ifndef RDMA_COMMON_REPORT_H
#define RDMA_COMMON_REPORT_H

#include "../rdma-common.h"

/* Prints that the connection is gone, what was measured and, if the session failed, why. */
void report_session(const struct connection *connection);

/* Prints on which port the server listens, with --json as an object, too. */
void report_listening(const struct engine *engine, uint16_t port);

/* With --json: prints the outcome as one object. */
void report_json(const struct connection *connection);

/* The same of a program that had no session. */
void report_no_session(struct engine *engine, enum status status);

#endif
