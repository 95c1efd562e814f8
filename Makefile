# SPDX-License-Identifier: MIT
# 'make' builds the two programs and needs a C compiler, pkg-config, libibverbs, librdmacm and
# libxxhash. The targets that need more (check, demo, lab, lint) install it first, on Debian.

PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
TRANSPORT ?= rxe

PROGRAMS = rdma-server rdma-client
MODULES = rdma-common.c rdma-options.c rdma-payload.c rdma-report.c rdma-check.c
SOURCES = $(MODULES) rdma-client.c rdma-server.c
PACKAGES = libibverbs librdmacm libxxhash json-c
WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wvla
DIALECT = -std=gnu11 -D_GNU_SOURCE -pthread
COMPILE = $(CC) $(DIALECT) $(WARNINGS) $(shell pkg-config --cflags $(PACKAGES)) $(CPPFLAGS) $(CFLAGS)
LIBRARIES = -Wl,--as-needed $(shell pkg-config --libs $(PACKAGES)) $(LDLIBS)

all: $(PROGRAMS)

$(PROGRAMS): %: %.o $(MODULES:.c=.o)
	$(COMPILE) $(LDFLAGS) -o $@ $^ $(LIBRARIES)

%.o: %.c rdma-common.h
	$(COMPILE) -c -o $@ $<

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin

clean:
	$(RM) -r build
	$(RM) $(PROGRAMS) *.o

# ---- tests and demonstrations ----

SANITIZE_asan = -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_tsan = -O1 -g -fno-omit-frame-pointer -fsanitize=thread
SANITIZED = $(foreach kind,asan tsan,$(PROGRAMS:%=build/$(kind)/%))
UNIT_TESTS = $(patsubst tests/unit/%.c,build/unit/%,$(wildcard tests/unit/*.c))

$(SANITIZED): $(SOURCES) rdma-common.h
	@mkdir -p $(@D)
	$(COMPILE) $(SANITIZE_$(notdir $(@D))) $(LDFLAGS) -o $@ $(@F).c $(MODULES) $(LIBRARIES)

FUZZERS = $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))
FUZZ_SECONDS ?= 600

build/fuzz/%: tests/fuzz/%.c $(MODULES) rdma-common.h
	@mkdir -p $(@D)
	$(COMPILE) $(SANITIZE_asan) -fsanitize=fuzzer -I. -o $@ $< $(MODULES) $(LIBRARIES)
$(FUZZERS): CC = clang

build/unit/%: tests/unit/%.c $(MODULES:.c=.o)
	@mkdir -p $(@D)
	$(COMPILE) -I. $(LDFLAGS) -o $@ $^ $(LIBRARIES) $(shell pkg-config --cflags --libs cmocka)

build/peer: tests/peer/peer.c $(MODULES:.c=.o)
	@mkdir -p $(@D)
	$(COMPILE) $(LDFLAGS) -o $@ $^ $(LIBRARIES)

tests: all $(SANITIZED) $(UNIT_TESTS) $(FUZZERS) build/peer

check:
	tests/setup build lab check
	$(MAKE) --no-print-directory tests
	tests/run

fuzz:
	tests/setup build check
	$(MAKE) --no-print-directory $(FUZZERS)
	for fuzzer in $(FUZZERS); do tests/fuzz/run $$fuzzer $(FUZZ_SECONDS) || exit 1; done

soak:
	tests/setup build lab
	$(MAKE) --no-print-directory all build/peer
	tests/soak

demo:
	tests/setup build lab
	$(MAKE) --no-print-directory all
	tests/demo

bench:
	tests/setup build lab bench
	$(MAKE) --no-print-directory all
	tests/bench

lab:
	tests/setup build lab interactive
	$(MAKE) --no-print-directory all
	tests/lab/lab up --transport $(TRANSPORT) -- tests/lab/lab shells

# ---- form ----

C_FILES = $(wildcard *.[ch] tests/*/*.[ch])
SCRIPTS = .ci/run $(wildcard tests/*.bash tests/*.bats) tests/run tests/setup tests/demo tests/soak \
	tests/double/faults tests/fuzz/run tests/lab/init tests/lab/kernel

format:
	clang-format -i $(C_FILES)

lint:
	tests/setup build check lint
	clang-format --dry-run --Werror $(C_FILES)
	for compiler in gcc clang; do \
		for file in $(SOURCES) $(wildcard tests/*/*.c); do \
			$$compiler $(DIALECT) $(WARNINGS) -Werror -O2 -I. -c -o /dev/null $$file || exit 1; \
		done; \
	done
	clang-tidy --quiet $(SOURCES) -- $(DIALECT)
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
		--include=/usr/include/$(shell $(CC) -print-multiarch)/sys/queue.h \
		--suppress=missingIncludeSystem $(SOURCES)
	shellcheck $(SCRIPTS)

.PHONY: all install clean tests check fuzz soak demo bench lab format lint
