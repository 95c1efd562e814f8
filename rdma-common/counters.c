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

/* Counters of flushed work requests are left out, because each session raises them at its end. */
static const char *const names[] = {
	/* rdma_rxe */
	"duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
	"retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err", "send_err",
	"link_downed",
	/* mlx5 */
	"out_of_sequence", "out_of_buffer", "rnr_nak_retry_err", "packet_seq_err",
	"implied_nak_seq_err", "local_ack_timeout_err", "resp_local_length_error",
	"req_remote_invalid_request", "req_remote_access_errors", "resp_remote_access_errors",
	"req_transport_retries_exceeded", "req_rnr_retries_exceeded", "roce_adp_retrans",
	"roce_adp_retrans_to", "roce_slow_restart", "rx_icrc_encapsulated", "np_cnp_sent",
	"np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored",
	/* bnxt_re */
	"to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd", "max_retry_exceeded",
	"oos_drop_count", "dup_req", "missing_resp", "rx_roce_errors", "rx_roce_discards",
	"tx_roce_discards", "rx_out_of_buffer", "rx_ecn_marked_pkts", "rx_cnp_pkts", "tx_cnp_pkts",
	/* irdma and cxgb4 */
	"cnpHandled", "cnpIgnored", "cnpSent", "tcpRetransSegs", "ip4RetransSegs", "ip6RetransSegs",
	/* InfiniBand */
	"symbol_error", "link_error_recovery", "port_rcv_errors", "port_rcv_remote_physical_errors",
	"port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
	"VL15_dropped",
	/* the port's waiting time, then the network interface's counters */
	"port_xmit_wait", "rx_pause_frames", "tx_pause_frames", "rx_missed_errors"
};

/* Number of the port's own counters; the last three belong to the network interface. */
#define OF_THE_PORT (COUNTERS - 3)

_Static_assert(sizeof(names) / sizeof(names[0]) == COUNTERS,
	       "COUNTERS must be the number of names");

const char *counter_name(unsigned int number)
{
	return number < COUNTERS ? names[number] : NULL;
}

/* Return the number of the port's counter with this name; OF_THE_PORT if there is none. */
static unsigned int number_of(const char *name)
{
	unsigned int number = 0;

	while (number < OF_THE_PORT && strcmp(names[number], name) != 0)
		number++;
	return number;
}

/*
 * Read the known counters in a folder; set `any` if there is one. List the folder: trying every
 * name, most of them from other drivers, took a twentieth of a session's time.
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
 * discarded because the host had no buffer (Linux, Documentation/networking/statistics.rst). They
 * include other traffic, such as TCP.
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
	 * folder of the device, which cxgb4 has, covers all ports.
	 */
	read_folder(counters, "%s/ports/%u/counters", device, port);
	read_folder(counters, "%s/hw_counters", device);
	read_folder(counters, "%s/ports/%u/hw_counters", device, port);
}

/*
 * Counters of lost packets. A responder counts a gap in the sequence numbers and answers with a
 * NAK, which the requester counts. rxe also counts a retry for each NAK (Linux, rxe_resp.c and
 * rxe_comp.c); counters_losses() subtracts these retries.
 */
static const struct loss_counter {
	const char *name;
	size_t field; /* offset in struct losses */
} loss_counters[] = {
	{ "out_of_seq_request", offsetof(struct losses, incoming) }, /* rdma_rxe */
	{ "rcvd_seq_err", offsetof(struct losses, outgoing) },
	{ "completer_retry_err", offsetof(struct losses, either) },
	{ "out_of_sequence", offsetof(struct losses, incoming) }, /* mlx5 */
	{ "packet_seq_err", offsetof(struct losses, outgoing) },
	{ "implied_nak_seq_err", offsetof(struct losses, either) },
	{ "local_ack_timeout_err", offsetof(struct losses, either) },
	{ "oos_drop_count", offsetof(struct losses, incoming) }, /* bnxt_re */
	{ "seq_err_naks_rcvd", offsetof(struct losses, outgoing) },
	{ "to_retransmits", offsetof(struct losses, either) },
	{ "missing_resp", offsetof(struct losses, either) },
	{ "tcpRetransSegs", offsetof(struct losses, outgoing) }, /* irdma and cxgb4 */
	{ "ip4RetransSegs", offsetof(struct losses, outgoing) },
	{ "ip6RetransSegs", offsetof(struct losses, outgoing) },
};

struct losses counters_losses(const struct counters *growth)
{
	uint64_t nak_retries = growth->values[number_of("rcvd_seq_err")];
	struct losses losses = { 0 };

	for (size_t i = 0; i < sizeof(loss_counters) / sizeof(loss_counters[0]); i++) {
		uint64_t *sum = (void *)((char *)&losses + loss_counters[i].field);

		*sum += growth->values[number_of(loss_counters[i].name)];
	}
	losses.either -= nak_retries < losses.either ? nak_retries : losses.either;
	return losses;
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

struct strbuf counters_describe(const struct counters *growth)
{
	struct strbuf buf = { 0 };

	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (growth->values[i] > 0)
			strbuf_addf(&buf, "%s%s %" PRIu64, buf.length > 0 ? ", " : "", names[i],
				    growth->values[i]);
	}
	return buf;
}
