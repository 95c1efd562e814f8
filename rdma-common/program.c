// SPDX-License-Identifier: MIT
#include "program.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "memory.h"
#include "negotiate.h"

/*
 * Time for stuck helpers to remove incomplete outputs when the program ends. A helper that is
 * blocked for longer ends with the process.
 */
#define HELPER_MILLISECONDS 3000

void program_init(struct program *program, const struct options *options)
{
	memset(program, 0, sizeof(*program));
	program->options = options;
	console_init(&program->console, options->json);
	program->log = (struct log){ .console = &program->console, .options = options };
	process_init(&program->process, &program->console);
}

enum status program_open(struct program *program)
{
	struct failure failure;
	enum status status = payload_load(&program->payload, program->options, &failure);

	if (status != STATUS_SUCCESS)
		return process_fail(&program->process, status, "%s", failure.cause);
	status = process_open(&program->process);
	if (status != STATUS_SUCCESS)
		return status;
	if (serves_multiple_clients(program->options) || program->options->connections > 1)
		reserve_siw_offset(&program->process);
	program->regions.budget = memory_budget();
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1); /* the threads allocate too little to need arenas of their own */
#endif
	program->processors = usable_processors();
	return STATUS_SUCCESS;
}

enum wakeup program_wait(struct program *program, int64_t deadline, struct cm_event *event,
			 struct device_event *device_event, struct connection **ended)
{
	enum wakeup wakeup =
		process_wait(&program->process, deadline, event, device_event, (void **)ended);

	if (wakeup == WAKEUP_ENDED && !*ended) { /* an abandoned helper has ended */
		program->regions.stuck_helpers--;
		return WAKEUP_OTHER;
	}
	return wakeup;
}

static void await_helpers(struct program *program)
{
	int64_t deadline = now_milliseconds() + HELPER_MILLISECONDS;
	struct device_event device_event;
	struct connection *ended;
	struct cm_event event;

	while (program->regions.stuck_helpers > 0 && now_milliseconds() < deadline &&
	       program_wait(program, deadline, &event, &device_event, &ended) != WAKEUP_EXHAUSTED)
		;
}

int program_end(struct program *program, enum status status)
{
	enum status output;

	await_helpers(program);
	/* leave the file or pipe open: a stuck helper may read it */
	if (program->regions.stuck_helpers > 0)
		program->payload.descriptor = -1;
	payload_free(&program->payload);
	output = flush_output(&program->log, &program->process);
	process_close(&program->process, program->regions.stuck_helpers > 0);
	if (status == STATUS_INTERRUPTED)
		raise(program->process.signal_number); /* the shell must see the signal */
	return (int)(status == STATUS_SUCCESS ? output : status);
}
