// SPDX-License-Identifier: MIT
#include "outgoing.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "digest.h"

enum status outgoing_open(struct outgoing *outgoing, const struct payload *payload, uint8_t *ring,
			  size_t ring_size, struct process *process, struct failure *failure)
{
	outgoing->payload = payload;
	outgoing->ring = ring;
	outgoing->ring_size = ring_size;
	outgoing->digest = digest_new();
	if (!outgoing->digest)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot allocate memory for the digest of the outgoing payload");
	outgoing->pass_digest = digest_value(outgoing->digest);
	if (payload->descriptor < 0)
		return STATUS_SUCCESS;
	/* the memory budget does not count this buffer, so keep it no longer than the ring */
	outgoing->helper = helper_start_reading(
		process, payload, ring_size < HELPER_BUFFER ? ring_size : HELPER_BUFFER);
	if (!outgoing->helper)
		return failure_set(failure, STATUS_LOCAL_FAILURE,
				   "cannot start to read the outgoing payload: %s",
				   strerror(errno));
	return STATUS_SUCCESS;
}

/*
 * Return how many bytes of the piece to fill now. HELPER_BUFFER is the maximum, so that no step
 * takes long. If the payload is longer than the ring, stop at the end of a pass, because a
 * repeating stream (transfer.h) needs the digest of one pass.
 */
static size_t piece_size(const struct outgoing *outgoing, const struct piece *piece)
{
	const struct payload *payload = outgoing->payload;
	uint64_t length = payload->length, position = piece->position;
	uint64_t size = piece->size < HELPER_BUFFER ? piece->size : HELPER_BUFFER;

	if (length > outgoing->ring_size && size > length - position % length)
		size = length - position % length;
	/* stop at the end of the bytes in memory: from there on the helper reads the pipe */
	if (position < payload->size && length != payload->size && size > payload->size - position)
		size = payload->size - position;
	return (size_t)size;
}

/*
 * Digest the first `size` bytes of the piece for MSG_DONE. If the stream repeats, MSG_DONE has the
 * digest of the first pass. Return false at the end of a later pass that differs from the first:
 * the peer would blame the path.
 */
static bool digest_piece(struct outgoing *outgoing, const struct transfer_source *source,
			 size_t size)
{
	uint64_t pass = source->stream.plan.length, start = source->filled, end = start + size;
	bool again = source->stream.repeats && start >= pass; /* after the first pass */

	if (again && start % pass == 0)
		digest_restart(outgoing->digest);
	digest_add(outgoing->digest, outgoing->ring + outgoing->piece.offset, size);
	if (!again)
		outgoing->pass_digest = digest_value(outgoing->digest);
	return !again || end % pass != 0 || digest_value(outgoing->digest) == outgoing->pass_digest;
}

/*
 * Digest the first `size` bytes of the piece, and report them to `transfer` as filled. If this pass
 * differs from the first one, describe that in `failure` instead.
 */
static void piece_filled(struct outgoing *outgoing, struct transfer *transfer, size_t size,
			 struct failure *failure)
{
	int64_t started = now_nanoseconds();
	bool good = digest_piece(outgoing, &transfer->source, size);

	outgoing->nanoseconds += now_nanoseconds() - started;
	if (good)
		transfer_record_filled(transfer, size);
	else
		payload_read_failed(outgoing->payload, PAYLOAD_CHANGED, failure);
}

/* Handle the helper's result. Return true if there is one. */
static bool take_read(struct outgoing *outgoing, struct transfer *transfer, struct failure *failure)
{
	const struct payload *payload = outgoing->payload;
	ssize_t count;

	if (!helper_result(outgoing->helper, &count))
		return false;
	if (count > 0) {
		memcpy(outgoing->ring + outgoing->piece.offset, helper_buffer(outgoing->helper),
		       (size_t)count);
		piece_filled(outgoing, transfer, (size_t)count, failure);
	} else if (count < 0) {
		payload_read_failed(payload, strerror(errno), failure);
	} else if (payload->length == LENGTH_UNKNOWN) {
		transfer_end_source(transfer);
	} else {
		payload_read_failed(payload, PAYLOAD_CUT_SHORT, failure);
	}
	return true;
}

/* Copy or generate `size` bytes of the stream from `position` on, across passes. */
static void make_bytes(const struct payload *payload, uint64_t position, uint8_t *memory,
		       size_t size)
{
	size_t done = 0;

	while (done < size)
		done += (size_t)payload_read(payload, (position + done) % payload->length,
					     memory + done, size - done, NULL);
}

bool outgoing_fill(struct outgoing *outgoing, struct transfer *transfer, struct failure *failure)
{
	struct piece *piece = &outgoing->piece;
	size_t size;

	if (helper_busy(outgoing->helper))
		return take_read(outgoing, transfer, failure);
	if (outgoing->ending)
		transfer_end_source(transfer);
	if (!outgoing->payload || !transfer_next_fill(transfer, piece))
		return false;
	size = piece_size(outgoing, piece);
	if (outgoing->helper && piece->position >= outgoing->payload->size) {
		helper_read(outgoing->helper, piece->position % outgoing->payload->length, size);
		return false;
	}
	make_bytes(outgoing->payload, piece->position, outgoing->ring + piece->offset, size);
	piece_filled(outgoing, transfer, size, failure);
	return true;
}

bool outgoing_release_helper(struct outgoing *outgoing)
{
	struct helper *helper = outgoing->helper;

	outgoing->helper = NULL;
	return helper_release(helper);
}

void outgoing_free(struct outgoing *outgoing)
{
	digest_free(outgoing->digest);
	outgoing->digest = NULL;
}
