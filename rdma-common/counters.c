// SPDX-License-Identifier: MIT
#include "counters.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "netlink.h"
#include "sysfs.h"

/* The field of struct sequence_errors to which a counter belongs. */
enum sequence_error {
	NO_LOSS,
	MISSING,
	NAK,
	RETRANSMITTED,
	SEQUENCE_ERRORS
};

/* clang-format off */
/* Counters of flushed work requests are not in this table: each session raises them at its end. */
static const struct {
	const char *name;
	enum sequence_error error;
	uint64_t most; /* the value at which the counter stops. 0 if there is none. */
} known[] = {
	/* rdma_rxe */
	{ "duplicate_request", NO_LOSS, 0 }, { "out_of_seq_request", MISSING, 0 },
	{ "rcvd_rnr_err", NO_LOSS, 0 }, { "send_rnr_err", NO_LOSS, 0 },
	{ "rcvd_seq_err", NAK, 0 }, { "retry_exceeded_err", NO_LOSS, 0 },
	{ "retry_rnr_exceeded_err", NO_LOSS, 0 }, { "completer_retry_err", RETRANSMITTED, 0 },
	{ "send_err", NO_LOSS, 0 }, { "link_downed", NO_LOSS, 0 },
	/* mlx5 */
	{ "out_of_sequence", MISSING, 0 }, { "out_of_buffer", NO_LOSS, 0 },
	{ "rnr_nak_retry_err", NO_LOSS, 0 }, { "packet_seq_err", NAK, 0 },
	{ "implied_nak_seq_err", RETRANSMITTED, 0 }, { "local_ack_timeout_err", RETRANSMITTED, 0 },
	{ "resp_local_length_error", NO_LOSS, 0 }, { "req_remote_invalid_request", NO_LOSS, 0 },
	{ "req_remote_access_errors", NO_LOSS, 0 }, { "resp_remote_access_errors", NO_LOSS, 0 },
	{ "req_transport_retries_exceeded", NO_LOSS, 0 },
	{ "req_rnr_retries_exceeded", NO_LOSS, 0 },
	{ "roce_adp_retrans", NO_LOSS, 0 }, { "roce_adp_retrans_to", NO_LOSS, 0 },
	{ "roce_slow_restart", NO_LOSS, 0 }, { "rx_icrc_encapsulated", NO_LOSS, 0 },
	{ "np_cnp_sent", NO_LOSS, 0 }, { "np_ecn_marked_roce_packets", NO_LOSS, 0 },
	{ "rp_cnp_handled", NO_LOSS, 0 }, { "rp_cnp_ignored", NO_LOSS, 0 },
	/* bnxt_re */
	{ "to_retransmits", RETRANSMITTED, 0 }, { "seq_err_naks_rcvd", NAK, 0 },
	{ "rnr_naks_rcvd", NO_LOSS, 0 }, { "max_retry_exceeded", NO_LOSS, 0 },
	{ "oos_drop_count", MISSING, 0 }, { "dup_req", NO_LOSS, 0 },
	{ "missing_resp", RETRANSMITTED, 0 },
	{ "rx_roce_errors", NO_LOSS, 0 }, { "rx_roce_discards", NO_LOSS, 0 },
	{ "tx_roce_discards", NO_LOSS, 0 }, { "rx_out_of_buffer", NO_LOSS, 0 },
	{ "rx_ecn_marked_pkts", NO_LOSS, 0 }, { "rx_cnp_pkts", NO_LOSS, 0 },
	{ "tx_cnp_pkts", NO_LOSS, 0 },
	/* irdma and cxgb4 */
	{ "cnpHandled", NO_LOSS, 0 }, { "cnpIgnored", NO_LOSS, 0 }, { "cnpSent", NO_LOSS, 0 },
	{ "tcpRetransSegs", RETRANSMITTED, 0 }, { "ip4RetransSegs", RETRANSMITTED, 0 },
	{ "ip6RetransSegs", RETRANSMITTED, 0 },
	/* InfiniBand: widths of PortCounters (InfiniBand Architecture, volume 1, 16.1.3.5) */
	{ "symbol_error", NO_LOSS, UINT16_MAX }, { "link_error_recovery", NO_LOSS, UINT8_MAX },
	{ "port_rcv_errors", NO_LOSS, UINT16_MAX },
	{ "port_rcv_remote_physical_errors", NO_LOSS, UINT16_MAX },
	{ "port_xmit_discards", NO_LOSS, UINT16_MAX },
	{ "local_link_integrity_errors", NO_LOSS, 15 },
	{ "excessive_buffer_overrun_errors", NO_LOSS, 15 }, { "VL15_dropped", NO_LOSS, UINT16_MAX },
	/* the port's waiting time, then the network interface's counters */
	{ "port_xmit_wait", NO_LOSS, 0 }, { "rx_pause_frames", NO_LOSS, 0 },
	{ "tx_pause_frames", NO_LOSS, 0 }, { "rx_missed_errors", NO_LOSS, 0 },
};
/* clang-format on */

