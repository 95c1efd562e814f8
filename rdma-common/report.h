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

/* Reports by which path one of several sessions at once went, and how fast. */
void report_path(const struct connection *connection);

/*
 * Prints the sum of the engine's connections, the slowest and the fastest, with --json as an
 * object, too. `status` is that of the program. A session that did not come about, as message and
 * status have said, has not succeeded.
 */
void report_sum(const struct engine *engine, enum status status);

/* As report_json() of a program that had no session. */
void report_no_session(struct engine *engine, enum status status);

#endif
