// SPDX-License-Identifier: MIT
#include "server.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "../clock.h"
#include "../json.h"
#include "../log.h"

/* RDMA MTU, in bytes, for an Ethernet MTU of 1500 bytes, the most common limit of a path */
#define USUAL_MTU 1024
/* Pause, in ms, before the next request to a busy server (may_accept_soon()). */
#define BUSY_MILLISECONDS 100
/*
 * A direction is slow if the other one is this many times as fast in two measurements: on emulated
 * hosts, and on hosts that share processors, the rates differ by less. A session is slow if at
 * least half of the simultaneous ones are this many times as fast.
 */
#define MUCH_SLOWER 3
/* Bytes of each pass of a rate measurement. */
#define RATE_SIZE 65536
/* Latency is measured by MIN_READS to MAX_READS READs of READ_SIZE bytes. */
#define READ_SIZE 8
#define MAX_READS 1000
#define MIN_READS 10
/*
 * Packets of a session in each direction, as Soft-RoCE sends them, without those of its operations.
 * The number is approximate.
 */
#define SESSION_PACKETS 12
/*
 * Limits on a path that loses or delays packets, where sessions wait for retransmission timers. The
 * time counts from the first session's start, without rate measurements:
 *
 *   LOSSY_MILLISECONDS: No session begins later. A delayed transfer is interrupted, and
 *                       rule_out_loss() decides if another one may run.
 *   STOP_MILLISECONDS:  After excessive loss, a running session is interrupted.
 */
#define LOSSY_MILLISECONDS 10000
#define STOP_MILLISECONDS  15000

/* ---- The outcome of a session ---- */

static void count_packets(struct probe *probe, const struct connection *connection)
{
	const struct session *session = connection_session(connection);
	unsigned int mtu = probe->path->mtu > 0 ? probe->path->mtu : USUAL_MTU;
	uint64_t ours = session->measurement.bytes / mtu;
	uint64_t peers = session->peer_verdict.length / mtu;
	bool writes = probe->session.operation == OPERATION_WRITE;

	probe->packets_to_server += SESSION_PACKETS + (writes ? ours : peers);
	probe->packets_to_client += SESSION_PACKETS + (writes ? peers : ours);
}

/* Return the result of a direction. A completed operation shows only that the bytes arrived. */
static enum direction_result classify_direction(bool verified, bool completed)
{
	if (verified)
		return DIRECTION_VERIFIED;
	return completed ? DIRECTION_ARRIVED : DIRECTION_UNKNOWN;
}

void probe_take(struct probe *probe, const struct connection *connection)
{
	const struct setup *setup = &connection->setup;
	const struct session *session = connection_session(connection);
	struct outcome *outcome = &probe->outcomes[probe->outcome_count++];
	const struct message *verdict = &session->peer_verdict;
	const struct protocol *protocol = &session->protocol;
	bool completed = operation_completed(session) && !protocol->gave_up;
	bool accepted = protocol->remote == REMOTE_VERDICT &&
			protocol->peer_verdict.status == STATUS_SUCCESS;
	bool peer_completed = protocol->remote == REMOTE_DONE || protocol->remote == REMOTE_VERDICT;
	/* over iWARP only the server's verdict shows that the bytes arrived, not a completion */
	int64_t elapsed = MAX(session->verdict_time - session->measurement.started, 1);
	double scale = 8e9 / (double)elapsed;

	*outcome = (struct outcome){
		.rejected = connection->rejected,
		.rejection = connection->rejection,
		.connect_status = connection->connect_status,
		.connected = protocol->connected,
		.hello = setup->terms.peer,
		.port = source_port(setup->id),
		.to_server = classify_direction(accepted, peer_completed),
		.to_client = classify_direction(digest_matched(protocol), completed),
		.end = connection->outcome,
		.elapsed = elapsed,
		.rates = { (double)session->measurement.bytes * scale,
			   (double)verdict->length * scale },
	};
	snprintf(outcome->peer, sizeof(outcome->peer), "%s", setup->peer.text);
	probe->connected |= protocol->connected;
	count_packets(probe, connection);
	if (session->measurement.latency)
		probe->latency = *session->measurement.latency;
	if (!probe->before.any)
		probe->before = setup->before;
	counters_keep_latest(&probe->after, &connection->after);
	/* the server's port counts the errors of all simultaneous sessions: take the maximum */
	if (probe->outcome_count == 1 || !probe->latest.counted ||
	    verdict->errors > probe->latest.errors)
		probe->latest = (struct peer_counts){
			.counted = verdict->counted,
			.errors = verdict->errors,
			.missing = verdict->missing,
			.retransmitted = verdict->retransmitted,
		};
	if (probe->outcome_count > 1) {
		enum status worst = probe->outcome->end.status;

		if (worse_status(worst, connection->outcome.status) == worst)
			return;
	}
	probe->outcome = outcome;
}

