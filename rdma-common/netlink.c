// SPDX-License-Identifier: MIT
#include "netlink.h"

#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <unistd.h>

/* Maximum bytes of one part of an answer. */
#define PART_SIZE 32768

/* ---- Answers ---- */

/* Return the bytes after the first `size` and their padding; an empty span if there are none. */
static struct span span_after(struct span span, size_t size)
{
	size_t padded = NLMSG_ALIGN(size);

	return padded < span.size ? (struct span){ span.bytes + padded, span.size - padded }
				  : (struct span){ NULL, 0 };
}

int netlink_decode(struct span answer, int type, size_t body_size, netlink_function function,
		   void *context)
{
	struct nlmsghdr header;
	struct nlmsgerr failure;
	int error = 0;

	while (netlink_copy(answer, &header, sizeof(header)) &&
	       header.nlmsg_len >= sizeof(header) && header.nlmsg_len <= answer.size) {
		struct span body = { answer.bytes + sizeof(header),
				     header.nlmsg_len - sizeof(header) };

		if (header.nlmsg_type == type && body.size >= body_size)
			function(context, (struct netlink_message){ body.bytes,
								    span_after(body, body_size) });
		else if (header.nlmsg_type == NLMSG_ERROR &&
			 netlink_copy(body, &failure, sizeof(failure)))
			error = -failure.error;
		answer = span_after(answer, header.nlmsg_len);
	}
	return error;
}

struct span netlink_next(struct span *attributes, uint16_t type)
{
	struct nlattr header;

	while (netlink_copy(*attributes, &header, sizeof(header)) &&
	       header.nla_len >= sizeof(header) && header.nla_len <= attributes->size) {
		struct span contents = { attributes->bytes + sizeof(header),
					 header.nla_len - sizeof(header) };

		*attributes = span_after(*attributes, header.nla_len);
		if ((header.nla_type & NLA_TYPE_MASK) == type)
			return contents;
	}
	*attributes = (struct span){ NULL, 0 };
	return *attributes;
}

struct span netlink_find(struct span attributes, uint16_t type)
{
	return netlink_next(&attributes, type);
}

bool netlink_copy(struct span attribute, void *value, size_t size)
{
	if (attribute.size < size)
		return false;
	memcpy(value, attribute.bytes, size);
	return true;
}

/* ---- Requests ---- */

struct netlink_request netlink_make_request(int type, int flags, const void *body, size_t size)
{
	struct netlink_request request = { .header = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
						       .nlmsg_type = (uint16_t)type },
					   .body_size = size };

	request.header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	memcpy(request.rest, body, size);
	return request;
}

/* Add an attribute, for which request->rest must have room. */
static void add_attribute(struct netlink_request *request, int type, const void *value, size_t size)
{
	const struct nlattr attribute = { (uint16_t)(sizeof(attribute) + size), (uint16_t)type };
	uint32_t offset = NLMSG_ALIGN(request->header.nlmsg_len);

	memcpy((uint8_t *)request + offset, &attribute, sizeof(attribute));
	memcpy((uint8_t *)request + offset + sizeof(attribute), value, size);
	request->header.nlmsg_len = offset + attribute.nla_len;
}

void netlink_add_address(struct netlink_request *request, int type, const struct sockaddr *address)
{
	const void *any = address;
	const struct sockaddr_in *ipv4 = any;
	const struct sockaddr_in6 *ipv6 = any;

	if (address->sa_family == AF_INET)
		add_attribute(request, type, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
	else
		add_attribute(request, type, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
}

/* Include the terminating zero: the kernel rejects a text without it. */
void netlink_add_name(struct netlink_request *request, int type, const char *name)
{
	add_attribute(request, type, name, strnlen(name, IF_NAMESIZE - 1) + 1);
}

int netlink_ask(int protocol, const struct netlink_request *request, int type,
		netlink_function function, void *context)
{
	int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), error = 0;
	_Alignas(struct nlmsghdr) uint8_t part[PART_SIZE];
	ssize_t size;

	if (descriptor < 0)
		return 0;
	/* if sending fails, there is nothing to receive */
	send(descriptor, request, request->header.nlmsg_len, 0);
	while (!error && (size = recv(descriptor, part, sizeof(part), MSG_DONTWAIT)) > 0)
		error = netlink_decode((struct span){ part, (size_t)size }, type,
				       request->body_size, function, context);
	close(descriptor);
	return error;
}

/* ---- The RDMA subsystem ---- */

void netlink_ask_rdma(unsigned int command, struct span device, netlink_function function,
		      void *context)
{
	int type = (int)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	/* the kernel has no dump for RDMA_NLDEV_CMD_SYS_GET */
	int flags = command == RDMA_NLDEV_CMD_SYS_GET ? 0 : NLM_F_DUMP;
	struct netlink_request request = netlink_make_request(type, flags, "", 0);

	if (device.size > 0)
		add_attribute(&request, RDMA_NLDEV_ATTR_DEV_INDEX, device.bytes, device.size);
	netlink_ask(NETLINK_RDMA, &request, type, function, context);
}

static void take_mode(void *shared, struct netlink_message message)
{
	netlink_copy(netlink_find(message.attributes, RDMA_NLDEV_SYS_ATTR_NETNS_MODE), shared, 1);
}

bool netlink_rdma_is_exclusive(void)
{
	uint8_t shared = 1;

	netlink_ask_rdma(RDMA_NLDEV_CMD_SYS_GET, NETLINK_ALL_DEVICES, take_mode, &shared);
	return !shared;
}

/* ---- Pause frames ---- */

void netlink_take_family(void *number, struct netlink_message message)
{
	netlink_copy(netlink_find(message.attributes, CTRL_ATTR_FAMILY_ID), number,
		     sizeof(uint16_t));
}

void netlink_take_pause(void *context, struct netlink_message message)
{
	struct span counted = netlink_find(message.attributes, ETHTOOL_A_PAUSE_STATS);
	struct pause_frames *frames = context;

	frames->known = netlink_copy(netlink_find(counted, ETHTOOL_A_PAUSE_STAT_TX_FRAMES),
				     &frames->sent, sizeof(frames->sent)) &&
			netlink_copy(netlink_find(counted, ETHTOOL_A_PAUSE_STAT_RX_FRAMES),
				     &frames->received, sizeof(frames->received));
}

static struct netlink_request make_generic(int family, uint8_t command)
{
	const struct genlmsghdr body = { .cmd = command, .version = 1 };

	return netlink_make_request(family, 0, &body, sizeof(body));
}

/* Linux before 5.6 has no ethtool family; the result is then false. */
bool netlink_read_pause(const char *interface, struct pause_frames *frames)
{
	struct netlink_request request = make_generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	struct netlink_request header = netlink_make_request(0, 0, "", 0);
	const uint32_t flags = ETHTOOL_FLAG_STATS;
	uint16_t family = 0;

	netlink_add_name(&request, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
	netlink_ask(NETLINK_GENERIC, &request, GENL_ID_CTRL, netlink_take_family, &family);
	frames->known = false;
	if (!family)
		return false;
	add_attribute(&header, ETHTOOL_A_HEADER_FLAGS, &flags, sizeof(flags));
	netlink_add_name(&header, ETHTOOL_A_HEADER_DEV_NAME, interface);
	request = make_generic(family, ETHTOOL_MSG_PAUSE_GET);
	add_attribute(&request, NLA_F_NESTED | ETHTOOL_A_PAUSE_HEADER, header.rest,
		      header.header.nlmsg_len - NLMSG_HDRLEN);
	netlink_ask(NETLINK_GENERIC, &request, family, netlink_take_pause, frames);
	return frames->known;
}
