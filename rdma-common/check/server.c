// SPDX-License-Identifier: MIT
#include "server.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../clock.h"
#include "../json.h"
#include "../log.h"

/* The RDMA MTU of Ethernet's usual 1500 bytes: a limit on the path is below that or above. */
#define USUAL_MTU 1024
/* A busy server, where a session ends a little later than here, is asked again so soon. */
#define BUSY_MILLISECONDS 100
/*
 * How many times as fast as the other a direction has to be to be called slow: emulated hosts, and
 * those that share processors, differ by less. Each is measured twice before that is said.
 * And how many times as fast others have to be of the sessions that run at once.
 */
#define MUCH_SLOWER 3
/*
 * To measure latency so many bytes are read so often; where that takes long, less often, but not
 * less than so often.
 */
#define READ_SIZE 8
#define MAX_READS 1000
#define MIN_READS 10

/* ---- The outcome of a session ---- */

/* Nanoseconds until the server's verdict had come, which is behind all that either side sent. */
static int64_t elapsed(const struct connection *connection)
{
	int64_t time = connection->verdict_time - connection->figures.started;

	return time > 0 ? time : 1;
}

/*
 * Of a session of WRITEs. Bytes that have arrived are counted, by this side's clock: until the
 * server's verdict comes, which is behind them, since over iWARP a completion does not say that
 * they have.
 */
static struct rates rates_of(const struct connection *connection)
{
	double scale = 8e9 / (double)elapsed(connection);

	return (struct rates){ (double)connection->figures.bytes * scale,
			       (double)connection->peer_verdict.length * scale };
}

void probe_take(struct probe *probe, const struct connection *connection)
{
	struct outcome *outcome = &probe->outcomes[probe->outcome_count++];
	const struct protocol *protocol = &connection->protocol;

	*outcome = (struct outcome){
		.rejected = connection->rejected,
		.rejection = connection->rejection,
		.answer = connection->answer,
		.connected = protocol->connected,
		.hello = connection->agreement.peer,
		.port = source_port(connection->id),
		.operated = operation_completed(connection) && !protocol->gave_up,
		.peer_operated =
			protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT,
		.verified = protocol_verified(protocol),
		.accepted =
			protocol->remote == REMOTE_VERDICT && protocol->verdict == STATUS_SUCCESS,
		.elapsed = elapsed(connection),
		.rates = rates_of(connection),
	};
	failure_set(&outcome->end, connection->status, "%s", connection->cause);
	snprintf(outcome->peer, sizeof(outcome->peer), "%s", connection->peer.text);
	if (connection->figures.latency)
		probe->latency = *connection->figures.latency;
	if (connection->counting) {
		if (!probe->before.any)
			probe->before = connection->counting->before;
		counters_keep_latest(&probe->after, &connection->counting->after);
	}
	/* of sessions at once each port counts the errors of all */
	if (probe->outcome_count == 1 || connection->peer_verdict.errors > probe->advertised_errors)
		probe->advertised_errors = connection->peer_verdict.errors;
	if (probe->outcome_count > 1) {
		enum status worst = probe->outcome->end.status;

		if (worse_status(worst, connection->status) == worst)
			return;
	}
	probe->outcome = outcome;
}

/* ---- What a session shows ---- */

/* True if packets may have been lost: the peer is silent, or its adapter. */
static bool is_silence(enum status status)
{
	return status == STATUS_TIMED_OUT || status == STATUS_PEER_LOST;
}

/*
 * How far one direction came. Digests are compared once both operations are done; of one alone the
 * adapters say that it has completed.
 */
static enum direction_result classify_direction(bool verified, bool completed)
{
	if (verified)
		return PASSAGE_VERIFIED;
	return completed ? PASSAGE_ARRIVED : PASSAGE_UNKNOWN;
}

/* How far both directions of the session came. */
static void judge(struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	bool writes = probe->session.operation == OPERATION_WRITE;

	probe->to_client = classify_direction(outcome->verified,
					      writes ? outcome->peer_operated : outcome->operated);
	/* over iWARP the completion of a WRITE says no more than that TCP has the bytes */
	probe->to_server = classify_direction(outcome->accepted,
					      writes ? outcome->operated && !probe->path->iwarp
						     : outcome->peer_operated);
}