/* ---- What a session shows ---- */

/* Return true if packets may have been lost: the peer, or its adapter, does not answer. */
static bool is_silence(enum status status)
{
	return status == STATUS_TIMED_OUT || status == STATUS_PEER_LOST;
}

/* Report the server's hello. Give advice if its port has a smaller MTU than this host's. */
static void report_server(struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	const char *name = outcome->hello.device;
	/* over InfiniBand the subnet manager chooses the MTU of the path */
	unsigned int mtu = probe->path->iwarp || probe->path->infiniband
				   ? 0
				   : mtu_bytes((enum ibv_mtu)outcome->hello.mtu);
	char *device = escape((const uint8_t *)name, strlen(name));

	strbuf_addf(&probe->findings->found, "%s: rdma-server", outcome->peer);
	if (device && *device)
		strbuf_addf(&probe->findings->found, ", device %s", device);
	if (probe->path->gid[0])
		strbuf_addf(&probe->findings->found, ", GID %s", probe->path->gid);
	if (mtu > 0)
		strbuf_addf(&probe->findings->found, ", MTU of its port %u bytes", mtu);
	/* both sides send packets of the client's MTU, which the connect request carries */
	if (mtu > 0 && mtu < probe->path->mtu)
		strbuf_addf(&probe->findings->advice,
			    "the MTU is %u bytes on this host and %u on the server's: set the same "
			    "MTU on both hosts and the switches between them ('ip link set ... "
			    "mtu'), or packets above %u bytes may vanish",
			    probe->path->mtu, mtu, mtu);
	findings_report(probe->findings, "server", true);
	json_add_text(probe->findings->latest, "device", *name ? name : NULL);
	free(device);
}

/*
 * Return the size for ping(8) whose packets are as long as those of a WRITE of probe->size bytes.
 * After the IP header ping has 8 bytes of ICMP, and RoCE v2 has:
 *
 *   8 bytes of UDP, 12 of BTH, 16 of RETH, the payload padded to a multiple of 4, 4 of ICRC
 *
 * RoCE v1 has 40 bytes of GRH instead of IP and UDP. Over iWARP TCP chooses the length of packets,
 * so return probe->size.
 */
static uint64_t ping_size(const struct probe *probe)
{
	unsigned int ip = probe->path->address->ai_family == AF_INET6 ? 40 : 20;

	if (probe->path->iwarp)
		return probe->size;
	return (probe->size + 3) / 4 * 4 + (probe->path->roce_v1 ? 40 - ip : 8) + 12 + 16 + 4 - 8;
}

static bool both_arrived(const struct probe *probe)
{
	return probe->to_server >= DIRECTION_ARRIVED && probe->to_client >= DIRECTION_ARRIVED;
}

bool probe_lacks_bytes(const struct probe *probe)
{
	return probe->verified == 0 &&
	       (probe->lacked_bytes ||
		(probe->outcome && probe->outcome->connected &&
		 is_silence(probe->outcome->end.status) && !both_arrived(probe)));
}

bool probe_is_unreached(const struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	enum status status = probe->failure.status;

	return probe->verified == 0 && outcome && !outcome->connected && !probe->reached &&
	       (status == STATUS_REFUSED || status == STATUS_TIMED_OUT);
}

/* Return the length of a cause without the advice at its end. */
static int plain_length(const char *cause)
{
	const char *advice = strstr(cause, "; "), *check = strstr(cause, ": check");

	if (!advice || (check && check < advice))
		advice = check;
	return (int)(advice ? (size_t)(advice - cause) : strlen(cause));
}

/* Report a session that got no connection. Return false. */
static bool report_no_connection(struct probe *probe)
{
	const struct outcome *outcome = probe->outcome;
	bool told = refusal_of(&outcome->rejection) != REFUSAL_NONE;
	bool left = outcome->end.status == STATUS_REFUSED || is_silence(outcome->end.status);
	const char *cause = outcome->end.cause;

	/* the finding of step "reach" has better advice */
	strbuf_addf(&probe->findings->found, "%s: session of %" PRIu64 " byte%s: %.*s",
		    outcome->peer, probe->size, plural(probe->size),
		    probe_is_unreached(probe) ? plain_length(cause) : CAUSE_SIZE, cause);
	if (probe->verified > 0 && left && !told)
		strbuf_addf(&probe->findings->advice,
			    "the server accepted an earlier session: check that it still runs and "
			    "does not hang, that it runs without --one-off, and that the path to "
			    "it is up; then run this again");
	findings_report(probe->findings, "server", probe->path->untried && !probe->reached);
	return false;
}

