// SPDX-License-Identifier: MIT
#include "netlink.h"

#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

/* ---- Answers ---- */

struct nlattr *netlink_find(struct nl_msg *message, size_t size, int type)
{
	return nlmsg_find_attr(nlmsg_hdr(message), (int)size, type);
}

struct nlattr *netlink_find_within(const struct nlattr *outer, int type)
{
	return outer ? nla_find(nla_data(outer), nla_len(outer), type) : NULL;
}

bool netlink_copy(const struct nlattr *attribute, void *value, size_t size)
{
	return nla_memcpy(value, attribute, (int)size) == (int)size;
}

/* ---- Requests ---- */

struct nl_msg *netlink_make_request(int type, int flags, const void *body, size_t size)
{
	struct nl_msg *request = nlmsg_alloc_simple(type, flags);

	if (request)
		memcpy(nlmsg_reserve(request, size, NLMSG_ALIGNTO), body, size);
	return request;
}

void netlink_add(struct nl_msg *request, int type, const void *value, size_t size)
{
	if (request)
		nla_put(request, type, (int)size, value);
}

/* Store the errno value: libnl maps several of them, such as ENETUNREACH, to one error. */
static int take_error(struct sockaddr_nl *kernel, struct nlmsgerr *failure, void *error)
{
	(void)kernel;
	*(int *)error = -failure->error;
	return NL_STOP;
}

int netlink_ask(int protocol, struct nl_msg *request, nl_recvmsg_msg_cb_t function, void *context)
{
	struct nl_sock *socket = nl_socket_alloc();
	int error = 0;

	/* a blocking socket would wait without a deadline if the kernel does not answer */
	if (request && socket && !nl_connect(socket, protocol) &&
	    !nl_socket_set_nonblocking(socket)) {
		nl_socket_disable_auto_ack(socket);
		nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, function, context);
		nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, take_error, &error);
		if (nl_send_auto(socket, request) >= 0)
			nl_recvmsgs_default(socket);
	}
	nl_socket_free(socket);
	nlmsg_free(request);
	return error;
}

/* ---- The RDMA subsystem ---- */

void netlink_ask_rdma(unsigned int command, const struct nlattr *device,
		      nl_recvmsg_msg_cb_t function, void *context)
{
	int type = (int)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	/* RDMA_NLDEV_CMD_SYS_GET has a single answer, which the kernel does not dump */
	int flags = command == RDMA_NLDEV_CMD_SYS_GET ? 0 : NLM_F_DUMP;
	struct nl_msg *request = netlink_make_request(type, flags, "", 0);

	if (device)
		netlink_add(request, nla_type(device), nla_data(device), (size_t)nla_len(device));
	netlink_ask(NETLINK_RDMA, request, function, context);
}

static int take_mode(struct nl_msg *message, void *shared)
{
	netlink_copy(netlink_find(message, 0, RDMA_NLDEV_SYS_ATTR_NETNS_MODE), shared, 1);
	return NL_OK;
}

bool netlink_rdma_is_exclusive(void)
{
	uint8_t shared = 1;

	netlink_ask_rdma(RDMA_NLDEV_CMD_SYS_GET, NULL, take_mode, &shared);
	return !shared;
}

/* Add a port to the list, if there is room for it. */
static int take_port(struct nl_msg *message, void *context)
{
	const struct nlattr *device = netlink_find(message, 0, RDMA_NLDEV_ATTR_DEV_NAME);
	const struct nlattr *interface = netlink_find(message, 0, RDMA_NLDEV_ATTR_NDEV_NAME);
	struct rdma_ports *ports = context;
	struct rdma_port *port = ports->list;

	while (*port->device)
		port++;
	if (!device || port + 1 == ports->list + sizeof(ports->list) / sizeof(ports->list[0]))
		return NL_OK;
	nla_strlcpy(port->device, device, sizeof(port->device));
	if (interface)
		nla_strlcpy(port->interface, interface, sizeof(port->interface));
	netlink_copy(netlink_find(message, 0, RDMA_NLDEV_ATTR_PORT_INDEX), &port->number,
		     sizeof(port->number));
	return NL_OK;
}

static int take_ports(struct nl_msg *device, void *ports)
{
	netlink_ask_rdma(RDMA_NLDEV_CMD_PORT_GET,
			 netlink_find(device, 0, RDMA_NLDEV_ATTR_DEV_INDEX), take_port, ports);
	return NL_OK;
}

struct rdma_ports netlink_list_ports(void)
{
	struct rdma_ports ports = { 0 };

	netlink_ask_rdma(RDMA_NLDEV_CMD_GET, NULL, take_ports, &ports);
	return ports;
}

/* ---- Pause frames ---- */

int netlink_take_family(struct nl_msg *message, void *family)
{
	netlink_copy(netlink_find(message, GENL_HDRLEN, CTRL_ATTR_FAMILY_ID), family,
		     sizeof(uint16_t));
	return NL_OK;
}

int netlink_take_pause(struct nl_msg *message, void *context)
{
	struct nlattr *counted = netlink_find(message, GENL_HDRLEN, ETHTOOL_A_PAUSE_STATS);
	struct pause_frames *frames = context;

	frames->known = netlink_copy(netlink_find_within(counted, ETHTOOL_A_PAUSE_STAT_TX_FRAMES),
				     &frames->sent, sizeof(frames->sent)) &&
			netlink_copy(netlink_find_within(counted, ETHTOOL_A_PAUSE_STAT_RX_FRAMES),
				     &frames->received, sizeof(frames->received));
	return NL_OK;
}

static struct nl_msg *make_generic(int family, uint8_t command)
{
	const struct genlmsghdr body = { .cmd = command, .version = 1 };

	return netlink_make_request(family, 0, &body, sizeof(body));
}

/*
 * Return the number of the ethtool family, or 0. Linux before 5.6 has no such family. The number
 * never changes while the kernel runs, because ethtool is no module. So ask once.
 */
static uint16_t ethtool_family(void)
{
	static _Atomic uint16_t known;
	uint16_t family = known;
	struct nl_msg *request;

	if (family)
		return family;
	request = make_generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	netlink_add(request, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME, sizeof(ETHTOOL_GENL_NAME));
	netlink_ask(NETLINK_GENERIC, request, netlink_take_family, &family);
	known = family;
	return family;
}

bool netlink_read_pause(const char *interface, struct pause_frames *frames)
{
	uint16_t family = ethtool_family();
	struct nl_msg *request;
	struct nlattr *header;

	frames->known = false;
	if (!family)
		return false;
	request = make_generic(family, ETHTOOL_MSG_PAUSE_GET);
	if (request && (header = nla_nest_start(request, NLA_F_NESTED | ETHTOOL_A_PAUSE_HEADER))) {
		nla_put_u32(request, ETHTOOL_A_HEADER_FLAGS, ETHTOOL_FLAG_STATS);
		nla_put_string(request, ETHTOOL_A_HEADER_DEV_NAME, interface);
		nla_nest_end(request, header);
	}
	netlink_ask(NETLINK_GENERIC, request, netlink_take_pause, frames);
	return frames->known;
}
