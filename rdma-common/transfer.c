// SPDX-License-Identifier: MIT
#include "transfer.h"

struct transfer transfer_plan(uint64_t length, uint64_t request_size, uint64_t passes,
			      unsigned int depth)
{
	struct transfer transfer = {
		.length = length,
		.request_size = request_size,
		.requests_per_pass = (length + request_size - 1) / request_size,
		.depth = depth,
	};

	transfer.requests = transfer.requests_per_pass * passes;
	return transfer;
}

unsigned int transfer_ready(const struct transfer *transfer, unsigned int limit)
{
	uint64_t left = transfer->requests - transfer->posted;
	uint64_t ready = transfer->depth - transfer_outstanding(transfer);

	if (ready > left)
		ready = left;
	return ready < limit ? (unsigned int)ready : limit;
}

/*
 * Selective signaling: one completion for a quarter of the depth. Each one stands for all work
 * requests before it.
 */
static bool is_signaled(const struct transfer *transfer, uint64_t number)
{
	uint64_t interval = transfer->depth < 4 ? 1 : transfer->depth / 4;

	return number % interval == 0 || number == transfer->requests;
}

struct piece transfer_next(struct transfer *transfer)
{
	uint64_t left = transfer->length - transfer->next_offset;
	struct piece piece = {
		.number = ++transfer->posted,
		.offset = transfer->next_offset,
		.size = left < transfer->request_size ? left : transfer->request_size,
	};

	piece.signaled = is_signaled(transfer, piece.number);
	transfer->next_offset = piece.size == left ? 0 : piece.offset + piece.size;
	return piece;
}

void transfer_refused(struct transfer *transfer, uint64_t number)
{
	transfer->posted = number - 1;
}

bool transfer_all_posted(const struct transfer *transfer)
{
	return transfer->posted == transfer->requests;
}

uint64_t transfer_bytes_posted(const struct transfer *transfer)
{
	if (transfer->posted >= transfer->requests_per_pass)
		return transfer->length;
	return transfer->posted * transfer->request_size;
}

uint64_t transfer_outstanding(const struct transfer *transfer)
{
	return transfer->posted - transfer->completed;
}

uint64_t transfer_passes(const struct transfer *transfer)
{
	return transfer->requests_per_pass ? transfer->completed / transfer->requests_per_pass : 0;
}
