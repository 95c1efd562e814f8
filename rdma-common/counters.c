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
	{ .name = "duplicate_request" }, { .name = "out_of_seq_request", .error = MISSING },
	{ .name = "rcvd_rnr_err" }, { .name = "send_rnr_err" },
	{ .name = "rcvd_seq_err", .error = NAK }, { .name = "retry_exceeded_err" },
	{ .name = "retry_rnr_exceeded_err" },
	{ .name = "completer_retry_err", .error = RETRANSMITTED }, { .name = "send_err" },
	{ .name = "link_downed" },
	/* mlx5 */
	{ .name = "out_of_sequence", .error = MISSING }, { .name = "out_of_buffer" },
	{ .name = "rnr_nak_retry_err" }, { .name = "packet_seq_err", .error = NAK },
	{ .name = "implied_nak_seq_err", .error = RETRANSMITTED },
	{ .name = "local_ack_timeout_err", .error = RETRANSMITTED },
	{ .name = "resp_local_length_error" }, { .name = "req_remote_invalid_request" },
	{ .name = "req_remote_access_errors" }, { .name = "resp_remote_access_errors" },
	{ .name = "req_transport_retries_exceeded" }, { .name = "req_rnr_retries_exceeded" },
	{ .name = "roce_adp_retrans" }, { .name = "roce_adp_retrans_to" },
	{ .name = "roce_slow_restart" }, { .name = "rx_icrc_encapsulated" },
	{ .name = "np_cnp_sent" }, { .name = "np_ecn_marked_roce_packets" },
	{ .name = "rp_cnp_handled" }, { .name = "rp_cnp_ignored" },
	/* bnxt_re */
	{ .name = "to_retransmits", .error = RETRANSMITTED },
	{ .name = "seq_err_naks_rcvd", .error = NAK }, { .name = "rnr_naks_rcvd" },
	{ .name = "max_retry_exceeded" }, { .name = "oos_drop_count", .error = MISSING },
	{ .name = "dup_req" }, { .name = "missing_resp", .error = RETRANSMITTED },
	{ .name = "rx_roce_errors" }, { .name = "rx_roce_discards" },
	{ .name = "tx_roce_discards" }, { .name = "rx_out_of_buffer" },
	{ .name = "rx_ecn_marked_pkts" }, { .name = "rx_cnp_pkts" }, { .name = "tx_cnp_pkts" },
	/* irdma and cxgb4 */
	{ .name = "cnpHandled" }, { .name = "cnpIgnored" }, { .name = "cnpSent" },
	{ .name = "tcpRetransSegs", .error = RETRANSMITTED },
	{ .name = "ip4RetransSegs", .error = RETRANSMITTED },
	{ .name = "ip6RetransSegs", .error = RETRANSMITTED },
	/* InfiniBand: widths of PortCounters (InfiniBand Architecture, volume 1, 16.1.3.5) */
	{ .name = "symbol_error", .most = UINT16_MAX },
	{ .name = "link_error_recovery", .most = UINT8_MAX },
	{ .name = "port_rcv_errors", .most = UINT16_MAX },
	{ .name = "port_rcv_remote_physical_errors", .most = UINT16_MAX },
	{ .name = "port_xmit_discards", .most = UINT16_MAX },
	{ .name = "local_link_integrity_errors", .most = 15 },
	{ .name = "excessive_buffer_overrun_errors", .most = 15 },
	{ .name = "VL15_dropped", .most = UINT16_MAX },
	/* the port's waiting time, then the network interface's counters */
	{ .name = "port_xmit_wait" }, { .name = "rx_pause_frames" },
	{ .name = "tx_pause_frames" }, { .name = "rx_missed_errors" },
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