/* Replace the advice at the end of probe->failure by what the sessions have shown. */
static void add_cause(struct probe *probe, const char *shown)
{
	struct failure before = probe->failure;

	failure_set(&probe->failure, before.status, "%.*s; %s", plain_length(before.cause),
		    before.cause, shown);
}

/* Name the cause of a failure: one size has failed twice, and a smaller one was verified. */
static void name_cause(struct probe *probe)
{
	struct strbuf *advice = &probe->findings->advice, cause = { 0 };
	const char *direction = "in one direction at least";

	if (probe->to_server == DIRECTION_FAILED)
		direction = "from client to server";
	else if (probe->to_client == DIRECTION_FAILED)
		direction = "from server to client";
	probe->mtu_named = !probe->path->infiniband && probe->verified < probe->path->mtu;
	if (probe->path->infiniband) {
		strbuf_addf(&cause, "packets are lost %s", direction);
		strbuf_addf(advice,
			    "look at the path that the subnet manager has set up, at its MTU, and "
			    "at the counters of its links ('ibdiagnet', 'ibtracert', 'perfquery')");
	} else if (probe->mtu_named) { /* no packet of full size has passed */
		strbuf_addf(&cause,
			    "large packets vanish %s: size %" PRIu64 " passes, size %" PRIu64
			    " fails repeatedly",
			    direction, probe->verified, probe->size);
		strbuf_addf(advice,
			    "set the same MTU everywhere ('ip link set ... mtu', and the ports of "
			    "switches): a host or switch on the path has a smaller one than the "
			    "adapters use (%u bytes and headers); 'ping -M do -s %" PRIu64
			    "' from both hosts tests the path",
			    probe->path->mtu, ping_size(probe));
	} else {
		strbuf_addf(&cause,
			    "packets of every size arrive, but not %" PRIu64 " bytes at a time %s",
			    probe->size, direction);
		strbuf_addf(advice, "see the line 'counters', 'ethtool -S' on both hosts, and the "
				    "counters of the switches; check flow control (PFC, ECN) and "
				    "cables");
	}
	add_cause(probe, cause.text);
}

static const char *const result_names[] = { "not known", "failed", "arrived", "verified" };

static void add_directions(struct probe *probe)
{
	struct json_object *finding = probe->findings->latest;

	json_add_count(finding, "bytes", probe->size);
	json_add_text(finding, "client_to_server", result_names[probe->to_server]);
	json_add_text(finding, "server_to_client", result_names[probe->to_client]);
}

static void report_transfer(struct probe *probe)
{
	bool good = probe->failure.status == STATUS_SUCCESS;

	strbuf_addf(&probe->findings->found,
		    "%" PRIu64 " byte%s: client to server %s, server to client %s%s%s", probe->size,
		    plural(probe->size), result_names[probe->to_server],
		    result_names[probe->to_client], good ? "" : ": ", probe->failure.cause);
	findings_report(probe->findings, "transfer", good);
	add_directions(probe);
}

/* ---- Sessions ---- */

/*
 * Return true if the server has rejected the session, and may accept one soon:
 *
 * - It has as many sessions as it may have.
 * - After a good session it lacks memory, because it releases the memory of that session a little
 *   later than the client. Over iWARP this rejection may come without its reason: the reset of the
 *   connection may overtake the reason.
 */
static bool may_accept_soon(const struct probe *probe)
{
	const struct peer_hello *server = &probe->outcome->rejection;
	bool early = server->hello_kind == HELLO_ABSENT ? probe->path->iwarp
							: refusal_of(server) == REFUSAL_MEMORY;

	if (!probe->outcome->rejected)
		return false;
	return (early && probe->verified > 0) || refusal_of(server) == REFUSAL_SESSIONS;
}

/* Return true if the next session only transfers a size. */
static bool is_transfer(const struct probe *probe)
{
	return !strcmp(probe->step, "transfer");
}

/* Return true if a session failed. A low rate does not count. */
static bool has_failed(const struct probe *probe)
{
	return probe->failure.status != STATUS_SUCCESS && probe->failure.status != STATUS_TOO_SLOW;
}

/*
 * Return true if the next session may begin. Set probe->stop_time, counted from the start of the
 * first session. The time of rate measurements does not count. The first row that applies:
 *
 *   never               probe->needs_explaining is set
 *   STOP_MILLISECONDS   the loss is excessive
 *   LOSSY_MILLISECONDS  retransmissions may delay a transfer, and probe->patient is not set
 *   never               otherwise
 *
 * If there is a stop time, and LOSSY_MILLISECONDS have passed, set probe->stopped, and return
 * false.
 */