/* What to change where no connection stood, unless the cause says all. */
static void advise_connecting(struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	bool told = rejection_reason(&outcome->rejection) != REFUSAL_NONE;
	bool silent = is_silence(outcome->end.status);

	if (probe->verified == 1 && !told && (silent || outcome->end.status == STATUS_REFUSED))
		strbuf_addf(&probe->findings->advice,
			    "the server took a session, and no other behind it: start "
			    "it without --one-off");
	else if (silent && probe->verified > 0)
		strbuf_addf(&probe->findings->advice,
			    "it took sessions before: the server has ended or stands "
			    "still, or the path to it is down; see to that, and begin "
			    "again");
	else if (silent && probe->path->infiniband)
		strbuf_addf(
			&probe->findings->advice,
			"the RDMA connection manager there does not answer: does the address belong "
			"to the server's RDMA device, is the server running, and are both hosts in "
			"one partition ('ibdiagnet')?");
	else if (silent && probe->path->roce_v1)
		strbuf_addf(
			&probe->findings->advice,
			"check that the server runs and is not stopped, that the address belongs to "
			"its RDMA device, and that no router is on the path: RoCE v1 (Ethernet type "
			"0x8915) passes none");
}

/* What the server told of itself. */
static void report_server(struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	const char *name = outcome->hello.device;
	/* over InfiniBand the subnet manager has seen to that of the path */
	unsigned int mtu = probe->path->iwarp || probe->path->infiniband
				   ? 0
				   : mtu_bytes((enum ibv_mtu)outcome->hello.mtu);
	char *device = escape((const uint8_t *)name, strlen(name));

	strbuf_addf(&probe->findings->found, "%s: rdma-server %s", outcome->peer,
		    outcome->hello.flags & HELLO_ANY_OPERATION
			    ? "for both modes"
			    : operation_name(probe->session.operation));
	if (device && *device)
		strbuf_addf(&probe->findings->found, ", device %s", device);
	if (probe->path->gid[0])
		strbuf_addf(&probe->findings->found, ", GID %s", probe->path->gid);
	if (mtu > 0)
		strbuf_addf(&probe->findings->found, ", MTU of its port %u bytes", mtu);
	/* both sides send packets of the client's MTU: its request carries that */
	if (mtu > 0 && mtu < probe->path->mtu)
		strbuf_addf(
			&probe->findings->advice,
			"the MTU is %u bytes here and %u there: set it the same on both hosts and "
			"between ('ip link set ... mtu'), or packets above %u bytes may vanish",
			probe->path->mtu, mtu, mtu);
	findings_report(probe->findings, "server", true);
	json_add_text(probe->findings->latest, "device", *name ? name : NULL);
	free(device);
}

/*
 * The size for ping(8) that makes packets as long as an RDMA WRITE of the size in question. Behind
 * the IP header, RoCE v2 has 8 bytes of UDP, 12 of BTH, 16 of RETH, the payload in words of 4, and
 * 4 of ICRC; ping has 8 of ICMP. RoCE v1 has 40 bytes of GRH in place of IP and UDP. Over iWARP,
 * TCP cuts as it likes.
 */
static uint64_t ping_size(const struct probe *probe)
{
	unsigned int ip = probe->path->address->ai_family == AF_INET6 ? 40 : 20;

	if (probe->path->iwarp)
		return probe->size;
	return (probe->size + 3) / 4 * 4 + (probe->path->roce_v1 ? 40 - ip : 8) + 12 + 16 + 4 - 8;
}

/* Return what to open so that the packets of a connection pass. */
static const char *advise_opening(const struct probe *probe)
{
	if (probe->path->iwarp)
		return "let the firewalls pass the TCP port whatever the other port is";
	return probe->path->roce_v1
		       ? "let switches and bridges pass RoCE v1 (Ethernet type 0x8915)"
		       : "let the firewalls pass UDP port 4791 whatever the other port is";
}

