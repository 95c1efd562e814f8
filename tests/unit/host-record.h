/* SPDX-License-Identifier: MIT */
/*
 * A recorded host: a file of tests/hosts/ (tests/hosts/README.md has the format). Its files are
 * made in the temporary folder. Its records answer for the kernel (host-kernel.h) and for
 * libibverbs and librdmacm (host-verbs.h). Include this after unit.h and folder.h.
 */
#ifndef UNIT_HOST_RECORD_H
#define UNIT_HOST_RECORD_H

#include <arpa/inet.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>

#define MAX_WORDS     16
#define MAX_RECORDS   512
#define MAX_TRIALS    8
#define MAX_EXPECTED  32
#define MAX_DEVICES   64
#define FOREIGN_INDEX 1000 /* index of an interface of another network namespace */

/* A line: its kind, its name, and words such as "mtu=1500". NULL ends the words. */
struct record {
	char *words[MAX_WORDS + 1];
};

/* A run of --check: its arguments and the answers of the other side, and the expected result. */
struct trial {
	struct record arguments;
	long status;
	const char *lines[MAX_EXPECTED]; /* patterns of fnmatch(3) */
	size_t line_count;
};

struct recorded_device {
	struct ibv_device device;
	struct ibv_context context;
	bool listed; /* by libibverbs: it has a driver, and the device's file exists */
};

static struct recorded_host {
	bool loaded;
	char text[1 << 16];
	const char *source, *machine;
	struct record records[MAX_RECORDS];
	size_t record_count;
	struct trial trials[MAX_TRIALS];
	size_t trial_count;
	unsigned int fields, assumed;
	const char
		*parent; /* folder of the following indented lines, or NULL if they are expected */
	bool parent_assumed; /* all files of this folder are assumed */
	struct recorded_device devices[MAX_DEVICES];
	size_t device_count;
} host;

/* ---- Records ---- */

/* Return the next record of this kind after `last`, or the first one for NULL. NULL ends them. */
static const struct record *next_record(const char *kind, const struct record *last)
{
	const struct record *record = last ? last + 1 : host.records;

	while (record < host.records + host.record_count && strcmp(record->words[0], kind) != 0)
		record++;
	return record < host.records + host.record_count ? record : NULL;
}

/* Return the text after "key=" in a record, or NULL if the record lacks this key. */
static const char *value_in(const struct record *record, const char *key)
{
	size_t size = strlen(key);

	for (size_t i = 0; record && record->words[i]; i++) {
		if (!strncmp(record->words[i], key, size) && record->words[i][size] == '=')
			return record->words[i] + size + 1;
	}
	return NULL;
}

/* Return the value of a key in any record of this kind and name: lines may share a name. */
static const char *value_of(const char *kind, const char *name, const char *key)
{
	for (const struct record *one = NULL; (one = next_record(kind, one));) {
		if (!strcmp(one->words[1], name) && value_in(one, key))
			return value_in(one, key);
	}
	return NULL;
}

static bool has_value(const char *kind, const char *name, const char *key, const char *value)
{
	const char *found = value_of(kind, name, key);

	return found && !strcmp(found, value);
}

static bool is_first_of_its_name(const struct record *record)
{
	const struct record *first = next_record(record->words[0], NULL);

	while (strcmp(first->words[1], record->words[1]) != 0)
		first = next_record(record->words[0], first);
	return first == record;
}

/* Return the index of a network interface, or 0 if this namespace does not have it. */
static unsigned int link_index(const char *name)
{
	unsigned int index = 0;

	for (const struct record *link = NULL; (link = next_record("link", link));) {
		index += is_first_of_its_name(link);
		if (!strcmp(link->words[1], name))
			return index;
	}
	return 0;
}

/* Return the name of a network interface, or NULL if this namespace does not have it. */
static const char *link_name(unsigned int index)
{
	for (const struct record *link = NULL; (link = next_record("link", link));) {
		if (link_index(link->words[1]) == index)
			return link->words[1];
	}
	return NULL;
}

/* Convert an address to a GID: an IPv4 address becomes an IPv4-mapped one. */
static struct in6_addr gid_of(const char *text)
{
	char mapped[INET6_ADDRSTRLEN + 8];
	struct in6_addr gid;