static bool may_begin(struct probe *probe)
{
	const struct loss *loss = &probe->loss;
	bool delayed = (loss->late || loss->share > 0) && is_transfer(probe) && !probe->patient;
	bool limited = !probe->needs_explaining && (loss->excessive || delayed);
	int64_t now = now_milliseconds(), begun;

	if (probe->begun == 0)
		probe->begun = now;
	begun = probe->begun + probe->measuring;
	probe->stop_time = INT64_MAX;
	if (limited)
		probe->stop_time =
			begun + (loss->excessive ? STOP_MILLISECONDS : LOSSY_MILLISECONDS);
	probe->stopped = limited && now >= begun + LOSSY_MILLISECONDS;
	return !probe->stopped;
}

/* Report that a session was left out or interrupted because packets are lost. */
static void report_stopped(struct probe *probe)
{
	double seconds = (double)(now_milliseconds() - probe->begun) / 1e3;

	if (!probe->loss.excessive) /* otherwise add_loss() sets the failure */
		failure_set(&probe->failure, STATUS_TIMED_OUT,
			    "the sessions have taken %.0f s, and packets are lost", seconds);
	if (is_transfer(probe))
		strbuf_addf(&probe->findings->found, "%" PRIu64 " byte%s: ", probe->size,
			    plural(probe->size));
	strbuf_addf(&probe->findings->found,
		    "not %s: packets are lost, and the sessions have taken %.0f s",
		    is_transfer(probe) ? "verified" : "measured", seconds);
	findings_report(probe->findings, probe->step, false);
	probe->to_server = probe->to_client = DIRECTION_UNKNOWN;
	if (is_transfer(probe))
		add_directions(probe);
}

/*
 * Add the server's counts of the latest sessions to those of the earlier ones, and compare the
 * share of packets lost so far with MAX_LOSS.
 */
static void classify_loss(struct probe *probe)
{
	const struct counters growth = counters_growth(&probe->before, &probe->after);
	const struct peer_counts *latest = &probe->latest;

	probe->peer.counted |= latest->counted;
	probe->peer.errors += latest->errors;
	probe->peer.missing += latest->missing;
	probe->peer.retransmitted += latest->retransmitted;
	probe->loss = loss_classify(&growth, &probe->peer, probe->packets_to_server,
				    probe->packets_to_client);
}

/*
 * Run the next sessions. The client sends `size` bytes, and the server `wanted` bytes. While the
 * server rejects them, but may accept them soon, repeat them until --timeout. Keep the first
 * failure in probe->failure. Return false if a session did not run, or was stopped.
 */
static bool try_session(struct probe *probe, uint64_t size, uint32_t wanted)
{
	const struct outcome *outcome;
	int64_t busy_deadline = now_milliseconds() + timeout_milliseconds(probe->options);
	bool complete;

	probe->session.pattern_size = size;
	probe->session.wanted = wanted;
	do {
		if (!may_begin(probe))
			return false;
		probe->outcome_count = 0;
		probe->run(probe, probe->argument);
		complete = probe->outcome_count == probe->session.connections;
		if (probe->outcome_count == 0)
			return false;
		classify_loss(probe);
		outcome = probe->outcome;
		probe->stopped = outcome->end.status == STATUS_INTERRUPTED &&
				 !probe->process->signal_number &&
				 now_milliseconds() >= probe->stop_time;
		if (probe->stopped)
			return false;
		probe->start = now_milliseconds() + BUSY_MILLISECONDS;
	} while (complete && probe->start < busy_deadline && may_accept_soon(probe));
	probe->start = 0;
	if (outcome->end.status != STATUS_SUCCESS &&
	    (!has_failed(probe) || outcome->end.status == STATUS_INTERRUPTED)) {
		probe->needs_explaining = probe->stop_time == INT64_MAX;
		failure_set(&probe->failure, outcome->end.status, "%s", outcome->end.cause);
	}
	return complete;
}

/*
 * Let the next sessions perform this operation: the client for `ours` seconds, and the server for
 * `theirs`. A side with 0 seconds transfers its size once.
 */
static void set_operation(struct probe *probe, enum operation operation, unsigned int ours,
			  unsigned int theirs)
{
	probe->session.operation = operation;
	probe->session.duration_seconds = ours;
	probe->session.wanted_seconds = theirs;
	probe->measuring += (int64_t)MAX(ours, theirs) * 1000;
}

/*
 * Run a session that measures. If it fails, report that as a finding of `step`. Return false if it
 * failed or did not run.
 */