/* What to change where a connection stood, but packets of this size are lost. */
static void advise_size(struct probe *probe)
{
	const char *direction = "in one direction at least";

	if (probe->to_server >= PASSAGE_ARRIVED && probe->to_client >= PASSAGE_ARRIVED)
		return;
	if (probe->to_server == PASSAGE_FAILED)
		direction = "from client to server";
	else if (probe->to_client == PASSAGE_FAILED)
		direction = "from server to client";
	if (probe->path->infiniband)
		strbuf_addf(
			&probe->findings->advice,
			"though the connection stands, packets are lost %s: look at the path that "
			"the subnet manager has made, at its MTU, and at the counters of its links "
			"('ibdiagnet', 'ibtracert', 'perfquery')",
			direction);
	else if (probe->verified == 0)
		strbuf_addf(&probe->findings->advice,
			    "not a byte passes %s, though the connection stands: %s", direction,
			    advise_opening(probe));
	else if (probe->verified <
		 probe->path->mtu) /* else one of the largest packets has passed */
		strbuf_addf(
			&probe->findings->advice,
			"packets above %" PRIu64 " bytes vanish %s, at %" PRIu64
			" at the latest: a host or switch on the path has a smaller MTU than the "
			"adapters use, %u bytes and headers; set it the same everywhere ('ip link "
			"set ... mtu', and the ports of switches; 'ping -M do -s %" PRIu64
			"' from both hosts tries it)",
			probe->verified, direction, probe->size, probe->path->mtu,
			ping_size(probe));
	else
		strbuf_addf(&probe->findings->advice,
			    "packets of every size pass, but not so many of them %s: look at the "
			    "counters, at flow control (PFC, ECN), and at cables and switches",
			    direction);
}

/* The result of a size, in each direction. */
static void report_transfer(struct probe *probe)
{
	static const char *const names[] = { "not known", "failed", "arrived", "verified" };
	const char *to_server = names[probe->to_server], *to_client = names[probe->to_client];
	bool good = probe->failure.status == STATUS_SUCCESS;

	strbuf_addf(&probe->findings->found,
		    "%" PRIu64 " byte%s: client to server %s, server to client %s%s%s", probe->size,
		    probe->size > 1 ? "s" : "", to_server, to_client, good ? "" : ": ",
		    probe->failure.cause);
	findings_report(probe->findings, "transfer", good);
	json_add_count(probe->findings->latest, "bytes", probe->size);
	json_add_text(probe->findings->latest, "client_to_server", to_server);
	json_add_text(probe->findings->latest, "server_to_client", to_client);
}

/* ---- Sessions ---- */

/*
 * True if a server that rejected the connection may accept one in a moment: a session ends, and the
 * memory of one of these, which ends a little later there than here. Over iWARP the reason may be
 * lost: the reset of the connection overtakes it.
 */
static bool may_accept_soon(const struct probe *probe, const struct peer_hello *server)
{
	enum refusal refusal = rejection_reason(server);

	if (server->hello_kind == HELLO_ABSENT)
		return probe->path->iwarp && probe->verified > 0;
	if (refusal == REFUSAL_MEMORY)
		return probe->verified > 0;
	return refusal == REFUSAL_SESSIONS;
}

/* True if the rejection shows nothing yet: the server does the other operation, or is busy. */
static bool may_be_accepted(struct probe *probe, const struct peer_hello *server,
			    int64_t busy_deadline)
{
	bool other_mode =
		server->hello_kind == HELLO_ABSENT || rejection_reason(server) == REFUSAL_OPERATION;

	if (!probe->mode_is_known && other_mode) {
		probe->mode_is_known = true;
		probe->session.operation = probe->session.operation == OPERATION_READ
						   ? OPERATION_WRITE
						   : OPERATION_READ;
		return true;
	}
	probe->mode_is_known = true;
	probe->start = now_milliseconds() + BUSY_MILLISECONDS;
	return probe->start < busy_deadline && may_accept_soon(probe, server);
}

/*
 * A session in which the client sends so many bytes, and the server as many or one. False: it did
 * not come about.
 */
