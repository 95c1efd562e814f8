// SPDX-License-Identifier: MIT
#include "thread.h"

#include <stddef.h>

#define STACK_SIZE ((size_t)256 << 10)

int start_thread(pthread_t *thread, void *(*routine)(void *), void *argument)
{
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	/* if this fails, the default size works */
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	error = pthread_create(thread, &attributes, routine, argument);
	pthread_attr_destroy(&attributes);
	return error;
}