static bool run_measurement(struct probe *probe, const char *step, uint64_t size, uint32_t wanted)
{
	probe->step = step;
	if (!try_session(probe, size, wanted))
		return false;
	if (probe->outcome->end.status == STATUS_SUCCESS)
		return true;
	strbuf_addf(&probe->findings->found, "not measured: %s", probe->outcome->end.cause);
	return findings_report(probe->findings, step, false);
}

/*
 * After silence in both directions, find the direction that fails: send probe->size bytes to the
 * server, which sends one byte. Return true if the results suffice for advice.
 */
static bool find_direction(struct probe *probe)
{
	if (!try_session(probe, probe->size, 1))
		return false;
	probe->to_server = probe->outcome->to_server;
	if (probe->to_server == DIRECTION_VERIFIED)
		probe->to_client = DIRECTION_FAILED;
	if (!probe->outcome->connected)
		return false;
	if (!probe->to_server && is_silence(probe->outcome->end.status))
		probe->to_server = DIRECTION_FAILED;
	return is_silence(probe->failure.status);
}

/*
 * After silence, repeat the largest size that was verified. Return true if the server still
 * answers, so that the larger size may be the cause. Otherwise return false, with advice if the
 * server or the path may have failed.
 */
static bool passes_again(struct probe *probe)
{
	const struct outcome *outcome;
	enum status status;

	if (!try_session(probe, probe->verified, (uint32_t)probe->verified))
		return false;
	outcome = probe->outcome;
	status = outcome->end.status;
	if (status == STATUS_SUCCESS || refusal_of(&outcome->rejection) != REFUSAL_NONE)
		return true;
	if (is_silence(status) || status == STATUS_REFUSED || status == STATUS_UNRESOLVED)
		strbuf_addf(&probe->findings->advice,
			    "a session of %" PRIu64
			    " byte%s fails now as well (%s): check that the "
			    "server still runs and that the path to it is up; then run this again",
			    probe->verified, plural(probe->verified), outcome->end.cause);
	return false;
}

/*
 * After silence, repeat the size: a single failure may be due to lost or late packets. If each
 * direction delivered the size in at least one of the two sessions, report that, and return false.
 * Otherwise keep the better result of each direction, and return true if the second session got no
 * answer either.
 */
static bool fails_again(struct probe *probe)
{
	enum direction_result to_server, to_client;

	if (!try_session(probe, probe->size, (uint32_t)probe->size))
		return false;
	to_server = MAX(probe->to_server, probe->outcome->to_server);
	to_client = MAX(probe->to_client, probe->outcome->to_client);
	if (to_server < DIRECTION_ARRIVED || to_client < DIRECTION_ARRIVED) {
		probe->to_server = to_server;
		probe->to_client = to_client;
		return is_silence(probe->outcome->end.status);
	}
	probe->lacked_bytes = false;
	add_cause(probe, "each direction delivered this size in at least one of two sessions, so "
			 "packets are lost or late");
	strbuf_addf(&probe->findings->advice,
		    "run this again; see the line 'counters', and the load of both hosts");
	return false;
}

/*
 * Find out by other sessions why a size got no answer, and advise what to change.
 *
 * - The size is repeated. A direction whose bytes arrived in neither session has failed if those of
 *   the other direction arrived.
 * - If no bytes arrived at all, find_direction() decides.
 * - If no size was verified before, a rule explains the result (probe_lacks_bytes()).
 */
static void explain_silence(struct probe *probe)
{
	bool any = probe->verified > 0;

	probe->lacked_bytes = probe_lacks_bytes(probe);
	if (any ? !passes_again(probe) : !probe->to_server && !probe->to_client)
		return;
	if (both_arrived(probe) || !fails_again(probe))
		return;
	if (probe->to_server && !probe->to_client)
		probe->to_client = DIRECTION_FAILED;
	else if (probe->to_client && !probe->to_server)
		probe->to_server = DIRECTION_FAILED;
	else if (!probe->to_server && !find_direction(probe))
		return;
	if (any)
		name_cause(probe);
}

/*
 * After a transfer was stopped, find out if packets are lost or only late. WRITEs in both
 * directions show each gap at once. READs do not show the difference: the adapter requests a lost
 * response again after a timeout, like a late one. Return true if packets are only late.
 */
static bool rule_out_loss(struct probe *probe)
{
	bool written;

	if (!probe->stopped || probe->loss.excessive)
		return false;
	probe->patient = true;
	set_operation(probe, OPERATION_WRITE, 1, 1);
	written = run_measurement(probe, "rate", RATE_SIZE, RATE_SIZE);
	set_operation(probe, OPERATION_READ, 0, 0);
	probe->step = "transfer";
	probe->stopped = written && probe->loss.excessive;
	return written && !probe->stopped;
}

