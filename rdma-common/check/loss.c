// SPDX-License-Identifier: MIT
#include "loss.h"

#include <string.h>

/* Minimum number of lost packets that can be excessive: a single loss shows nothing. */
#define MIN_LOST 2

/* Lost packets of one direction or of both, as in struct loss. */
struct lost {
	double share;
	bool excessive;
};

static struct lost judge_count(uint64_t count, uint64_t packets)
{
	struct lost lost = { .share = packets > 0 ? (double)count / (double)packets : 0 };

	if (lost.share > 1) /* each packet may be lost several times */
		lost.share = 1;
	lost.excessive = count >= MIN_LOST && lost.share * 100 > MAX_LOSS;
	return lost;
}

struct loss loss_judge(const struct counters *growth, uint64_t to_server, uint64_t to_client)
{
	const struct losses counted = counters_losses(growth);
	uint64_t count = counted.outgoing + counted.incoming + counted.either;
	struct lost out = judge_count(counted.outgoing, to_server);
	struct lost in = judge_count(counted.incoming, to_client);
	struct lost all = judge_count(count, to_server + to_client);
	bool directed = out.excessive || in.excessive;
	struct loss loss = { .excessive = directed || all.excessive };

	if (directed && !out.excessive)
		out.share = 0;
	if (directed && !in.excessive)
		in.share = 0;
	loss.share = out.share > in.share ? out.share : in.share;
	if (out.share > 0 && in.share > 0)
		loss.direction = "both";
	else if (loss.share > 0)
		loss.direction = out.share > 0 ? "client to server" : "server to client";
	if (!directed && (all.excessive || loss.share <= 0)) {
		loss.share = all.share;
		loss.direction = NULL;
	}
	return loss;
}

struct strbuf loss_describe(const struct loss *loss)
{
	struct strbuf buf = { 0 };

	if (!loss->direction) /* for example, a retry does not show the direction */
		strbuf_addf(&buf, "packets are lost or late, in a direction that is not known");
	else if (!strcmp(loss->direction, "both"))
		strbuf_addf(&buf, "packets are lost in both directions");
	else
		strbuf_addf(&buf, "packets are lost from %s", loss->direction);
	return buf;
}

struct strbuf loss_describe_share(double share)
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

const char *loss_advice(bool is_software, bool infiniband)
{
	if (is_software)
		return "a rate limit or a full queue on the way ('tc -s qdisc' on both hosts), "
		       "receive buffers that are too small ('ip -s -s link'), a bad cable or "
		       "switch port";
	if (infiniband)
		return "a bad cable or its optics ('ibqueryerrors'), a full switch or host "
		       "('perfquery -x': PortXmitWait, PortXmitDiscards), an MTU that differs on "
		       "the way";
	return "a bad cable or its optics ('ethtool -S', 'mlxlink'), a full switch that has no PFC "
	       "or ECN for this type of service, receive buffers that are too small ('ethtool -g')";
}
