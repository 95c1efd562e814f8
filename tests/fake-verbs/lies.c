// SPDX-License-Identifier: MIT
/*
 * The lies of the scripted peer ("lie:NAME"). Each is sent at its moment in lies[]. Afterwards the
 * peer sends nothing but a MSG_MR that is still due; only `confirm` and `crawl` go on.
 */
#include "fake-verbs.h"

/*
 * Interval between messages, in milliseconds, just below a --timeout of one second; number of
 * messages that crawl() sends.
 */
#define CRAWL_MILLISECONDS 900
#define CRAWLS             10

/* ---- Correct windows, each just before the deadline ---- */

/* Send a window that advances the operating side's position by a byte, and confirms nothing. */
static void move_a_byte(struct peer *peer)
{
	struct window window = peer->reported;

	window.produced += scripted("write");
	window.consumed += !scripted("write");
	peer_sends_window(peer, &window);
}

/* Confirm one of the program's windows each CRAWL_MILLISECONDS, and advance no position. */
static void confirm(struct peer *peer)
{
	struct window window = peer->reported;

	if (peer->clock != 0)
		return;
	if (peer->lied && window.received < peer->windows_received) {
		window.received++;
		peer_sends_window(peer, &window);
	}
	if (!peer->lied || window.received < peer->windows_received)
		peer_wakes_at(peer, simulated_milliseconds() + CRAWL_MILLISECONDS);
}

/*
 * Every CRAWL_MILLISECONDS, report one more byte as produced (write) or consumed (read), up to
 * CRAWLS bytes.
 */
static void crawl(struct peer *peer)
{
	uint64_t reported = scripted("write") ? peer->reported.produced : peer->reported.consumed;

	if (peer->clock != 0 || reported >= CRAWLS)
		return;
	move_a_byte(peer);
	peer_wakes_at(peer, simulated_milliseconds() + CRAWL_MILLISECONDS);
}

/* ---- Other messages ---- */

static void repeat_region(struct peer *peer)
{
	peer_sends_message(peer, &(struct message){ .type = MSG_MR });
}

static void claim_done(struct peer *peer)
{
	uint64_t length = peer->transfer.source.stream.length;

	peer_sends_done(peer, length == LENGTH_UNKNOWN ? peer->outgoing_length : length);
}

static void send_good_verdict(struct peer *peer)
{
	peer_sends_verdict(peer, 0);
}

/* Send a correct MSG_DONE, and a good verdict before the program's MSG_DONE has arrived. */
static void send_early_verdict(struct peer *peer)
{
	peer_sends_done(peer, transfer_record_done(&peer->transfer));
	send_good_verdict(peer);
}

static void send_bad_verdict(struct peer *peer)
{
	peer_sends_verdict(peer, 1);
}

/* Send a correct MSG_DONE and a good verdict, then a bad one, as if storing had failed. */
static void send_two_verdicts(struct peer *peer)
{
	send_early_verdict(peer);
	send_bad_verdict(peer);
}

static const struct {
	const char *name;
	enum moment moment;
	void (*send)(struct peer *peer);
	bool goes_on; /* false: the peer is silent afterwards */
} lies[] = {
	{ "window-first", MOMENT_BEFORE_MR, move_a_byte, false },
	{ "done-first", MOMENT_BEFORE_MR, claim_done, false },
	{ "mr-twice", MOMENT_REGIONS_KNOWN, repeat_region, false },
	{ "verdict-good", MOMENT_REGIONS_KNOWN, send_good_verdict, false },
	{ "verdict-soon", MOMENT_BEFORE_DONE, send_early_verdict, false },
	{ "verdict-bad-first", MOMENT_BEFORE_MR, send_bad_verdict, false },
	{ "verdict-bad", MOMENT_REGIONS_KNOWN, send_bad_verdict, false },
	{ "verdict-twice", MOMENT_BEFORE_DONE, send_two_verdicts, false },
	{ "confirm", MOMENT_REGIONS_KNOWN, confirm, true },
	{ "crawl", MOMENT_REGIONS_KNOWN, crawl, true },
};

bool peer_lies(struct peer *peer, enum moment moment)
{
	const char *name = scripted_text("lie");

	for (size_t i = 0; name && !peer->silent && i < sizeof(lies) / sizeof(lies[0]); i++) {
		if (lies[i].moment != moment || strcmp(lies[i].name, name) != 0)
			continue;
		lies[i].send(peer);
		peer->silent = !lies[i].goes_on;
		peer->lied = true;
		return true;
	}
	return false;
}