/*
 * Transfer `size` bytes in each direction, and report the result. If the transfer was stopped
 * because packets are late, repeat it without a time limit. Return false after a failure.
 */
static bool try_size(struct probe *probe, uint32_t size)
{
	const struct outcome *outcome;
	bool good;

	probe->size = size;
	probe->step = "transfer";
	if (!try_session(probe, size, size) &&
	    !(rule_out_loss(probe) && try_session(probe, size, size)))
		return false;
	outcome = probe->outcome;
	if (!outcome->connected)
		return report_no_connection(probe);
	if (probe->verified == 0 && outcome->hello.version > 0)
		report_server(probe);
	probe->to_server = outcome->to_server;
	probe->to_client = outcome->to_client;
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
 * Try sizes around the length of a packet, and sizes of many packets. Over iWARP, TCP chooses the
 * length of packets: leave out two sizes. Return false if a size failed.
 */
static bool try_sizes(struct probe *probe)
{
	const uint32_t mtu = probe->path->mtu, packet = probe->path->iwarp ? 0 : mtu;
	const uint32_t sizes[] = { 1,
				   mtu > USUAL_MTU ? USUAL_MTU : 0,
				   packet ? packet - 1 : 0,
				   packet,
				   mtu ? mtu + 1 : 0,
				   (uint32_t)64 << 10,
				   MAX_WANTED };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] && !try_size(probe, sizes[i]))
			return false;
	}
	probe->all_verified = true;
	return true;
}

/* ---- Rates ---- */

/* Store the slower direction. Return how many times as fast the other one is. */
static double skew(const struct rates *rates, const char **slower)
{
	bool server = rates->to_server < rates->to_client;
	double least = MIN(rates->to_server, rates->to_client);
	double most = MAX(rates->to_server, rates->to_client);

	*slower = server ? "client to server" : "server to client";
	return most > 0 ? most / MAX(least, 1) : 1;
}

/* Measure the rate of WRITEs in each direction, in bit/s. Return false if that failed. */
static bool measure_rates(struct probe *probe, struct rates *rates)
{
	unsigned int seconds = probe->options->duration_seconds;

	set_operation(probe, OPERATION_WRITE, seconds, 0);
	if (!run_measurement(probe, "rate", RATE_SIZE, 1))
		return false;
	rates->to_server = probe->outcome->rates.to_server;
	set_operation(probe, OPERATION_WRITE, 0, seconds);
	if (!run_measurement(probe, "rate", 1, RATE_SIZE))
		return false;
	rates->to_client = probe->outcome->rates.to_client;
	return true;
}

static void append_rate(struct probe *probe, const char *direction, double rate)
{
	strbuf_addf(&probe->findings->found, "%s%s %s",
		    probe->findings->found.length > 0 ? ", " : "", direction,
		    rate_describe(rate).text);
	if (probe->path->link_rate > 0)
		strbuf_addf(&probe->findings->found, " (%.0f %% of the link's %s)",
			    rate * 100 / probe->path->link_rate,
			    rate_describe(probe->path->link_rate).text);
}

/* Set probe->failure if a direction is slower than --min-rate. */
static void compare_rates(struct probe *probe, const struct rates *rates, const char *slower)
{
	double wanted = (double)probe->options->minimum_rate;
	double least = MIN(rates->to_server, rates->to_client);
	bool both = rates->to_server < wanted && rates->to_client < wanted;

	if (probe->failure.status == STATUS_SUCCESS && least < wanted)
		failure_set(&probe->failure, STATUS_TOO_SLOW,
			    "slower than --min-rate %s%s: %s instead of %s; the contents are right",
			    both ? "in both directions" : "from ", both ? "" : slower,
			    rate_describe(least).text, rate_describe(wanted).text);
}

static void add_rates(struct probe *probe, const struct rates *rates)
{
	json_add_number(probe->findings->latest, "client_to_server_bits_per_second",
			rates->to_server, true);
	json_add_number(probe->findings->latest, "server_to_client_bits_per_second",
			rates->to_client, true);
}