static bool try_session(struct probe *probe, uint64_t size, bool short_reply)
{
	const struct outcome *outcome;
	int64_t busy_deadline = now_milliseconds() + timeout_milliseconds(probe->options);
	bool complete;

	probe->session.pattern_size = size;
	probe->parameters.short_reply = short_reply;
	do {
		probe->outcome_count = 0;
		probe->run(probe, probe->argument);
		complete = probe->outcome_count == probe->session.connections;
		if (probe->outcome_count == 0)
			return false;
		outcome = probe->outcome;
	} while (complete && outcome->rejected &&
		 may_be_accepted(probe, &outcome->rejection, busy_deadline));
	if (outcome->connected)
		probe->mode_is_known = true;
	if (probe->advertised_errors > 0) /* one more than there are: that counts once */
		probe->peer_errors += probe->advertised_errors - (probe->peer_errors > 0);
	if (outcome->end.status != STATUS_SUCCESS &&
	    (probe->failure.status == STATUS_SUCCESS || probe->failure.status == STATUS_TOO_SLOW ||
	     outcome->end.status == STATUS_INTERRUPTED))
		failure_set(&probe->failure, outcome->end.status, "%s", outcome->end.cause);
	return complete;
}

/*
 * After silence in both directions, this size to the server, and one byte back. True: what is known
 * now shows what to change.
 */
static bool find_direction(struct probe *probe)
{
	if (!try_session(probe, probe->size, true))
		return false;
	judge(probe);
	probe->to_client = probe->to_server == PASSAGE_VERIFIED ? PASSAGE_FAILED : PASSAGE_UNKNOWN;
	if (!probe->outcome->connected)
		return false;
	if (!probe->to_server && is_silence(probe->outcome->end.status))
		probe->to_server = PASSAGE_FAILED;
	return is_silence(probe->failure.status);
}

/*
 * After silence, one byte each way: if that fails as well, no size is to blame. True: what is known
 * now shows what to change.
 */
static bool find_server(struct probe *probe)
{
	const struct outcome *outcome;
	enum status status;

	if (!try_session(probe, 1, false))
		return false;
	outcome = probe->outcome;
	status = outcome->end.status;
	if (status == STATUS_SUCCESS || rejection_reason(&outcome->rejection) != REFUSAL_NONE)
		return true;
	if (is_silence(status) || status == STATUS_REFUSED || status == STATUS_UNRESOLVED)
		strbuf_addf(
			&probe->findings->advice,
			"not even 1 byte passes any more (%s): the server has ended, or the path to "
			"it is down; see to that, and begin again",
			outcome->end.cause);
	return false;
}

/*
 * A size to the server is silent: finds out by other sessions which direction fails, and what to
 * change. If one direction came that far, it is the other that does not work.
 */
static void explain_silence(struct probe *probe)
{
	if (probe->verified > 0 && !find_server(probe))
		return;
	if (probe->to_server && !probe->to_client)
		probe->to_client = PASSAGE_FAILED;
	else if (probe->to_client && !probe->to_server)
		probe->to_server = PASSAGE_FAILED;
	else if (probe->verified > 0 && !probe->to_server && !find_direction(probe))
		return;
	advise_size(probe);
}

/* So many bytes in both directions. False: that failed, and the findings say so. */
static bool try_size(struct probe *probe, uint64_t size)
{
	const struct outcome *outcome;
	bool good;

	probe->size = size;
	if (!try_session(probe, size, false))
		return false;
	outcome = probe->outcome;
	if (!outcome->connected) {
		strbuf_addf(&probe->findings->found, "%s: with %" PRIu64 " byte%s: %s",
			    outcome->peer, size, size > 1 ? "s" : "", outcome->end.cause);
		advise_connecting(probe);
		return findings_report(probe->findings, "server", false);
	}
	if (probe->verified == 0)
		report_server(probe);
	judge(probe);
	good = outcome->end.status == STATUS_SUCCESS;
	if (good && (probe->verified == 0 || outcome->elapsed < probe->exchange))
		probe->exchange = outcome->elapsed;
	if (good)
		probe->verified = size;
	else if (is_silence(outcome->end.status))
		explain_silence(probe);
	report_transfer(probe);
	return good;
}

/*
 * Sizes around the length of a packet, to which over iWARP messages do not keep, and of many
 * packets. False: one has failed.
 */
