/* SPDX-License-Identifier: MIT */
/*
 * A port's counters. The error counters count events such as retransmissions, packets out of
 * sequence, messages without a receive, link errors and congestion marks. The others count the time
 * for which the port waited to send, and the network interface's pause frames and discarded frames.
 * Netlink shows the pause frames, sysfs the rest. A counter includes all traffic of the port.
 *
 * Threads: any; no lock. A reading may query the device's firmware, so a session reads the counters
 * only at its start and end, and once per --interval.
 */
#ifndef RDMA_COMMON_COUNTERS_H
#define RDMA_COMMON_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Number of known error counters, and of all known counters. A device has some of them. */
#define ERROR_COUNTERS 58
#define COUNTERS       (ERROR_COUNTERS + 4) /* the error counters come first */

struct counters {
	bool any; /* the port itself, not only its network interface, has at least one counter */
	uint64_t values[COUNTERS];
};

/*
 * Return the name of a counter, a static string, or NULL if `number` is too high. `rdma statistic`
 * shows the driver's own counters by the same names.
 */
const char *counter_name(unsigned int number);

/*
 * Read the counters of a port. `device` is the device's folder in sysfs (device_folder()). A
 * counter that the port does not have is 0.
 */
void counters_read(struct counters *counters, const char *device, unsigned int port);

/*
 * Return the growth of each counter. The growth is 0 for a counter that has shrunk, because it was
 * reset. `any` is false, and the growth is 0, unless both readings have counters.
 */
struct counters counters_growth(const struct counters *before, const struct counters *after);

/*
 * Raise each counter of `latest` to its value in `other`, if that value is larger. Both readings
 * are of one port. The larger value is the later one, unless the counter was reset in between.
 */
void counters_keep_latest(struct counters *latest, const struct counters *other);

/* Return the sum of the growth of all error counters. */
uint64_t counters_errors(const struct counters *growth);

/*
 * Describe the errors that both hosts' devices counted. If `counted` is true, `peer_errors` is the
 * peer's count. Otherwise that count is unknown. Then the text says that this host's device counted
 * none, and is empty if it counted some.
 */
struct strbuf counters_compare(const struct counters *growth, bool counted, uint64_t peer_errors);

/*
 * Evidence of lost packets. The counters of one side prove no loss: adaptive routing that reorders
 * packets also causes gaps at the receiver, and a late answer also causes a retransmission.
 */
struct sequence_errors {
	uint64_t missing;       /* gaps in the sequence of received packets */
	uint64_t naks;          /* the peer's reports of such gaps. rxe counts only some. */
	uint64_t retransmitted; /* retransmissions. Over rxe, one after a NAK counts twice. */
};

struct sequence_errors counters_sequence_errors(const struct counters *growth);

/*
 * List the counters of an InfiniBand port that are at their maximum, as in "symbol_error 65535".
 * Such a counter does not grow until it is reset.
 */
struct strbuf counters_describe_full(const struct counters *counters);

/* List the counters that have grown, as in "rcvd_seq_err 3, link_downed 1". */
struct strbuf counters_describe(const struct counters *growth);

#endif
