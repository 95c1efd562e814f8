/* SPDX-License-Identifier: MIT */
/*
 * Counters of errors that a port of a device has in sysfs: what was retransmitted, came out of
 * sequence, found no receive, was marked as congested. And of what is no error of the port's: how
 * long it had something to send and might not, the pause frames of its network interface
 * (netlink.h), and the frames that this discarded. They count for all that uses the port.
 *
 * No lock, any thread. Reading them may ask the device's firmware, so it is done at the beginning
 * and at the end of a session alone.
 */
#ifndef RDMA_COMMON_COUNTERS_H
#define RDMA_COMMON_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Counters that are known; a device has some of them. */
#define ERROR_COUNTERS 58
#define COUNTERS       (ERROR_COUNTERS + 4) /* those of waits are the last */

struct counters {
	bool any; /* the port has at least one */
	uint64_t values[COUNTERS];
};

/* A counter's name, as `rdma statistic` shows it; NULL from the number on that none has. Static. */
const char *counter_name(unsigned int number);

/* Reads those of a port of the device with this folder in sysfs (ibv_device's ibdev_path). */
void counters_read(struct counters *counters, const char *device, unsigned int port);

/* By how much each has grown: not if somebody has reset it, or the port had none before. */
struct counters counters_growth(const struct counters *before, const struct counters *after);

/* Of two readings of one port keeps the later one, counter by counter: they only grow. */
void counters_keep_latest(struct counters *latest, const struct counters *other);

/* The sum of the errors among those that have grown. */
uint64_t counters_errors(const struct counters *growth);

/* Those that have grown in words, as "rcvd_seq_err 3, link_downed 1"; empty: none has. */
struct words counters_in_words(const struct counters *growth);

#endif