static void report_rates(struct probe *probe, const struct rates *rates)
{
	const char *slower;
	double factor = skew(rates, &slower);
	bool skewed;

	/* lost packets explain a difference */
	skewed = factor >= MUCH_SLOWER && !probe->loss.excessive;
	append_rate(probe, "client to server", rates->to_server);
	append_rate(probe, "server to client", rates->to_client);
	compare_rates(probe, rates, slower);
	if (probe->path->is_software)
		strbuf_addf(&probe->findings->found,
			    "; a software device has no link rate to compare with");
	if (probe->failure.status == STATUS_TOO_SLOW)
		strbuf_addf(&probe->findings->found, "; %s", probe->failure.cause);
	if (skewed)
		strbuf_addf(&probe->findings->advice,
			    "%s is %.1f times as slow as the other direction, measured twice: look "
			    "at the queue of the host that sends ('tc -s qdisc'), the line "
			    "'counters', flow control (PFC), cables, switches, and PCIe on both "
			    "sides",
			    slower, factor);
	else if (probe->failure.status == STATUS_TOO_SLOW)
		strbuf_addf(&probe->findings->advice,
			    "run 'rdma-client --check', which reports PCIe, NUMA and the speed of "
			    "ports, on both hosts; look for other traffic on the path");
	findings_report(probe->findings, "rate", probe->failure.status == STATUS_SUCCESS);
	add_rates(probe, rates);
	json_add_number(probe->findings->latest, "link_bits_per_second", probe->path->link_rate,
			probe->path->link_rate > 0);
}