static bool try_sizes(struct probe *probe)
{
	const uint64_t mtu = probe->path->mtu, packet = probe->path->iwarp ? 0 : mtu;
	const uint64_t sizes[] = { 1,
				   mtu > USUAL_MTU ? USUAL_MTU : 0,
				   packet ? packet - 1 : 0,
				   packet,
				   mtu ? mtu + 1 : 0,
				   (uint64_t)64 << 10,
				   (uint64_t)1 << 20 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] && !try_size(probe, sizes[i]))
			return false;
	}
	return true;
}

/* ---- Rates ---- */

/* The direction that is slower, and how many times as fast the other one is. */
static double skew(const struct rates *rates, const char **slower)
{
	bool server = rates->to_server < rates->to_client;
	double least = server ? rates->to_server : rates->to_client;
	double most = server ? rates->to_client : rates->to_server;

	*slower = server ? "client to server" : "server to client";
	return most > 0 ? most / (least > 1 ? least : 1) : 1;
}

/* True if that would be said of them: then they are measured once more, and that counts. */
static bool look_slow(const struct probe *probe, const struct rates *rates)
{
	double wanted = (double)probe->options->minimum_rate;
	const char *slower;

	return skew(rates, &slower) >= MUCH_SLOWER || rates->to_server < wanted ||
	       rates->to_client < wanted;
}

/*
 * Runs a session that measures, with the options and parameters in `probe`. False: it failed, and
 * the findings of `step` say why.
 */
static bool run_measurement(struct probe *probe, const char *step, uint64_t size, bool short_reply)
{
	probe->parameters.measured = true;
	if (!try_session(probe, size, short_reply))
		return false;
	if (probe->outcome->end.status == STATUS_SUCCESS)
		return true;
	strbuf_addf(&probe->findings->found, "not measured: %s", probe->outcome->end.cause);
	return findings_report(probe->findings, step, false);
}

/* WRITEs in one direction, and of the other a byte. False: it failed. */
static bool measure_rate(struct probe *probe, bool back, double *rate)
{
	unsigned int seconds = probe->options->duration_seconds;
	struct rates arrived;

	probe->session.operation = OPERATION_WRITE;
	probe->session.duration_seconds = back ? 0 : seconds;
	probe->parameters.reverse_seconds = back ? seconds : 0;
	if (!run_measurement(probe, "rate", back ? 1 : BACK_SIZE, !back))
		return false;
	arrived = probe->outcome->rates;
	*rate = back ? arrived.to_client : arrived.to_server;
	return true;
}

/* One direction in words; where it is slower than --min-rate, that is how --check fails. */
static void append_rate(struct probe *probe, const char *direction, double rate)
{
	double wanted = (double)probe->options->minimum_rate;

	strbuf_addf(&probe->findings->found, "%s%s %.3f Gbit/s",
		    probe->findings->found.length > 0 ? ", " : "", direction, rate / 1e9);
	if (probe->path->link_rate > 0)
		strbuf_addf(&probe->findings->found, " (%.0f %% of the link's %.6g)",
			    rate * 100 / probe->path->link_rate, probe->path->link_rate / 1e9);
	if (rate < wanted && probe->failure.status == STATUS_SUCCESS)
		failure_set(&probe->failure, STATUS_TOO_SLOW,
			    "slower than --min-rate from %s: %.6g Gbit/s instead of %.6g; the "
			    "contents are right",
			    direction, rate / 1e9, wanted / 1e9);
}

/* Adds both to the finding. */
static void add_rates(struct probe *probe, const struct rates *rates)
{
	json_add_number(probe->findings->latest, "client_to_server_bits_per_second",
			rates->to_server, true);
	json_add_number(probe->findings->latest, "server_to_client_bits_per_second",
			rates->to_client, true);
}

