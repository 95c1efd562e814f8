/* SPDX-License-Identifier: MIT */
/*
 * The state of a program that all its connections share.
 *
 * Threads: the main thread.
 */
#ifndef RDMA_COMMON_PROGRAM_H
#define RDMA_COMMON_PROGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "console.h"
#include "log.h"
#include "options.h"
#include "payload.h"
#include "process.h"
#include "region.h"
#include "status.h"

struct connection;

/*
 * The state of a program, owned by the main thread. A connection's thread may only do this:
 *
 * - read `processors`, `regions.sessions` and the memory of `payload`
 * - print
 * - notify `process` of its end
 *
 * Helpers share `output_taken`.
 */
struct program {
	const struct options *options;
	struct process process;
	struct console console;
	struct log log;           /* for lines that belong to no session */
	atomic_bool output_taken; /* an output that cannot be shared is open (output_open()) */
	struct payload payload;
	struct region_account regions;
	unsigned int processors; /* number of processors that the threads may use */
	unsigned int created;    /* number of connections created so far */
	struct {
		struct connection *first, *last; /* linked in the order of their creation */
	} connections;
};

/* Initialize `program`. End it with program_end(). `options` must outlive it. */
void program_init(struct program *program, const struct options *options);

/*
 * Load the outgoing payload, call process_open(), and read the memory budget. On failure print and
 * record a message.
 */
enum status program_open(struct program *program);

/*
 * Wait for stuck helpers (at most HELPER_MILLISECONDS) and for the output (at most --timeout), and
 * free everything. All connections and ids must be destroyed before. Return the exit status of
 * main(). It is `status` or, if that is STATUS_SUCCESS, the result of writing the output. For
 * STATUS_INTERRUPTED end the process by the signal instead.
 */
int program_end(struct program *program, enum status status);

/*
 * Wait as process_wait() does. Handle the end of an abandoned helper, and return WAKEUP_OTHER for
 * it. With WAKEUP_ENDED, `*ended` is the connection whose thread has ended.
 */
enum wakeup program_wait(struct program *program, int64_t deadline, struct cm_event *event,
			 struct device_event *device_event, struct connection **ended);

#endif