/* Measure how long a READ takes, one at a time, with busy polling. Return false if that failed. */
static bool try_latency(struct probe *probe)
{
	const struct latency *latency = &probe->latency;
	/* this number of READs takes less than 10 s: one is quicker than probe->exchange */
	int64_t fit = INT64_C(10000000000) / probe->exchange;
	double median, late;

	set_operation(probe, OPERATION_READ, 0, 0);
	probe->session.iterations = (unsigned int)MAX(MIN(fit, MAX_READS), MIN_READS);
	probe->session.depth = 1;
	probe->session.busy_poll = true;
	if (!run_measurement(probe, "latency", READ_SIZE, READ_SIZE))
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

/* Measure both rates, twice if one looks slow, and latency. Return false if that failed. */
static bool try_rates(struct probe *probe)
{
	double wanted = (double)probe->options->minimum_rate;
	struct rates rates = { 0 };
	const char *slower;

	if (probe->options->duration_seconds == 0)
		return true;
	if (!measure_rates(probe, &rates))
		return false;
	/* a second measurement decides, unless lost packets explain a slow rate */
	if ((skew(&rates, &slower) >= MUCH_SLOWER ||
	     MIN(rates.to_server, rates.to_client) < wanted) &&
	    !probe->loss.excessive && !measure_rates(probe, &rates))
		return false;
	report_rates(probe, &rates);
	return try_latency(probe);
}

/* ---- Several connections at once ---- */

/*
 * Return true if at least half of the successful sessions are more than MUCH_SLOWER times as fast
 * as this one in one direction.
 */
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

/* Report a simultaneous session by its source port. Return true if the session succeeded. */
static bool report_source_port(struct probe *probe, const struct outcome *outcome)
{
	bool good = outcome->end.status == STATUS_SUCCESS;
	bool measured = good && probe->options->duration_seconds > 0;
	bool slow = measured && is_slow(probe, outcome);

	strbuf_addf(&probe->findings->found, "%s: ", source_port_describe(outcome->port).text);
	if (measured)
		strbuf_addf(&probe->findings->found, "client to server %s, server to client %s",
			    rate_describe(outcome->rates.to_server).text,
			    rate_describe(outcome->rates.to_client).text);
	else
		strbuf_addf(&probe->findings->found, "%s",
			    good ? "verified in both directions" : outcome->end.cause);
	if (slow)
		strbuf_addf(&probe->findings->advice,
			    "at least half of the successful sessions are three times as fast");
	if (outcome->port > 0 && (slow || is_silence(outcome->end.status)))
		strbuf_addf(&probe->findings->advice,
			    "%swhere several paths lead to the server, switches choose one by the "
			    "source port (ECMP): look at the links and switches of that path",
			    slow ? "; " : "");
	findings_report(probe->findings, "path", good);
	json_add_known(probe->findings->latest, "source_port", outcome->port);
	if (measured)
		add_rates(probe, &outcome->rates);
	return good;
}

/*
 * Run --connections sessions at once, perhaps on different paths. If rates are measured, both sides
 * write for --duration. Return false if a session failed.
 */
static bool try_paths(struct probe *probe)
{
	unsigned int seconds = probe->options->duration_seconds;
	struct options *session = &probe->session;
	bool good;

	session->connections = probe->options->connections;
	probe->step = "path";
	if (session->connections == 1)
		return true;
	if (seconds > 0)
		set_operation(probe, OPERATION_WRITE, seconds, seconds);
	session->iterations = 0; /* no latency */
	session->depth = probe->options->depth;
	session->busy_poll = false;
	good = try_session(probe, RATE_SIZE, RATE_SIZE);
	/* report the sessions that ran, even if another one did not */
	for (unsigned int i = 0; i < probe->outcome_count && !probe->process->signal_number; i++)
		good &= report_source_port(probe, &probe->outcomes[i]);
	return good;
}

/* ---- All sessions ---- */

/* Find the next address with a route, and reset the results. Return false if none is left. */
static bool go_on(struct probe *probe)
{
	bool found;

	unblock_ending_signals();
	found = path_find_next(probe->path);
	block_ending_signals();
	if (!found)
		return false;
	probe->before.any = probe->after.any = false;
	probe->packets_to_server = probe->packets_to_client = 0;
	probe->begun = probe->measuring = 0;
	probe->lacked_bytes = false;
	probe->loss = (struct loss){ 0 };
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
	probe->session.minimum_rate = 0; /* compare_rates() applies it */
	probe->session.duration_seconds = 0;
	probe->session.connections = 1; /* until try_paths() */
	probe->stop_time = INT64_MAX;   /* until may_begin() */
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
	if (probe->process->signal_number) /* even if all sessions succeeded before */
		return STATUS_INTERRUPTED;
	if (probe->stopped && !has_failed(probe))
		report_stopped(probe);
	if (probe->failure.status != STATUS_SUCCESS)
		return probe->failure.status;
	return good || probe->stopped ? STATUS_SUCCESS : STATUS_LOCAL_FAILURE;
}

/* ---- Lost packets ---- */

/*
 * Add lost packets with their share, or late or reordered packets, to the finding. If the loss is
 * excessive, and the status is a success, set probe->failure.
 */
static void add_loss(struct probe *probe, enum status status)
{
	const struct loss *loss = &probe->loss;
	const struct strbuf text = loss_describe(loss);

	strbuf_addf(&probe->findings->found, "%s%s", text.text, text.length > 0 ? "; " : "");
	/* the finding of a failed session has the advice already */
	if (!loss->excessive || probe->needs_explaining)
		return;
	strbuf_addf(&probe->findings->advice, "one of: %s",
		    loss_advice(probe->path->is_software, probe->path->infiniband));
	if (status == STATUS_SUCCESS)
		failure_set(&probe->failure, STATUS_TOO_SLOW, "%s: the limit is %g %%", text.text,
			    MAX_LOSS);
}

/* Add both sides' errors, and the counters that have grown, to the finding. */
static void add_counters(struct probe *probe, const struct counters *growth)
{
	const struct strbuf errors =
		counters_compare(growth, probe->peer.counted, probe->peer.errors);
	const struct strbuf grown = counters_describe(growth);
	const struct strbuf full = counters_describe_full(&probe->after);
	struct strbuf *found = &probe->findings->found;

	strbuf_addf(found, "%s%s%s", errors.text, errors.length > 0 && grown.length > 0 ? "; " : "",
		    grown.text);
	if (full.length > 0)
		strbuf_addf(found,
			    "; at its maximum, so it counts no more: %s ('perfquery -R' resets it)",
			    full.text);
}

enum status probe_report_counters(struct probe *probe, enum status status)
{
	const struct counters growth = counters_growth(&probe->before, &probe->after);
	const struct loss *loss = &probe->loss;

	if (probe->begun == 0 || (!growth.any && probe->verified == 0) ||
	    (!probe->connected && counters_describe(&growth).length == 0))
		return status;
	if (probe->mtu_named) /* the MTU explains the loss */
		probe->loss = (struct loss){ 0 };
	add_loss(probe, status);
	if (growth.any)
		add_counters(probe, &growth);
	else
		strbuf_addf(&probe->findings->found,
			    "this host's device has no error counters, which would show lost "
			    "packets");
	findings_report(probe->findings, "counters", !loss->excessive);
	json_add_counters(probe->findings->latest, &growth);
	json_add_peer_errors(probe->findings->latest, probe->peer.counted, probe->peer.errors);
	json_add_number(probe->findings->latest, "lost_share", loss->share,
			growth.any && !probe->mtu_named);
	json_add_text(probe->findings->latest, "lost_direction", loss->direction);
	return loss->excessive && status == STATUS_SUCCESS ? STATUS_TOO_SLOW : status;
}

bool probe_print_end(const struct probe *probe, enum status status)
{
	struct console *console = probe->process->console;
	const struct strbuf lost = loss_describe(&probe->loss);

	if (probe->loss.excessive && status == STATUS_TOO_SLOW)
		print_result(console, "%s %s.",
			     probe->all_verified ? "Ready, but" : "Not ready:", lost.text);
	else if (status == STATUS_SUCCESS)
		print_result(console, "Ready. All sizes arrived in both directions, verified%s%s.",
			     probe->loss.direction ? "; " : "",
			     probe->loss.direction ? lost.text : "");
	else
		return false;
	return true;
}