/* Both rates, what share of the link they are, and which is too slow. */
static void report_rates(struct probe *probe, const struct rates *rates)
{
	const char *slower;
	double factor = skew(rates, &slower);
	bool skewed = factor >= MUCH_SLOWER;

	append_rate(probe, "client to server", rates->to_server);
	append_rate(probe, "server to client", rates->to_client);
	if (probe->path->is_software)
		strbuf_addf(&probe->findings->found,
			    "; the device is software, without a link's rate");
	if (probe->failure.status == STATUS_TOO_SLOW)
		strbuf_addf(&probe->findings->found, "; %s", probe->failure.cause);
	if (skewed)
		strbuf_addf(
			&probe->findings->advice,
			"%s is %.1f times as slow as the other way, measured twice: look at the "
			"queue of the host that sends ('tc qdisc'), at the counters, at flow control "
			"(PFC), and at cables, switches and PCIe on both sides",
			slower, factor);
	findings_report(probe->findings, "rate",
			!skewed && probe->failure.status == STATUS_SUCCESS);
	add_rates(probe, rates);
	json_add_number(probe->findings->latest, "link_bits_per_second", probe->path->link_rate,
			probe->path->link_rate > 0);
}

/* READs that take no more than some seconds: an exchange is several times as long as one of them.
 */
static unsigned int count_reads(const struct probe *probe)
{
	int64_t fit = INT64_C(10000000000) / probe->exchange;

	if (fit > MAX_READS)
		return MAX_READS;
	return fit < MIN_READS ? MIN_READS : (unsigned int)fit;
}

/* How long a READ takes: one after the other, spinning for completions, as such tools do. */
static bool try_latency(struct probe *probe)
{
	const struct latency *latency = &probe->latency;
	double median, late;

	probe->session.operation = OPERATION_READ;
	probe->session.iterations = count_reads(probe);
	probe->session.duration_seconds = 0;
	probe->parameters.reverse_seconds = 0;
	probe->session.depth = 1;
	probe->session.busy_poll = true;
	if (!run_measurement(probe, "latency", READ_SIZE, false))
		return false;
	median = (double)latency_quantile(latency, 0.5) / 1e3;
	late = (double)latency_quantile(latency, 0.99) / 1e3;
	strbuf_addf(
		&probe->findings->found,
		"a READ of %d bytes takes %.2f us (median), %.2f us (99th percentile of %" PRIu64
		")",
		READ_SIZE, median, late, latency->total);
	findings_report(probe->findings, "latency", true);
	json_add_number(probe->findings->latest, "p50_us", median, true);
	json_add_number(probe->findings->latest, "p99_us", late, true);
	return true;
}

/* How fast each direction is, and how late; nothing with --duration 0. */
static bool try_rates(struct probe *probe)
{
	struct rates rates = { 0 };

	if (probe->options->duration_seconds == 0)
		return true;
	for (int look = 1; look == 1 || (look == 2 && look_slow(probe, &rates)); look++) {
		if (!measure_rate(probe, false, &rates.to_server) ||
		    !measure_rate(probe, true, &rates.to_client))
			return false;
	}
	report_rates(probe, &rates);
	return try_latency(probe);
}

/* ---- Several connections at once ---- */

/* True if half of the sessions that delivered all, or more, are much faster in one direction. */
static bool is_slow(const struct probe *probe, const struct outcome *outcome)
{
	unsigned int good = 0, to_server = 0, to_client = 0;

	for (const struct outcome *other = probe->outcomes;
	     other < probe->outcomes + probe->outcome_count; other++) {
		if (other->end.status != STATUS_SUCCESS)
			continue;
		good++;
		to_server += other->rates.to_server > MUCH_SLOWER * outcome->rates.to_server;
		to_client += other->rates.to_client > MUCH_SLOWER * outcome->rates.to_client;
	}
	return to_server * 2 >= good || to_client * 2 >= good;
}

/* One of the sessions, by the port that names its path. */
static bool report_source_port(struct probe *probe, const struct outcome *outcome)
{
	bool good = outcome->end.status == STATUS_SUCCESS;
	bool measured = good && probe->parameters.measured;
	bool slow = measured && is_slow(probe, outcome);

	if (outcome->port > 0)
		strbuf_addf(&probe->findings->found, "source port %u: ", outcome->port);
	else
		strbuf_addf(&probe->findings->found, "source port not known: ");
	if (measured)
		strbuf_addf(&probe->findings->found,
			    "client to server %.3f Gbit/s, server to client %.3f Gbit/s",
			    outcome->rates.to_server / 1e9, outcome->rates.to_client / 1e9);
	else
		strbuf_addf(&probe->findings->found, "%s",
			    good ? "verified in both directions" : outcome->end.cause);
	if (slow || is_silence(outcome->end.status))
		strbuf_addf(
			&probe->findings->advice,
			"%swhere several paths lead to the server, switches choose one by this port "
			"(ECMP): look at the links and switches of that",
			slow ? "half of the others, or more, are three times as fast; " : "");
	findings_report(probe->findings, "path", good && !slow);
	json_add_known(probe->findings->latest, "source_port", outcome->port);
	if (measured)
		add_rates(probe, &outcome->rates);
	return good;
}

