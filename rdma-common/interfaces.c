// SPDX-License-Identifier: MIT
#include "interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "netlink.h"

socklen_t address_size(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

/* ---- The interfaces of this host ---- */

static bool is_of(const struct ifaddrs *one, const char *interface)
{
	/* an IPv4 address may have a label: "eth0:1" */
	size_t length = strcspn(one->ifa_name, ":");

	return length == strlen(interface) && !strncmp(one->ifa_name, interface, length);
}

static bool has_interface(const struct ifaddrs *all, const char *interface)
{
	while (all && !is_of(all, interface))
		all = all->ifa_next;
	return all;
}

/* Append the IP addresses of an interface: " has 192.0.2.2, fd00::2", or " has none". */
static void add_addresses(struct strbuf *text, const struct ifaddrs *all, const char *interface)
{
	char address[NI_MAXHOST];
	const char *before = " has ";

	for (; all; all = all->ifa_next) {
		int family = all->ifa_addr ? all->ifa_addr->sa_family : AF_UNSPEC;

		if ((family != AF_INET && family != AF_INET6) || !is_of(all, interface) ||
		    getnameinfo(all->ifa_addr, address_size(all->ifa_addr), address,
				sizeof(address), NULL, 0, NI_NUMERICHOST))
			continue;
		strbuf_addf(text, "%s%s", before, address);
		before = ", ";
	}
	if (before[0] != ',')
		strbuf_addf(text, " has none");
}

/* ---- Names ---- */

/* Describe the network interface of a device, and its addresses. */
static void add_device(struct strbuf *text, const struct ifaddrs *all, const struct rdma_port *port)
{
	strbuf_addf(text, "RDMA device %s", port->device);
	if (!port->interface[0]) {
		strbuf_addf(text, " has no network interface in this network namespace");
		return;
	}
	strbuf_addf(text, " is on %s, which", port->interface);
	add_addresses(text, all, port->interface);
}

/* Return a port of the device `name`, if possible with a network interface, or NULL. */
static const struct rdma_port *find_device_port(const struct rdma_ports *ports, const char *name)
{
	const struct rdma_port *found = NULL;

	for (const struct rdma_port *port = ports->list; *port->device; port++) {
		if (!strcmp(port->device, name) && (!found || !found->interface[0]))
			found = port;
	}
	return found;
}

/* Append advice against the name of an interface or a device. Return false for another name. */
static bool advise_on_own_name(struct strbuf *text, const struct ifaddrs *all, const char *name,
			       bool own)
{
	bool is_interface = has_interface(all, name);
	const struct rdma_ports ports = netlink_list_ports();
	const struct rdma_port *port = find_device_port(&ports, name);

	if (!is_interface && !port)
		return false;
	if (!own) {
		strbuf_addf(text,
			    "%s is %s of this host: give an address or the name of the server's "
			    "host",
			    name, is_interface ? "a network interface" : "an RDMA device");
		return true;
	}
	strbuf_addf(text, "--bind takes an address; ");
	if (is_interface) {
		strbuf_addf(text, "%s", name);
		add_addresses(text, all, name);
	} else {
		add_device(text, all, port);
	}
	return true;
}

/* Return the length of `name` before `sign` and a number. Without such an end, return 0. */
static size_t length_before(const char *name, char sign)
{
	const char *at = strrchr(name, sign);

	if (!at || !at[1] || at[1 + strspn(at + 1, "0123456789")])
		return 0;
	return (size_t)(at - name);
}

/*
 * If `name` has a port, brackets or a prefix length (/24), append advice to omit it, and return
 * true.
 */
static bool advise_on_notation(struct strbuf *text, const char *name, bool own)
{
	bool bracket = name[0] == '[';
	size_t length = strcspn(name + bracket, "]"), port = length_before(name, ':');
	size_t prefix = length_before(name, '/');

	/* a colon before the port is part of an IPv6 address, which needs brackets then */
	if (port > 0 && (!memchr(name, ':', port) || (bracket && name[port - 1] == ']'))) {
		if (!bracket)
			length = port;
		if (own)
			strbuf_addf(text, "--bind takes an address without a port: %.*s",
				    (int)length, name + bracket);
		else
			strbuf_addf(text, "give the port as the next argument: %.*s %s",
				    (int)length, name + bracket, name + port + 1);
		return true;
	}
	if (bracket)
		strbuf_addf(text, "omit the brackets: %.*s", (int)length, name + 1);
	else if (prefix > 0)
		strbuf_addf(text, "omit the length of the prefix: %.*s", (int)prefix, name);
	return bracket || prefix > 0;
}

struct strbuf name_advice(int error, const char *name, bool own)
{
	const char *scope = strchr(name, '%');
	bool short_enough = strlen(name) < ELLIPSIZED_SIZE; /* a message has room for it twice */
	struct strbuf text = { 0 };
	struct ifaddrs *all = NULL;

	if (error == EAI_SYSTEM || error == EAI_MEMORY)
		return text;
	if (getifaddrs(&all))
		all = NULL;
	if (short_enough && all && scope && !has_interface(all, scope + 1))
		strbuf_addf(&text, "this host has no network interface '%s'", scope + 1);
	else if (!short_enough || (!advise_on_own_name(&text, all, name, own) &&
				   !advise_on_notation(&text, name, own)))
		strbuf_addf(&text, "give an address, or add the name to /etc/hosts");
	freeifaddrs(all);
	return text;
}

/* ---- Link-local addresses ---- */

bool lacks_interface(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const void *)address;

	return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) &&
	       six->sin6_scope_id == 0;
}

/* Return the interface that has the link-local address, or NULL. */
static const struct ifaddrs *find_link_local(const struct ifaddrs *all,
					     const struct sockaddr_in6 *six)
{
	for (; all; all = all->ifa_next) {
		const struct sockaddr_in6 *own = (const void *)all->ifa_addr;

		if (own && own->sin6_family == AF_INET6 &&
		    IN6_ARE_ADDR_EQUAL(&own->sin6_addr, &six->sin6_addr))
			return all;
	}
	return NULL;
}

struct strbuf own_interface_advice(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const void *)address;
	char text[INET6_ADDRSTRLEN] = "";
	const struct ifaddrs *found;
	struct strbuf advice = { 0 };
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all)) {
		strbuf_addf(&advice, "%s", INTERFACE_ADVICE);
		return advice;
	}
	found = find_link_local(all, six);
	inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
	if (found)
		strbuf_addf(&advice, "name the network interface of the link-local address: %s%%%s",
			    text, found->ifa_name);
	else
		strbuf_addf(&advice,
			    "no network interface of this host has the address %s ('ip "
			    "address')",
			    text);
	freeifaddrs(all);
	return advice;
}
