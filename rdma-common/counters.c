// SPDX-License-Identifier: MIT
#include "counters.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netlink.h"

/*
 * Names that drivers use, and those that InfiniBand requires. Not those that flushed work requests
 * raise: every session ends with some.
 */
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
	/* irdma, efa and cxgb4 */
	"cnpHandled", "cnpIgnored", "cnpSent", "tcpRetransSegs", "retrans_pkts", "ip4RetransSegs",
	/* InfiniBand */
	"symbol_error", "link_error_recovery", "port_rcv_errors", "port_rcv_remote_physical_errors",
	"port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
	"VL15_dropped",
	/* waits */
	"port_xmit_wait", "rx_pause_frames", "tx_pause_frames"
};

/* The last two are read from elsewhere. */
#define IN_SYSFS (COUNTERS - 2)

_Static_assert(sizeof(names) / sizeof(names[0]) == COUNTERS, "COUNTERS is their number");

const char *counter_name(unsigned int number)
{
	return number < COUNTERS ? names[number] : NULL;
}

/* IN_SYSFS: none of these has this name. */
static unsigned int number_of(const char *name)
{
	unsigned int number = 0;

	while (number < IN_SYSFS && strcmp(names[number], name) != 0)
		number++;
	return number;
}

/* Reads the first line of a file in a folder (openat(2)); empty: there is none. */
static void read_line(int folder, const char *name, char line[32])
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, line, 31) : 0;

	if (fd >= 0)
		close(fd);
	line[length > 0 ? length : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

/*
 * Reads the counters that a folder of the port has; one that says no number is none. The folder is
 * listed, as most names are those of other drivers: to try each took a twentieth of a session.
 */
static void read_folder(struct counters *counters, const char *device, unsigned int port,
			const char *folder)
{
	char path[PATH_MAX], line[32], *end;
	const struct dirent *entry;
	DIR *entries;

	snprintf(path, sizeof(path), "%s/ports/%u/%s", device, port, folder);
	entries = opendir(path);
	while (entries && (entry = readdir(entries))) {
		unsigned int number = number_of(entry->d_name);
		uint64_t value;

		if (number == IN_SYSFS)
			continue;
		read_line(dirfd(entries), entry->d_name, line);
		value = strtoull(line, &end, 10);
		if (end > line) {
			counters->values[number] = value;
			counters->any = true;
		}
	}
	if (entries)
		closedir(entries);
}

/* The pause frames of the network interface that the port's first GID names, if it has any. */
static void read_pause_frames(struct counters *counters, const char *device, unsigned int port)
{
	struct pause_frames frames;
	char path[PATH_MAX], name[32];

	snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/0", device, port);
	read_line(AT_FDCWD, path, name);
	if (!name[0] || !netlink_read_pause(name, &frames))
		return;
	counters->values[IN_SYSFS] = frames.received;
	counters->values[IN_SYSFS + 1] = frames.sent;
}

void counters_read(struct counters *counters, const char *device, unsigned int port)
{
	memset(counters, 0, sizeof(*counters));
	read_pause_frames(counters, device, port);
	/* The driver's own come last, and stay where both have one. */
	read_folder(counters, device, port, "counters");
	read_folder(counters, device, port, "hw_counters");
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

struct words counters_in_words(const struct counters *growth)
{
	struct words words = { 0 };

	for (unsigned int i = 0; i < COUNTERS; i++) {
		if (growth->values[i] > 0)
			append(&words, "%s%s %" PRIu64, words.length > 0 ? ", " : "", names[i],
			       growth->values[i]);
	}
	return words;
}