/*
 * Sessions at once, by different paths perhaps, in which both sides write as in those that measured
 * the rates, if there were any. False: one has failed.
 */
static bool try_paths(struct probe *probe)
{
	struct options *session = &probe->session;
	bool good;

	session->connections = probe->options->connections;
	if (session->connections == 1)
		return true;
	if (probe->parameters.measured) {
		session->operation = OPERATION_WRITE;
		session->iterations = 0;
		session->duration_seconds = probe->options->duration_seconds;
		probe->parameters.reverse_seconds = probe->options->duration_seconds;
		session->depth = probe->options->depth;
		session->busy_poll = false;
	}
	/* where one did not come about the others are reported all the same */
	good = try_session(probe, BACK_SIZE, false);
	for (unsigned int i = 0; i < probe->outcome_count && !probe->process->signal_number; i++)
		good &= report_source_port(probe, &probe->outcomes[i]);
	return good;
}

/* ---- All with the server ---- */

/* Nobody answered: as in an ordinary session the next address is tried. False: there is none. */
static bool go_on(struct probe *probe)
{
	bool found;

	change_ending_signals(SIG_UNBLOCK);
	found = path_find_next(probe->path);
	change_ending_signals(SIG_BLOCK);
	if (!found)
		return false;
	probe->mode_is_known = false;
	probe->before.any = probe->after.any = false;
	memset(&probe->failure, 0, sizeof(probe->failure));
	return true;
}

void probe_init(struct probe *probe, const struct options *options, const struct process *process,
		struct findings *findings, struct path *path)
{
	memset(probe, 0, sizeof(*probe));
	probe->options = options;
	probe->process = process;
	probe->findings = findings;
	probe->path = path;
	probe->session = *options;
	probe->session.minimum_rate = 0; /* of rates alone, which are judged here */
	probe->session.duration_seconds = 0;
	probe->session.connections = 1; /* but at the end */
}

enum status probe_server(struct probe *probe, session_function run, void *argument)
{
	bool good;

	probe->run = run;
	probe->argument = argument;
	do
		good = try_sizes(probe) && try_rates(probe) && try_paths(probe);
	while (probe->failure.status != STATUS_SUCCESS && !probe->reached &&
	       !probe->process->signal_number && go_on(probe));
	if (probe->process->signal_number) /* perhaps when the session had succeeded */
		return STATUS_INTERRUPTED;
	if (probe->failure.status != STATUS_SUCCESS)
		return probe->failure.status;
	return good ? STATUS_SUCCESS : STATUS_LOCAL_FAILURE;
}

void probe_report_counters(struct probe *probe)
{
	const struct counters growth = counters_growth(&probe->before, &probe->after);
	uint64_t here = counters_errors(&growth), there = probe->peer_errors;
	const struct strbuf grown = counters_describe(&growth);

	if (!growth.any)
		return;
	if (there > 0 && (here > 0 || there > 1))
		strbuf_addf(&probe->findings->found,
			    "errors counted: %" PRIu64 " here, %" PRIu64 " there", here, there - 1);
	else if (here == 0)
		strbuf_addf(&probe->findings->found,
			    "no errors counted by this host's device%s meanwhile",
			    there > 0 ? ", nor by the server's," : "");
	if (grown.length > 0)
		strbuf_addf(&probe->findings->found, "%s%s",
			    probe->findings->found.length > 0 ? "; " : "", grown.text);
	findings_report(probe->findings, "counters", here == 0 && there <= 1);
	json_add_counters(probe->findings->latest, &growth);
	json_add_peer_errors(probe->findings->latest, there);
}