	snprintf(mapped, sizeof(mapped), "%s%.*s",
		 strchr(text, ':') ? "" : "::ffff:", (int)strcspn(text, "/%"), text);
	if (inet_pton(AF_INET6, mapped, &gid) != 1)
		fail_msg("'%s' is not an address", text);
	return gid;
}

/* ---- The file ---- */

/* Take the next word of a line, which blanks end. Return NULL if there is none. */
static char *take_word(char **line)
{
	char *word;

	do
		word = strsep(line, " \t");
	while (word && !*word);
	return word;
}

static void split_words(char *line, struct record *record)
{
	size_t count = 0;

	for (char *word; (word = take_word(&line)); count++) {
		assert_true(count < MAX_WORDS);
		record->words[count] = word;
	}
	record->words[count] = NULL;
}

static void count_fields(unsigned int count, bool assumed)
{
	host.fields += count;
	host.assumed += assumed ? count : 0;
}

/* Add a record, and return the number of its fields: the words after its name, or one. */
static unsigned int add_record(char *line)
{
	struct record *record = &host.records[host.record_count++];
	unsigned int count = 0;

	assert_true(host.record_count < MAX_RECORDS);
	split_words(line, record);
	assert_non_null(record->words[1]);
	while (record->words[count + 2])
		count++;
	return count ? count : 1;
}

/* Make a file or, for "PATH -> TARGET", a symbolic link. Each is a field. */
static void add_file(const char *parent, char *line)
{
	char *equals = strstr(line, " = "), *arrow = strstr(line, " -> ");
	char path[256], text[256];

	if (!equals == !arrow)
		fail_msg("neither a file nor a link: '%s'", line);
	*(equals ? equals : arrow) = '\0';
	snprintf(path, sizeof(path), "%s%s", parent + 1, line);
	if (equals) {
		snprintf(text, sizeof(text), "%s\n", equals + 3);
		put(path, text);
		return;
	}
	if (arrow[4] == '/') { /* realpath() needs the target */
		snprintf(text, sizeof(text), "%s/", arrow + 5);
		make_folders(text);
	}
	snprintf(text, sizeof(text), "%s%s", arrow[4] == '/' ? folder : "", arrow + 4);
	make_folders(path);
	assert_int_equal(symlink(text, path), 0);
}

static void add_expected(char *line)
{
	struct trial *trial = &host.trials[host.trial_count - 1];

	if (!strncmp(line, "status ", 7)) {
		trial->status = strtol(line + 7, NULL, 10);
		return;
	}
	assert_true(trial->line_count < MAX_EXPECTED);
	trial->lines[trial->line_count++] = line;
}

/* Take an indented line: a file of the folder above it, or an expected line of a trial. */
static void take_indented(char *line)
{
	bool assumed = !strncmp(line, "assumed ", 8);

	if (!host.parent) {
		assert_true(host.trial_count > 0);
		add_expected(line);
		return;
	}
	add_file(host.parent, line + (assumed ? 8 : 0));
	count_fields(1, assumed || host.parent_assumed);
}

/* Take a line of the head. Return false if it is none. */
static bool take_head(char *line)
{
	static const char *const names[] = { "source ", "machine " };
	const char **const texts[] = { &host.source, &host.machine };

	for (size_t i = 0; i < ENTRIES(names); i++) {
		if (!strncmp(line, names[i], strlen(names[i]))) {
			*texts[i] = line + strlen(names[i]);
			return true;
		}
	}
	return false;
}

static void take_line(char *line)
{
	bool assumed = !strncmp(line, "assumed ", 8);

	if (!*line || *line == '#' || take_head(line))
		return;
	if (*line == '\t') {
		take_indented(line + 1);
		return;
	}
	host.parent = NULL;
	line += assumed ? 8 : 0;
	if (*line == '/' && line[strlen(line) - 1] == '/') {
		host.parent = line;
		host.parent_assumed = assumed;
	} else if (*line == '/') {
		add_file("/", line + 1);
		count_fields(1, assumed);
	} else if (!strncmp(line, "check", 5)) {
		assert_true(host.trial_count < MAX_TRIALS);
		split_words(line, &host.trials[host.trial_count++].arguments);
	} else {
		count_fields(add_record(line), assumed);
	}
}

