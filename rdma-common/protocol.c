// SPDX-License-Identifier: MIT
#include "protocol.h"

#define NAME(value) \
	case value: \
		return #value

const char *event_name(enum event_type type)
{
	switch (type) {
		NAME(EVENT_ESTABLISHED);
		NAME(EVENT_MR_RECEIVED);
		NAME(EVENT_DONE_RECEIVED);
		NAME(EVENT_VERDICT_RECEIVED);
		NAME(EVENT_MR_SENT);
		NAME(EVENT_OPERATION_COMPLETED);
		NAME(EVENT_DONE_SENT);
		NAME(EVENT_VERDICT_SENT);
		NAME(EVENT_CHECKED);
		NAME(EVENT_FAILED);
		NAME(EVENT_FLUSHED);
		NAME(EVENT_DISCONNECTED);
		NAME(EVENT_DRAINED);
		NAME(EVENT_DEADLINE);
		NAME(EVENT_INTERRUPTED);
		NAME(EVENT_TYPES);
	}
	return "EVENT_?";
}

const char *phase_name(enum phase phase)
{
	switch (phase) {
		NAME(PHASE_CONNECTING);
		NAME(PHASE_EXCHANGING);
		NAME(PHASE_CLOSING);
		NAME(PHASE_FINISHED);
	}
	return "PHASE_?";
}

const char *local_stage_name(enum local_stage local)
{
	switch (local) {
		NAME(LOCAL_IDLE);
		NAME(LOCAL_MR_POSTED);
		NAME(LOCAL_MR_SENT);
		NAME(LOCAL_OPERATION_POSTED);
		NAME(LOCAL_OPERATION_COMPLETED);
		NAME(LOCAL_DONE_POSTED);
		NAME(LOCAL_DONE_SENT);
		NAME(LOCAL_CHECKING);
		NAME(LOCAL_CHECKED);
		NAME(LOCAL_VERDICT_POSTED);
		NAME(LOCAL_VERDICT_SENT);
	}
	return "LOCAL_?";
}

const char *remote_stage_name(enum remote_stage remote)
{
	switch (remote) {
		NAME(REMOTE_SILENT);
		NAME(REMOTE_MR);
		NAME(REMOTE_DONE);
		NAME(REMOTE_VERDICT);
	}
	return "REMOTE_?";
}

/*
 * True if a probe would be in the way. It is when the peer may have left: over InfiniBand and RoCE
 * that is once its last message is here; over iWARP it may leave as soon as it has this side's,
 * while TCP is still sending the peer's again, and a probe that finds nobody there would break the
 * connection under it. And over iWARP a server is silent until its client has sent (RFC 5044,
 * section 7.1.2): if its reply to the connect request was lost and comes along with a probe, the
 * client gives up.
 */
bool probe_disturbs(const struct protocol *protocol, bool iwarp)
{
	bool all_sent =
		protocol->local >= (protocol->verifying ? LOCAL_VERDICT_SENT : LOCAL_DONE_SENT);
	bool too_early =
		iwarp && protocol->role == ROLE_SERVER && protocol->remote == REMOTE_SILENT;

	return too_early || (all_sent && (iwarp || protocol->remote == REMOTE_VERDICT));
}
