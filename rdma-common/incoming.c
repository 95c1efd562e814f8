// SPDX-License-Identifier: MIT
#include "incoming.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

/* ---- The beginning ---- */

static enum status fail_to_begin(int error, struct failure *failure)
{
	return failure_set(failure, STATUS_LOCAL_FAILURE,
			   "cannot start to verify or store the incoming payload: %s",
			   strerror(error));
}

enum status incoming_open(struct incoming *incoming, const struct transfer *transfer,
			  struct process *process, struct failure *failure)
{
	uint64_t pass = transfer->sink.stream.plan.length;

	/* the memory budget does not count this buffer, so keep it no longer than the ring */
	incoming->buffer_size =
		incoming->ring_size < HELPER_BUFFER ? incoming->ring_size : HELPER_BUFFER;
	if (incoming->output) {
		incoming->helper =
			helper_start_storing(process, incoming->output_taken, incoming->output,
					     pass, incoming->buffer_size);
		if (!incoming->helper)
			return fail_to_begin(errno, failure);
		incoming->buffer = helper_buffer(incoming->helper);
		incoming->opening = true;
		helper_open(incoming->helper);
	} else {
		incoming->buffer = malloc(incoming->buffer_size);
	}
	incoming->verification.pass_length = pass;
	if (!incoming->buffer || !verify_begin(&incoming->verification))
		return fail_to_begin(ENOMEM, failure);
	incoming->begun = true;
	return STATUS_SUCCESS;
}

/* ---- Storing ---- */

/* Describe in `failure` that storing failed with errno. Return INCOMING_FAILED. */
static enum incoming_step fail_to_store(const struct incoming *incoming, struct failure *failure)
{
	failure_set(failure, STATUS_LOCAL_FAILURE, "%s in '%s': %s",
		    incoming->verified ? "received and verified everything, but cannot store it"
				       : "cannot store the incoming payload",
		    ellipsize(incoming->output).text, output_error(errno));
	return INCOMING_FAILED;
}

/* Fetch the result of opening the output, if there is one yet. */
static enum incoming_step take_opened(struct incoming *incoming, struct failure *failure)
{
	ssize_t result;

	if (!helper_result(incoming->helper, &result))
		return INCOMING_WAITS;
	incoming->opening = false;
	return result < 0 ? fail_to_store(incoming, failure) : INCOMING_MOVED;
}

/*
 * Let the helper store the first `size` bytes of the buffer. The `skipped` bytes after them count
 * as stored when the helper has finished, or at once if `size` is 0.
 */
static void begin_to_store(struct incoming *incoming, struct transfer *transfer, size_t size,
			   uint64_t skipped)
{
	incoming->offset = 0;
	incoming->unstored = size;
	incoming->skipped = skipped;
	if (size > 0)
		helper_store(incoming->helper, 0, size);
	else
		transfer_record_stored(transfer, skipped);
}

/* Fetch the helper's result, if there is one, and let the helper store the rest of the buffer. */
static enum incoming_step take_stored(struct incoming *incoming, struct transfer *transfer,
				      struct failure *failure)
{
	ssize_t count;

	if (!helper_result(incoming->helper, &count))
		return INCOMING_WAITS;
	if (count < 0)
		return fail_to_store(incoming, failure);
	incoming->offset += (size_t)count;
	incoming->unstored -= (size_t)count;
	transfer_record_stored(transfer, (uint64_t)count);
	if (incoming->unstored > 0)
		helper_store(incoming->helper, incoming->offset, incoming->unstored);
	else
		transfer_record_stored(transfer, incoming->skipped);
	return INCOMING_MOVED;
}

/* ---- Verifying ---- */

/* Verify the next bytes. Return false if they are wrong, or too many. */
static bool verify_piece(struct incoming *incoming, const uint8_t *bytes, size_t size,
			 struct failure *failure)
{
	struct verification *verification = &incoming->verification;

	/* a known length was checked against the limit when the peer's hello arrived */
	if (verification->pass_length != LENGTH_UNKNOWN ||
	    size <= incoming->limit - verification->bytes)
		return verify_next(verification, bytes, size, failure);
	failure_set(failure, STATUS_REFUSED,
		    "the peer sends more than the %" PRIu64
		    " bytes that --max-size allows here: send less, or raise --max-size",
		    incoming->limit);
	return false;
}

/* Copy a piece out of the ring. Verify the copy and, with --output, store it. */
static enum incoming_step take_copy(struct incoming *incoming, struct transfer *transfer,
				    const struct piece *piece, struct failure *failure)
{
	size_t size =
		piece->size < incoming->buffer_size ? (size_t)piece->size : incoming->buffer_size;
	uint64_t position = incoming->verification.bytes;
	size_t stored = 0;

	memcpy(incoming->buffer, incoming->ring + piece->offset, size);
	if (incoming->output)
		stored = bytes_in_first_pass(&incoming->verification, position, size);
	if (!verify_piece(incoming, incoming->buffer, size, failure))
		return INCOMING_FAILED;
	transfer_record_copied(transfer, size);
	begin_to_store(incoming, transfer, stored, size - stored);
	return INCOMING_MOVED;
}

/* ---- The steps ---- */

/* Commit the output, now that each byte is verified and stored. */
static enum incoming_step commit_incoming(struct incoming *incoming, struct failure *failure)
{
	ssize_t result;

	if (!incoming->committing) {
		incoming->committing = true;
		helper_commit(incoming->helper);
	}
	if (!helper_result(incoming->helper, &result))
		return INCOMING_WAITS;
	return result < 0 ? fail_to_store(incoming, failure) : INCOMING_COMPLETE;
}

enum incoming_step incoming_step(struct incoming *incoming, struct transfer *transfer, bool all,
				 uint64_t digest, struct failure *failure)
{
	struct piece piece;

	if (incoming->opening)
		return take_opened(incoming, failure);
	if (incoming->unstored > 0)
		return take_stored(incoming, transfer, failure);
	if (transfer_next_copy(transfer, &piece))
		return take_copy(incoming, transfer, &piece, failure);
	if (!all)
		return INCOMING_WAITS;
	if (incoming->begun && !incoming->verified) {
		if (!verification_matches(&incoming->verification, transfer_sink_end(transfer),
					  digest)) {
			failure_set(failure, STATUS_CONTENTS_WRONG, "%s",
				    status_describe(STATUS_CONTENTS_WRONG));
			return INCOMING_FAILED;
		}
		incoming->verified = true;
	}
	if (!incoming->helper)
		return INCOMING_COMPLETE;
	return commit_incoming(incoming, failure);
}

/* ---- The end ---- */

bool incoming_release_helper(struct incoming *incoming)
{
	struct helper *helper = incoming->helper;

	if (helper)
		incoming->buffer = NULL; /* the buffer belongs to the helper */
	incoming->helper = NULL;
	return helper_release(helper);
}

void incoming_free(struct incoming *incoming)
{
	verify_free(&incoming->verification);
	free(incoming->buffer);
	incoming->buffer = NULL;
}
