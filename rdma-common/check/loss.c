// SPDX-License-Identifier: MIT
#include "loss.h"

#include <string.h>
#include <sys/param.h>

/* Minimum number of lost packets that can be excessive: a single loss shows nothing. */
#define MIN_LOST 2

static double share_of(uint64_t count, uint64_t packets)
{
	/* each packet may be lost several times */
	return packets > 0 ? (double)MIN(count, packets) / (double)packets : 0;
}

struct loss loss_classify(const struct counters *growth, const struct peer_counts *peer,
			  uint64_t to_server, uint64_t to_client)
{
	const struct sequence_errors here = counters_sequence_errors(growth);
	/* each NAK received is the server's report of a gap */
	uint64_t missing_there = MAX(peer->missing, here.naks);
	uint64_t out = MIN(here.retransmitted, missing_there);
	uint64_t in = MIN(here.missing, peer->retransmitted);
	double out_share = share_of(out, to_server), in_share = share_of(in, to_client);
	bool none = out_share <= 0 && in_share <= 0;
	struct loss loss = { .share = MAX(out_share, in_share) };

	if (out_share > 0 && in_share > 0)
		loss.direction = "both";
	else if (!none)
		loss.direction = out_share > 0 ? "client to server" : "server to client";
	loss.excessive = out + in >= MIN_LOST && loss.share * 100 > MAX_LOSS;
	loss.late = none && (here.retransmitted > 0 || peer->retransmitted > 0);
	loss.reordered = none && (here.missing > 0 || missing_there > 0);
	return loss;
}

/* Describe a share of packets, 0 to 1, as in "about 1.2 %". */
static struct strbuf describe_share(double share)
{
	double percent = share * 100;
	int decimals = percent >= 10 ? 0 : percent >= 1 ? 1 : percent >= 0.1 ? 2 : 3;
	struct strbuf buf = { 0 };

	if (percent < 0.001)
		strbuf_addf(&buf, "less than 0.001 %%");
	else
		strbuf_addf(&buf, "about %.*f %%", decimals, percent);
	return buf;
}

struct strbuf loss_describe(const struct loss *loss)
{
	struct strbuf buf = { 0 };
	bool both = loss->direction && !strcmp(loss->direction, "both");

	if (loss->direction)
		strbuf_addf(&buf, "packets are lost %s%s, %s of them",
			    both ? "in both directions" : "from ", both ? "" : loss->direction,
			    describe_share(loss->share).text);
	else if (loss->late || loss->reordered)
		strbuf_addf(&buf, "packets are %s%s%s", loss->late ? "late" : "",
			    loss->late && loss->reordered ? " and " : "",
			    loss->reordered ? "reordered" : "");
	return buf;
}

const char *loss_advice(bool is_software, bool infiniband)
{
	if (is_software)
		return "a rate limit or a full queue on the way ('tc -s qdisc' on both hosts), "
		       "receive buffers that are too small ('ip -s -s link'), a bad cable or "
		       "switch port";
	if (infiniband)
		return "a bad cable or transceiver ('ibqueryerrors'), a full switch or host "
		       "('perfquery -x': PortXmitWait, PortXmitDiscards), an MTU that differs on "
		       "the way";
	return "a bad cable or transceiver ('ethtool -S', 'mlxlink'), a full switch that has no PFC "
	       "or ECN for this type of service, receive buffers that are too small ('ethtool -g')";
}