/* Number of the port's own counters. The last three belong to the network interface. */
#define OF_THE_PORT (COUNTERS - 3)

_Static_assert(sizeof(known) / sizeof(known[0]) == COUNTERS,
	       "COUNTERS must be the number of known counters");

const char *counter_name(unsigned int number)
{
	return number < COUNTERS ? known[number].name : NULL;
}

/* Return the number of the port's counter with this name, or OF_THE_PORT if there is none. */
static unsigned int number_of(const char *name)
{
	unsigned int number = 0;

	while (number < OF_THE_PORT && strcmp(known[number].name, name) != 0)
		number++;
	return number;
}

/*
 * Read the known counters in a folder. Set `any` if there is one. List the folder, because trying
 * every known name took a twentieth of a session's time: most names belong to other drivers.
 */
__attribute__((format(printf, 2, 3))) static void read_folder(struct counters *counters,
							      const char *format, ...)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	va_list arguments;
	DIR *entries;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	entries = opendir(path);
	while (entries && (entry = readdir(entries))) {
		unsigned int number = number_of(entry->d_name);

		if (number < OF_THE_PORT &&
		    sysfs_read_number(dirfd(entries), entry->d_name, &counters->values[number]))
			counters->any = true;
	}
	if (entries)
		closedir(entries);
}

/*
 * Read the counters of the network interface of the port's first GID: pause frames, and frames
 * discarded because the host had no buffer (Linux, Documentation/networking/statistics.rst). These
 * counters include other traffic, such as TCP.
 */
static void read_interface(struct counters *counters, const char *device, unsigned int port)
{
	uint64_t *values = &counters->values[OF_THE_PORT];
	struct sysfs_line name = sysfs_read_line("%s/ports/%u/gid_attrs/ndevs/0", device, port);
	struct pause_frames frames;
	char path[PATH_MAX];

	if (!name.text[0])
		return;
	if (netlink_read_pause(name.text, &frames)) {
		values[0] = frames.received;
		values[1] = frames.sent;
	}
	snprintf(path, sizeof(path), "/sys/class/net/%.31s/statistics/rx_missed_errors", name.text);
	sysfs_read_number(AT_FDCWD, path, &values[2]);
}

void counters_read(struct counters *counters, const char *device, unsigned int port)
{
	memset(counters, 0, sizeof(*counters));
	read_interface(counters, device, port);
	/*
	 * Read the driver's counters last: they replace the port's counters of the same name. The
	 * driver cxgb4 has one folder of the device, for all ports.
	 */
	read_folder(counters, "%s/ports/%u/counters", device, port);
	read_folder(counters, "%s/hw_counters", device);
	read_folder(counters, "%s/ports/%u/hw_counters", device, port);
}

struct sequence_errors counters_sequence_errors(const struct counters *growth)
{
	uint64_t sums[SEQUENCE_ERRORS] = { 0 };

	for (unsigned int i = 0; i < COUNTERS; i++)
		sums[known[i].error] += growth->values[i];
	return (struct sequence_errors){
		.missing = sums[MISSING],
		.naks = sums[NAK],
		.retransmitted = sums[RETRANSMITTED] + sums[NAK],
	};
}

struct counters counters_growth(const struct counters *before, const struct counters *after)
{
	struct counters growth = { .any = before->any && after->any };

	for (unsigned int i = 0; growth.any && i < COUNTERS; i++) {
		if (after->values[i] > before->values[i])
			growth.values[i] = after->values[i] - before->values[i];
	}
	return growth;
}

void counters_keep_latest(struct counters *latest, const struct counters *other)
{
	latest->any |= other->any;
	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (other->values[i] > latest->values[i])
			latest->values[i] = other->values[i];
	}
}

uint64_t counters_errors(const struct counters *growth)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < ERROR_COUNTERS; i++)
		sum += growth->values[i];
	return sum;
}

struct strbuf counters_compare(const struct counters *growth, bool counted, uint64_t peer_errors)
{
	uint64_t here = counters_errors(growth);
	struct strbuf text = { 0 };

	if (counted && here == 0 && peer_errors == 0)
		strbuf_addf(&text, "neither device counted errors");
	else if (counted)
		strbuf_addf(&text,
			    "errors counted: %" PRIu64 " by this side, %" PRIu64 " by the peer",
			    here, peer_errors);
	else if (here == 0)
		strbuf_addf(&text, "this host's device counted no errors");
	return text;
}

struct strbuf counters_describe_full(const struct counters *counters)
{
	struct strbuf buf = { 0 };

	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (known[i].most > 0 && counters->values[i] == known[i].most)
			strbuf_addf(&buf, "%s%s %" PRIu64, buf.length > 0 ? ", " : "",
				    known[i].name, known[i].most);
	}
	return buf;
}

struct strbuf counters_describe(const struct counters *growth)
{
	struct strbuf buf = { 0 };

	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (growth->values[i] > 0)
			strbuf_addf(&buf, "%s%s %" PRIu64, buf.length > 0 ? ", " : "",
				    known[i].name, growth->values[i]);
	}
	return buf;
}
