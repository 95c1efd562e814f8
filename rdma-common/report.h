/* SPDX-License-Identifier: MIT */
/*
 * The report of a session: lines, figures, and the result as a JSON object. It reads a connection
 * whose session is over, and changes nothing.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_REPORT_H
#define RDMA_COMMON_REPORT_H

#include "connection.h"

/*
 * Print the end of a session: the disconnection, the figures and counters if prints_figures(), and
 * the reason of a failure. A server prints one status line for a successful session of --check.
 */
void report_session(const struct connection *connection);

/* Print the port on which the server listens. With --json, print it also as an object. */
void report_listening(const struct program *program, uint16_t port);

/* With --json, print the result of the session as one object. */
void report_json(const struct connection *connection);

/* Print the source port, queue pair, rate and result of one of several simultaneous sessions. */
void report_path(const struct connection *connection);

/*
 * Print the totals of the program's sessions, the slowest session and the fastest. With --json,
 * print them also as an object. `status` is the program's exit status.
 */
void report_sum(const struct program *program, enum status status);

/* With --json, print the object of report_json() for a program that ran no session. */
void report_no_session(struct program *program, enum status status);

#endif