/* ---- Files that follow from the records ---- */

__attribute__((format(printf, 2, 3))) static void put_text(const char *text, const char *format,
							   ...)
{
	char path[256], line[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	snprintf(line, sizeof(line), "%s\n", text ? text : "");
	if (text)
		put(path, line);
}

/* Make the files of a network interface. */
static void put_link(const char *name)
{
	const char *const keys[] = { "mtu", "address" };
	const char *master = value_of("link", name, "master");
	const char *lower = value_of("link", name, "lower");
	char index[16], path[256], target[256];

	snprintf(index, sizeof(index), "%u", link_index(name));
	put_text(index, "sys/class/net/%s/ifindex", name);
	for (size_t i = 0; i < ENTRIES(keys); i++)
		put_text(value_of("link", name, keys[i]), "sys/class/net/%s/%s", name, keys[i]);
	if (master) {
		snprintf(path, sizeof(path), "sys/class/net/%s/master", name);
		snprintf(target, sizeof(target), "../%s", master);
		assert_int_equal(symlink(target, path), 0);
	}
	if (lower) {
		snprintf(path, sizeof(path), "sys/class/net/%s/lower_%s", name, lower);
		snprintf(target, sizeof(target), "../%s", lower);
		assert_int_equal(symlink(target, path), 0);
	}
}

/* Return the first line of a file in the temporary folder, or "" if there is no such file. */
__attribute__((format(printf, 1, 2))) static const char *line_in(const char *format, ...)
{
	static char line[256];
	char path[256];
	va_list arguments;
	int descriptor;
	ssize_t size;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	size = read(descriptor, line, sizeof(line) - 1);
	close(descriptor);
	line[size > 0 ? size : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* Make the files of an entry of the GID table of "DEVICE/PORT". `type`: "v1", "v2", "ib". */
static void put_gid(const char *port, unsigned int index, const char *address, const char *type,
		    const char *interface)
{
	struct in6_addr gid = gid_of(address);
	char text[40] = "", folder_of_port[128];

	for (size_t i = 0; i < 8; i++)
		sprintf(text + strlen(text), "%s%02x%02x", i ? ":" : "", gid.s6_addr[2 * i],
			gid.s6_addr[2 * i + 1]);
	snprintf(folder_of_port, sizeof(folder_of_port), "sys/class/infiniband/%.*s/ports%s",
		 (int)strcspn(port, "/"), port, strchr(port, '/'));
	put_text(text, "%s/gids/%u", folder_of_port, index);
	if (!type) /* the kernel has no type and no interface for an empty entry */
		return;
	put_text(strcmp(type, "v2") ? "IB/RoCE v1" : "RoCE v2", "%s/gid_attrs/types/%u",
		 folder_of_port, index);
	put_text(interface, "%s/gid_attrs/ndevs/%u", folder_of_port, index);
}

/* Make the recorded entries: "gid mlx5_0/1 3 ADDRESS v2 INTERFACE". */
static void put_gids(void)
{
	for (const struct record *one = NULL; (one = next_record("gid", one));)
		put_gid(one->words[1], (unsigned int)strtoul(one->words[2], NULL, 10),
			one->words[3], one->words[4], one->words[4] ? one->words[5] : NULL);
}

/* Return true if an interface is that of a port, a VLAN over it, or its bond. */
static bool is_over(const char *interface, const char *of_port)
{
	return !strcmp(interface, of_port) || has_value("link", interface, "lower", of_port) ||
	       has_value("link", of_port, "master", interface);
}

/* Make the entries of a port as the kernel makes them: from the addresses of its interface. */
static void derive_gids(const char *port, const char *interface)
{
	static const char *const types[] = { "v1", "v2" };
	const char *only = value_of("port", port, "roce");
	unsigned int index = 0;

	for (const struct record *one = NULL; (one = next_record("address", one));) {
		for (size_t i = 0; is_over(one->words[2], interface) && i < ENTRIES(types); i++) {
			if (!only || !strcmp(only, types[i]))
				put_gid(port, index++, one->words[1], types[i], one->words[2]);
		}
	}
}

/* Make the GID tables of the RoCE ports of which no entry is recorded. */
static void derive_all_gids(void)
{
	for (const struct record *one = NULL; (one = next_record("port", one));) {
		const char *port = one->words[1], *interface = value_in(one, "netdev");
		const struct record *gid = NULL;

		while ((gid = next_record("gid", gid)) && strcmp(gid->words[1], port) != 0)
			;
		if (!gid && interface && !has_value("port", port, "gids", "none") &&
		    *line_in("sys/class/infiniband/%.*s/node_type", (int)strcspn(port, "/"),
			     port) == '1')
			derive_gids(port, interface);
	}
}

static enum ibv_transport_type transport_of(unsigned long node_type)
{
	switch (node_type) {
	case IBV_NODE_CA:
		return IBV_TRANSPORT_IB;
	case IBV_NODE_RNIC:
		return IBV_TRANSPORT_IWARP;
	default:
		return IBV_TRANSPORT_UNSPECIFIED;
	}
}

/* Add a device of sysfs, and make its character device unless that is recorded as missing. */
static void add_device(const char *name)
{
	struct recorded_device *one = &host.devices[host.device_count];
	bool missing = has_value("device", name, "file", "missing");
	unsigned long type;

	assert_true(host.device_count < MAX_DEVICES);
	type = strtoul(line_in("sys/class/infiniband/%s/node_type", name), NULL, 10);
	snprintf(one->device.name, sizeof(one->device.name), "%s", name);
	snprintf(one->device.ibdev_path, sizeof(one->device.ibdev_path), "/sys/class/infiniband/%s",
		 name);
	snprintf(one->device.dev_path, sizeof(one->device.dev_path),
		 "/sys/class/infiniband_verbs/uverbs%zu", host.device_count);
	one->device.transport_type = transport_of(type);
	one->context.device = &one->device;
	one->listed = !missing && !has_value("device", name, "driver", "none");
	put_text(name, "sys/class/infiniband_verbs/uverbs%zu/ibdev", host.device_count);
	if (!missing)
		put_text("", "dev/infiniband/uverbs%zu", host.device_count);
	put_text("", "dev/infiniband/rdma_cm");
	host.device_count++;
}

static void add_devices(void)
{
	glob_t devices;

	if (!glob("sys/class/infiniband/*", 0, NULL, &devices)) {
		for (size_t i = 0; i < devices.gl_pathc; i++)
			add_device(strrchr(devices.gl_pathv[i], '/') + 1);
	}
	globfree(&devices);
}

static void make_tree(void)
{
	const struct record *one = NULL;

	while ((one = next_record("link", one)))
		if (is_first_of_its_name(one))
			put_link(one->words[1]);
	put_gids();
	derive_all_gids();
	add_devices();
	put("proc/net/udp", "  sl  local_address rem_address   st\n");
	put("proc/sys/net/core/somaxconn", "4096\n");
	if (!value_of("namespace", "network", "kind"))
		put("proc/sys/net/core/netdev_max_backlog", "1000\n");
	while ((one = next_record("missing", one)))
		assert_int_equal(remove(one->words[1] + 1), 0);
}

/* Load a recorded host, and make its files in the temporary folder, which is empty. */
static void load_host(const char *path)
{
	static char loopback[64], loopback_address[64];
	char *rest = host.text;
	FILE *file = fopen(path, "re");

	memset(&host, 0, sizeof(host));
	if (!file)
		fail_msg("cannot open %s", path);
	assert_true(fread(host.text, 1, sizeof(host.text) - 1, file) > 0);
	fclose(file);
	strcpy(loopback, "link lo type=loopback mtu=65536");
	add_record(loopback);
	strcpy(loopback_address, "address 127.0.0.1/8 lo");
	add_record(loopback_address);
	for (char *line; (line = strsep(&rest, "\n"));)
		take_line(line);
	make_tree();
	host.loaded = true;
}

#endif
