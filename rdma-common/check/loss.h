/* SPDX-License-Identifier: MIT */
/*
 * Classify lost packets: how many, in which direction, and where to look for the cause.
 *
 * Threads: any.
 */
#ifndef RDMA_COMMON_LOSS_H
#define RDMA_COMMON_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "../counters.h"
#include "../status.h"

/* Percentage of lost packets above which a loss is excessive */
#define MAX_LOSS 0.1

/* Counts of the server's port, from its verdicts. */
struct peer_counts {
	bool counted; /* the server's port counts errors. Otherwise `errors` is 0. */
	uint64_t errors;
	uint64_t missing;       /* gaps in the packets that it received */
	uint64_t retransmitted; /* packets that it sent again */
};

struct loss {
	/* Lost packets per packet sent, 0 to 1, in the direction that loses the larger share. */
	double share;
	/* "client to server", "server to client" or "both". NULL means that none is lost. */
	const char *direction;
	bool excessive; /* the share is above MAX_LOSS, and at least two packets are lost */
	bool late;      /* a port retransmitted packets, but none is lost */
	bool reordered; /* a port found gaps, but no packet is lost */
};

/*
 * Classify the loss by the growth of this host's port counters and the counts of the server's port.
 * A packet is lost if one port found a gap, and the other port retransmitted. `to_server` and
 * `to_client` are the approximate numbers of packets sent.
 */
struct loss loss_classify(const struct counters *growth, const struct peer_counts *peer,
			  uint64_t to_server, uint64_t to_client);

/*
 * Describe a loss, as in "packets are lost from client to server, about 1.2 % of them", or late or
 * reordered packets. The text is empty if there are none.
 */
struct strbuf loss_describe(const struct loss *loss);

/*
 * Return the most likely causes of lost packets on this medium, and the commands that show them.
 * The string is static.
 */
const char *loss_advice(bool is_software, bool infiniband);

#endif
