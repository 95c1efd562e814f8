/* SPDX-License-Identifier: MIT */
/*
 * Whether a ring is still mapped. Its address does not tell: soon something else may be there.
 */
#ifndef UNIT_MAPPED_H
#define UNIT_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The last one to be watched; NULL once it is unmapped. */
static _Atomic(void *) mapped_ring;

/* In the place of the C library's. */
int munmap(void *memory, size_t size)
{
	void *ring = memory;

	atomic_compare_exchange_strong(&mapped_ring, &ring, NULL);
	return (int)syscall(SYS_munmap, memory, size);
}

/* From now on ring_is_mapped() is about this one. */
static inline void watch_ring(void *ring)
{
	atomic_store(&mapped_ring, ring);
}

static inline bool ring_is_mapped(void)
{
	return atomic_load(&mapped_ring);
}

#endif
