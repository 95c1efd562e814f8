// SPDX-License-Identifier: MIT
/* Lies of the scripted peer ("lie:NAME"): each once, at a moment of its own; then it is silent. */
#include "fake-verbs.h"

#include <string.h>

/* Just before a --timeout of one second; and how often, then no more. */
#define CRAWL_MILLISECONDS 900
#define CRAWLS             10

/* ---- True windows, each at the last moment ---- */

/* One that moves by a byte the number of the side that operates, and confirms nothing. */
static void move_a_byte(struct peer *peer)
{
	struct window window = peer->told;

	window.ready += scripted("write");
	window.taken += !scripted("write");
	peer_sends_window(peer, &window);
}

/* One window of the program's after the other is confirmed, and nothing moves. */
static bool confirm(struct peer *peer, enum moment moment, const char *name)
{
	struct window window = peer->told;

	if (moment != MOMENT_REGIONS_KNOWN || strcmp(name, "confirm") != 0)
		return false;
	if (peer->clock != 0)
		return true;
	if (peer->lied && window.received < peer->windows_received) {
		window.received++;
		peer_sends_window(peer, &window);
	}
	if (!peer->lied || window.received < peer->windows_received)
		peer_wakes_at(peer, simulated_milliseconds() + CRAWL_MILLISECONDS);
	return true;
}

/* One byte after the other, as long as that is allowed to go on here. */
static bool crawl(struct peer *peer, enum moment moment, const char *name)
{
	uint64_t told = scripted("write") ? peer->told.ready : peer->told.taken;

	if (moment != MOMENT_REGIONS_KNOWN || strcmp(name, "crawl") != 0)
		return false;
	if (peer->clock == 0 && told < CRAWLS) {
		move_a_byte(peer);
		peer_wakes_at(peer, simulated_milliseconds() + CRAWL_MILLISECONDS);
	}
	return true;
}

/* ---- Other messages ---- */

/* Its own MSG_DONE is true, and the program's has not come. */
static void judge_soon(struct peer *peer)
{
	peer_sends_done(peer, transfer_done(&peer->transfer));
	peer_sends_verdict(peer, 0);
}

static bool tell_other(struct peer *peer, enum moment moment, const char *name)
{
	const struct transfer_stream *stream = &peer->transfer.source.stream;

	if (moment == MOMENT_BEFORE_MR && !strcmp(name, "window-first"))
		move_a_byte(peer);
	else if (moment == MOMENT_BEFORE_MR && !strcmp(name, "done-first"))
		peer_sends_done(peer, peer->outgoing_length);
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "done-early"))
		peer_sends_done(peer, stream->length == LENGTH_UNKNOWN ? peer->outgoing_length
								       : stream->length);
	else if (moment == MOMENT_BEFORE_DONE && !strcmp(name, "verdict-soon"))
		judge_soon(peer);
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "mr-twice"))
		peer_sends_message(peer, &(struct message){ .type = MSG_MR });
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "verdict-good"))
		peer_sends_verdict(peer, 0);
	else
		return false;
	return true;
}

bool peer_lies(struct peer *peer, enum moment moment)
{
	const char *name = scripted_text("lie");

	if (!name || peer->silent)
		return false;
	if (confirm(peer, moment, name) || crawl(peer, moment, name)) { /* goes on */
		peer->lied = true;
		return true;
	}
	peer->silent = tell_other(peer, moment, name);
	peer->lied = peer->silent;
	return peer->lied;
}
