# SPDX-License-Identifier: MIT
# The programs need libibverbs, librdmacm and libxxhash; all targets that need more install it.

PREFIX ?= /usr/local
CC ?= cc
CFLAGS ?= -O2 -g
WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wvla

PROGRAMS = rdma-server rdma-client
PACKAGES = libibverbs librdmacm libxxhash
DIALECT = -std=gnu11 -D_GNU_SOURCE -pthread
compile_flags = $(DIALECT) $(WARNINGS) $(shell pkg-config --cflags $(PACKAGES)) $(CPPFLAGS) $(CFLAGS)
link_libraries = $(shell pkg-config --libs $(PACKAGES)) $(LDLIBS)

all: $(PROGRAMS)

$(PROGRAMS): %: %.o rdma-common.o
	$(CC) $(compile_flags) $(LDFLAGS) -o $@ $^ $(link_libraries)

%.o: %.c rdma-common.h
	$(CC) $(compile_flags) -c -o $@ $<
