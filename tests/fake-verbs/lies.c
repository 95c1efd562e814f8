// SPDX-License-Identifier: MIT
/* Lies of the scripted peer ("lie:NAME"): each once, at a moment of its own; then it is silent. */
#include "fake-verbs.h"

#include <string.h>

/* More windows than any rule allows at once, and no more than a peer has credits for. */
#define DRIPS 24
/* Slower than what is too many in any case. */
#define HOARD_MILLISECONDS 250
/* Just before a --timeout of one second; and how often, then no more. */
#define CRAWL_MILLISECONDS 900
#define CRAWLS             10

#define STATUS_CONTENTS_WRONG 7

/* ---- Numbers of a window that cannot be ---- */

static void ready_back(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->ready--;
}

static void taken_back(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->taken--;
}

static void kept_back(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->kept--;
}

static void received_back(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->received--;
}

static void received_more(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->received += TRANSFER_CREDITS;
}

static void ready_beyond(const struct peer *peer, struct window *window)
{
	window->ready = peer->transfer.source.stream.length + 1;
}

/* The announced ring, and a byte more. */
static void ready_beyond_ring(const struct peer *peer, struct window *window)
{
	window->ready = peer->transfer.source.stream.announced + 1;
}

static void ready_after_end(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->ready++;
}

static void end_again(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->end = true;
}

static void end_early(const struct peer *peer, struct window *window)
{
	(void)peer;
	window->ready += window->ready == 0;
	window->end = true;
}

static void taken_beyond(const struct peer *peer, struct window *window)
{
	window->taken = peer->transfer.sink.stream.length + 1;
}

static void kept_beyond(const struct peer *peer, struct window *window)
{
	window->kept = peer->transfer.sink.stream.length + 1;
}

static void nothing_new(const struct peer *peer, struct window *window)
{
	(void)peer;
	(void)window;
}

static const struct {
	const char *name;
	enum moment moment;
	void (*change)(const struct peer *peer, struct window *window);
} false_windows[] = {
	{ "window-first", MOMENT_BEFORE_MR, end_early },
	{ "received-more", MOMENT_REGIONS_KNOWN, received_more },
	{ "ready-beyond", MOMENT_REGIONS_KNOWN, ready_beyond },
	{ "ready-beyond-ring", MOMENT_REGIONS_KNOWN, ready_beyond_ring },
	{ "end-early", MOMENT_REGIONS_KNOWN, end_early },
	{ "taken-beyond", MOMENT_REGIONS_KNOWN, taken_beyond },
	{ "kept-beyond", MOMENT_REGIONS_KNOWN, kept_beyond },
	{ "ready-back", MOMENT_BEFORE_DONE, ready_back },
	{ "taken-back", MOMENT_BEFORE_DONE, taken_back },
	{ "kept-back", MOMENT_BEFORE_DONE, kept_back },
	{ "received-back", MOMENT_BEFORE_DONE, received_back },
	{ "after-end", MOMENT_BEFORE_DONE, ready_after_end },
	{ "end-twice", MOMENT_BEFORE_DONE, end_again },
	{ "nothing-new", MOMENT_BEFORE_DONE, nothing_new },
};

/* What is true, to go on from: a window that could be sent a quarter of a second later as well. */
static void send_true_window(struct peer *peer)
{
	int64_t later = simulated_milliseconds() + TRANSFER_MILLISECONDS;
	struct window window;

	if (transfer_window(&peer->transfer, later, &window))
		peer_sends_window(peer, &window);
}

static bool tell_false_window(struct peer *peer, enum moment moment, const char *name)
{
	for (size_t i = 0; i < sizeof(false_windows) / sizeof(false_windows[0]); i++) {
		struct window window;

		if (false_windows[i].moment != moment || strcmp(false_windows[i].name, name) != 0)
			continue;
		if (moment == MOMENT_BEFORE_DONE)
			send_true_window(peer);
		window = peer->told;
		window.end = false;
		false_windows[i].change(peer, &window);
		peer_sends_window(peer, &window);
		return true;
	}
	return false;
}

/* ---- True windows, too many of them ---- */

/* One that moves by a byte the number of the side that operates, and confirms nothing. */
static void move_a_byte(struct peer *peer)
{
	struct window window = peer->told;

	window.ready += scripted("write");
	window.taken += !scripted("write");
	peer_sends_window(peer, &window);
}

static bool drip(struct peer *peer, enum moment moment, const char *name)
{
	if (moment != MOMENT_REGIONS_KNOWN || strcmp(name, "drip") != 0)
		return false;
	for (int i = 0; i < DRIPS; i++)
		move_a_byte(peer);
	return true;
}

/* For as long as there is a byte to move: it is never silent, but does nothing else. */
static bool hoard(struct peer *peer, enum moment moment, const char *name)
{
	const struct transfer *transfer = &peer->transfer;
	uint64_t told = scripted("write") ? peer->told.ready : peer->told.taken;
	uint64_t length =
		scripted("write") ? transfer->source.stream.length : transfer->sink.stream.length;

	if (moment != MOMENT_REGIONS_KNOWN || strcmp(name, "hoard") != 0)
		return false;
	if (peer->clock == 0 && told + 1 < length) {
		move_a_byte(peer);
		peer_wakes_at(peer, simulated_milliseconds() + HOARD_MILLISECONDS);
	}
	return true;
}

/* ---- True windows, each at the last moment ---- */

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
	peer_sends_done(peer, transfer_done(&peer->transfer, simulated_milliseconds()));
	peer_sends_verdict(peer, 0);
}

static bool tell_other(struct peer *peer, enum moment moment, const char *name)
{
	const struct transfer_stream *stream = &peer->transfer.source.stream;

	if (moment == MOMENT_BEFORE_DONE && !strcmp(name, "done-more"))
		peer_sends_done(peer, peer->transfer.source.filled + 1);
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "done-early"))
		peer_sends_done(peer, stream->length == TRANSFER_UNKNOWN ? peer->outgoing_length
									 : stream->length);
	else if (moment == MOMENT_BEFORE_DONE && !strcmp(name, "verdict-soon"))
		judge_soon(peer);
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "verdict-bad"))
		peer_sends_verdict(peer, STATUS_CONTENTS_WRONG);
	else if (moment == MOMENT_REGIONS_KNOWN && !strcmp(name, "verdict-good"))
		peer_sends_verdict(peer, 0);
	else
		return false;
	return true;
}

uint64_t peer_announces(const struct peer *peer, uint64_t ready)
{
	const char *name = scripted_text("lie");

	if (name && !strcmp(name, "mr-ready"))
		return peer->transfer.source.stream.plan.ring + 1;
	return ready;
}

bool peer_lies(struct peer *peer, enum moment moment)
{
	const char *name = scripted_text("lie");

	if (!name || peer->silent)
		return false;
	if (hoard(peer, moment, name) || confirm(peer, moment, name) ||
	    crawl(peer, moment, name)) { /* goes on */
		peer->lied = true;
		return true;
	}
	peer->silent = tell_false_window(peer, moment, name) || drip(peer, moment, name) ||
		       tell_other(peer, moment, name);
	peer->lied = peer->silent;
	return peer->lied;
}
