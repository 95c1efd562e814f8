// SPDX-License-Identifier: MIT
#include "netlink.h"

#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes before the attributes of a generic netlink message. */
#define HEADERS_SIZE (sizeof(struct nlmsghdr) + sizeof(struct genlmsghdr))

struct span netlink_attributes(const uint8_t *answer, size_t size, int type, size_t headers)
{
	struct span none = { NULL, 0 };
	struct nlmsghdr header;

	if (size < headers)
		return none;
	memcpy(&header, answer, sizeof(header));
	if (header.nlmsg_type != type || header.nlmsg_len < headers || header.nlmsg_len > size)
		return none;
	return (struct span){ answer + headers, header.nlmsg_len - headers };
}

struct span netlink_next(struct span *attributes, uint16_t type)
{
	struct nlattr header;

	while (netlink_copy(*attributes, &header, sizeof(header)) &&
	       header.nla_len >= sizeof(header) && header.nla_len <= attributes->size) {
		/* the last attribute may have no padding */
		size_t padded = (header.nla_len + 3U) & ~3U;
		size_t whole = padded < attributes->size ? padded : attributes->size;
		struct span contents = { attributes->bytes + sizeof(header),
					 header.nla_len - sizeof(header) };

		attributes->bytes += whole;
		attributes->size -= whole;
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

size_t netlink_ask(int protocol, const void *question, size_t size,
		   uint8_t answer[NETLINK_ANSWER_SIZE])
{
	int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	ssize_t length = -1;

	if (descriptor < 0)
		return 0;
	if (send(descriptor, question, size, 0) > 0)
		length = recv(descriptor, answer, NETLINK_ANSWER_SIZE, MSG_DONTWAIT);
	close(descriptor);
	return length > 0 ? (size_t)length : 0;
}

int netlink_decode_family(const uint8_t *answer, size_t size)
{
	struct span family = netlink_attributes(answer, size, GENL_ID_CTRL, HEADERS_SIZE);
	uint16_t number;

	return netlink_copy(netlink_find(family, CTRL_ATTR_FAMILY_ID), &number, sizeof(number))
		       ? number
		       : -1;
}

bool netlink_decode_pause(const uint8_t *answer, size_t size, int family,
			  struct pause_frames *frames)
{
	struct span pause = netlink_attributes(answer, size, family, HEADERS_SIZE);
	struct span counted = netlink_find(pause, ETHTOOL_A_PAUSE_STATS);

	return netlink_copy(netlink_find(counted, ETHTOOL_A_PAUSE_STAT_TX_FRAMES), &frames->sent,
			    sizeof(frames->sent)) &&
	       netlink_copy(netlink_find(counted, ETHTOOL_A_PAUSE_STAT_RX_FRAMES),
			    &frames->received, sizeof(frames->received));
}

/* ---- Questions ---- */

/* Send a command with these attributes to a family. Return the size of the answer; 0: no answer. */
static size_t ask(int family, uint8_t command, const void *attributes, size_t size,
		  uint8_t answer[NETLINK_ANSWER_SIZE])
{
	struct {
		struct nlmsghdr header;
		struct genlmsghdr command;
		uint8_t attributes[64];
	} question = {
		.header = { .nlmsg_len = (uint32_t)(HEADERS_SIZE + size),
			    .nlmsg_type = (uint16_t)family,
			    .nlmsg_flags = NLM_F_REQUEST },
		.command = { .cmd = command, .version = 1 },
	};

	memcpy(question.attributes, attributes, size);
	return netlink_ask(NETLINK_GENERIC, &question, HEADERS_SIZE + size, answer);
}

bool netlink_rdma_is_exclusive(void)
{
	const struct nlmsghdr question = {
		.nlmsg_len = sizeof(question),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
		.nlmsg_flags = NLM_F_REQUEST,
	};
	uint8_t answer[NETLINK_ANSWER_SIZE], shared = 1;
	size_t size = netlink_ask(NETLINK_RDMA, &question, sizeof(question), answer);
	struct span system =
		netlink_attributes(answer, size, question.nlmsg_type, sizeof(question));

	netlink_copy(netlink_find(system, RDMA_NLDEV_SYS_ATTR_NETNS_MODE), &shared, sizeof(shared));
	return !shared;
}

/* Linux before 5.6 does not have ethtool's family. */
bool netlink_read_pause(const char *interface, struct pause_frames *frames)
{
	const struct {
		struct nlattr attribute;
		char name[sizeof(ETHTOOL_GENL_NAME)];
	} wanted = { { sizeof(wanted), CTRL_ATTR_FAMILY_NAME }, ETHTOOL_GENL_NAME };
	struct {
		struct nlattr nest, flags_attribute;
		uint32_t flags;
		struct nlattr name_attribute;
		char name[IF_NAMESIZE];
	} request = {
		.nest = { sizeof(request), NLA_F_NESTED | ETHTOOL_A_PAUSE_HEADER },
		.flags_attribute = { sizeof(struct nlattr) + 4, ETHTOOL_A_HEADER_FLAGS },
		.flags = ETHTOOL_FLAG_STATS,
		.name_attribute = { sizeof(struct nlattr) + IF_NAMESIZE,
				    ETHTOOL_A_HEADER_DEV_NAME },
	};
	uint8_t answer[NETLINK_ANSWER_SIZE];
	size_t size = ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &wanted, sizeof(wanted), answer);
	int family = netlink_decode_family(answer, size);

	if (family < 0)
		return false;
	snprintf(request.name, sizeof(request.name), "%s", interface);
	size = ask(family, ETHTOOL_MSG_PAUSE_GET, &request, sizeof(request), answer);
	return netlink_decode_pause(answer, size, family, frames);
}
