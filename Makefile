# SPDX-License-Identifier: MIT
# 'make' builds the two programs. It needs a C compiler, pkg-config, libibverbs, librdmacm, libxxhash, json-c and
# libnl-3; rdma-faq(7) has the packages of each system.
# Targets that need more packages (deb, check, demo, lab, lint, ...) install them first, on Debian.

PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config
TRANSPORT ?= rxe

PROGRAMS = rdma-server rdma-client
MODULES = rdma-common.c $(wildcard rdma-common/*.c)
# The modules of --check, which are linked into the client only.
CHECK = $(wildcard rdma-common/check/*.c)
SOURCES = $(MODULES) $(CHECK) rdma-client.c rdma-server.c
PACKAGES = libibverbs librdmacm "libxxhash >= 0.8" "json-c >= 0.14" libnl-3.0
WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wvla
# Support files of more than 2 GiB on 32-bit machines.
DIALECT = -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -pthread
HEADER_FLAGS = $(shell $(PKG_CONFIG) --cflags $(PACKAGES))
# The recipes that first install the packages do not use this variable: make expands a whole recipe before it runs it.
REQUIRED_FLAGS = $(HEADER_FLAGS)$(if $(filter-out 0,$(.SHELLSTATUS)),$(error '$(PKG_CONFIG)' fails, for the reason \
	above; rdma-faq(7) lists the packages of each system and the releases that are new enough))
COMPILE = $(CC) $(DIALECT) $(WARNINGS) $(DEFINES) $(REQUIRED_FLAGS) $(CPPFLAGS) $(CFLAGS)
LIBRARIES = -Wl,--as-needed $(shell $(PKG_CONFIG) --libs $(PACKAGES)) $(LDLIBS)

all: $(PROGRAMS) ## build the two programs
rdma-client: $(CHECK:%.c=build/plain/%.o)
$(PROGRAMS): %: build/plain/%.o $(MODULES:%.c=build/plain/%.o)
	$(COMPILE) $(LDFLAGS) -o $@ $^ $(LIBRARIES)

# Rules that compile objects to a folder of build/, one for each kind: plain, asan, ... The compiler writes a list of the
# included headers beside each object. An object without such a list is out of date.
define OBJECTS
build/$(1)/%.o: %.c build/$(1)/%.d
	@mkdir -p $$(@D)
	$$(COMPILE) $$(SANITIZE_$(1)) -MMD -MP -c -o $$@ $$<
endef
KINDS = plain asan tsan fuzz
$(foreach kind,$(KINDS),$(eval $(call OBJECTS,$(kind))))

COMPILED = $(SOURCES) $(wildcard tests/unit/*.c tests/peer/*.c tests/fuzz/*.c)
HEADER_LISTS = $(foreach kind,$(KINDS),$(COMPILED:%.c=build/$(kind)/%.d))
$(HEADER_LISTS): ;
include $(wildcard $(HEADER_LISTS))

# The commit of a git checkout: "+g1234567", or "+g1234567.dirty" if files are changed. Releases and packages have none.
PROGRAM_COMMIT ?= $(shell [ ! -e .git ] || ! command -v git >/dev/null || \
	git describe --always --abbrev=7 --exclude='*' --dirty=.dirty | sed 's/^/+g/')

# This file changes only if the commit does, and only options.o depends on it.
build/version: FORCE
	@mkdir -p build
	@commit='$(PROGRAM_COMMIT)'; echo "$$commit" | cmp -s - $@ || echo "$$commit" >$@
FORCE:

# At -O2 gcc does not unroll the loops of digests and patterns, and takes 1.5 to 3 times as long.
build/plain/rdma-common/digest.o: DEFINES = -funroll-loops

build/plain/rdma-common/options.o: DEFINES = -DPROGRAM_COMMIT='"$(shell cat build/version)"'
build/plain/rdma-common/options.o: build/version

help: ## print this list
	@sed -n 's/^\([a-z][a-z-]*\):.* ## \(.*\)/\1:\2/p' $(filter-out %.d,$(MAKEFILE_LIST)) | while IFS=: read -r target text; do \
		printf 'make %-12s %s\n' "$$target" "$$text"; \
	done

clean: ## remove the built files
	$(RM) -r build
	$(RM) $(PROGRAMS) $(LESSON_FILES:.c=)

include .github/packaging.mk

# ---- tests and demonstrations ----

SANITIZE_asan = -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_tsan = -O1 -g -fno-omit-frame-pointer -fsanitize=thread
SANITIZE_fuzz = $(SANITIZE_asan) -fsanitize=fuzzer-no-link
SANITIZED = $(foreach kind,asan tsan,$(PROGRAMS:%=build/$(kind)/%)) $(DECODERS:%=build/asan/%)
UNIT_TESTS = $(patsubst tests/unit/%.c,build/unit/%,$(wildcard tests/unit/*.c))
# Tests of decoders: a sanitizer notices any read past the end of a message, and memory that is not freed.
DECODERS = $(patsubst %,unit/%-test,congestion netlink wire)
UNIT_LIBRARIES = $(LIBRARIES) $(shell $(PKG_CONFIG) --libs cmocka)
FUZZERS = $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))
# The modules that the fuzzers call, and the modules on which these depend.
FUZZED = $(addprefix rdma-common/,clock console log netlink options process reasons status sysfs thread wire)
FUZZ_SECONDS ?= 600

# Rules that link the programs with a sanitizer.
define WATCHED
build/$(1)/rdma-client: $(CHECK:%.c=build/$(1)/%.o)
$(PROGRAMS:%=build/$(1)/%): build/$(1)/%: build/$(1)/%.o $(MODULES:%.c=build/$(1)/%.o)
	$$(COMPILE) $$(SANITIZE_$(1)) $$(LDFLAGS) -o $$@ $$^ $$(LIBRARIES)
endef
$(foreach kind,asan tsan,$(eval $(call WATCHED,$(kind))))

$(FUZZERS): build/fuzz/%: build/fuzz/tests/fuzz/%.o $(FUZZED:%=build/fuzz/%.o)
	$(COMPILE) $(SANITIZE_asan) -fsanitize=fuzzer -o $@ $^ $(LIBRARIES)
build/fuzz/%: CC = clang
build/fuzz/tests/%.o: DEFINES = -I.

build/%-test.o: DEFINES = -I. $(shell $(PKG_CONFIG) --cflags cmocka)

$(UNIT_TESTS): build/unit/%: build/plain/tests/unit/%.o $(patsubst %.c,build/plain/%.o,$(MODULES) $(CHECK))
	@mkdir -p $(@D)
	$(COMPILE) $(LDFLAGS) -o $@ $^ $(UNIT_LIBRARIES)

$(DECODERS:%=build/asan/%): build/asan/%: build/asan/tests/%.o $(patsubst %.c,build/asan/%.o,$(MODULES) $(CHECK))
	@mkdir -p $(@D)
	$(COMPILE) $(SANITIZE_asan) $(LDFLAGS) -o $@ $^ $(UNIT_LIBRARIES)

build/peer: build/plain/tests/peer/peer.o $(MODULES:%.c=build/plain/%.o)
	$(COMPILE) $(LDFLAGS) -o $@ $^ $(LIBRARIES)

# Libraries that tests load into a program in front of librdmacm.
PRELOADS = $(patsubst tests/%.c,build/%.so,$(wildcard tests/preload/*.c))

$(PRELOADS): build/%.so: tests/%.c
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -shared $(LDFLAGS) -o $@ $< -ldl

# The simulated hosts of the tests of rdma-pairs: one program with several names.
SIMULATED = build/simulated/on

$(SIMULATED): tests/simulated/host.c
	@mkdir -p $(@D)/wrong
	$(COMPILE) -o $@ $<
	ln -sf on $(@D)/rdma-server
	ln -sf on $(@D)/rdma-client
	ln -sf ../on $(@D)/wrong/date

# Each C file of a lesson is a program, and includes no header of this project.
LESSON_FILES = $(wildcard tests/lessons/*/*.c)
LESSONS = $(LESSON_FILES:tests/%.c=build/%)

lessons: $(LESSONS) ## build the lessons: small programs, from the first device to a server

$(LESSONS): build/%: tests/%.c
	@mkdir -p $(@D)
	$(COMPILE) $(LDFLAGS) -o $@ $< $(LIBRARIES)

# The programs on the fake library; fake-verbs.mk has the rules.
FAKE_VERBS = fake-verbs-none fake-verbs-address fake-verbs-thread

$(FAKE_VERBS): fake-verbs-%:
	@$(MAKE) --no-print-directory -f tests/fake-verbs/fake-verbs.mk SANITIZE=$*

tests: all $(UNIT_TESTS) fake-verbs-none build/peer $(PRELOADS) $(SIMULATED) $(LESSONS)
tests-all: tests $(SANITIZED) $(FUZZERS) $(FAKE_VERBS)

check: ## run the quick tests: unit tests, the fake library, sessions and faults over Soft-RoCE, sessions over soft-iWARP
	tests/setup build lab check
	$(MAKE) --no-print-directory -j "$$(nproc)" tests
	tests/run

check-local: ## run the tests of make check that need no emulated hosts, on any system with Debian's packages
	tests/setup build check
	$(MAKE) --no-print-directory -j "$$(nproc)" tests
	tests/run local

check-all: ## run all tests on both transports, and with sanitizers
	tests/setup build lab check check-all
	$(MAKE) --no-print-directory -j "$$(nproc)" tests-all
	tests/run all

portability: ## run unit tests and scripted sessions on s390x, i386 and arm64, in emulation; run sessions of amd64 with arm64
	tests/setup build lab check portability
	$(MAKE) --no-print-directory all
	tests/run portability

fuzz: ## fuzz the input that a peer controls; FUZZ_SECONDS=600 for each fuzzer
	tests/setup build check-all
	$(MAKE) --no-print-directory $(FUZZERS)
	for fuzzer in $(FUZZERS); do tests/fuzz/run $$fuzzer $(FUZZ_SECONDS) || exit 1; done

soak: ## run 100,000 sessions on each transport; SESSIONS=2000 LARGE=64M for less
	tests/setup build lab
	$(MAKE) --no-print-directory all build/peer
	tests/soak

# For example: make mutate MUTANTS=100 SEED=2; 'tests/mutate --help' explains more.
mutate: ## change single lines, and report whether a test fails; MUTANTS=30 SEED=1 FILES=
	tests/setup build check
	tests/mutate --count $(or $(MUTANTS),30) --seed $(or $(SEED),1) $(FILES)

demo: ## run the pair on two emulated hosts, in both modes, and compare the results; TRANSPORT=siw
	@tests/demo --plan
	tests/setup build lab
	@echo 'Building the two programs ...'
	@$(MAKE) --no-print-directory --silent all
	@tests/demo

bench: ## compare with perftest and rping; data goes to build/bench/; TRANSPORT=rxe PAIRS=3 for less
	tests/setup build lab bench
	$(MAKE) --no-print-directory all build/peer $(SIMULATED)
	tests/simulated/measure 300 --rounds 8 --duration 7
	tests/bench

lab: ## open a shell on each of two emulated hosts, in one window; TRANSPORT=siw CAPTURE=wire.pcap
	tests/setup build lab interactive
	$(MAKE) --no-print-directory all
	tests/lab/lab up --transport $(TRANSPORT) $(if $(CAPTURE),--capture $(CAPTURE)) -- tests/lab/lab shells

fresh: ## run make demo on newly installed Debian 12, 13 and 14; CHECK=1 for make check, too
	tests/setup fresh
	tests/fresh

# ---- form ----

PICTURES = $(patsubst %.dot,%.svg,$(wildcard .pictures/*.dot)) $(patsubst %.gnuplot,%.svg,$(wildcard .pictures/*.gnuplot))

pictures: ## draw the documents' pictures from their sources in .pictures/
pictures:
	tests/setup pictures
	$(MAKE) --no-print-directory $(PICTURES)

# Remove the comment with graphviz's release, so that another release gives the same file.
.pictures/%.svg: .pictures/%.dot
	dot -Tsvg -o $@.new $<
	sed -i '/^<!-- Generated by/d; /^ -->$$/d' $@.new
	mv $@.new $@

.pictures/%.svg: .pictures/%.gnuplot $(wildcard .pictures/*.dat)
	gnuplot $< >$@.new
	sed -i "/^<desc>Produced by GNUPLOT/d; s/<image /&style='image-rendering:pixelated' /" $@.new
	mv $@.new $@

C_FILES = $(wildcard *.[ch] rdma-common/*.[ch] rdma-common/check/*.[ch] tests/*/*.[ch]) $(LESSON_FILES)
SCRIPTS = .ci/run $(wildcard tests/*.bash tests/*.bats) tests/run tests/setup tests/demo tests/soak tests/fresh \
	rdma-common/pairs/host.sh \
	tests/portability \
	tests/fake-verbs/faults tests/fuzz/run tests/lab/init tests/lab/kernel

# With these flags compilers also report unused results, for example of getrandom(2).
FORTIFY = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3

format: ## format the C files
	clang-format -i $(C_FILES)

lint: ## run compilers with warnings, the formatter, static checkers, and the check of the layers
	tests/setup build check check-all lint
	clang-format --dry-run --Werror $(C_FILES)
	printf '%s\n' $(SOURCES) $(wildcard tests/*/*.c) $(LESSON_FILES) | xargs -P "$$(nproc)" -I {} sh -ec 'for compiler in gcc clang; do \
		$$compiler $(DIALECT) $(WARNINGS) $(HEADER_FLAGS) -Werror -O2 -I. -c -o /dev/null {}; \
	done'
	printf '%s\n' $(SOURCES) $(LESSON_FILES) | xargs -P "$$(nproc)" -I {} clang-tidy --quiet {} -- $(DIALECT) $(HEADER_FLAGS) -O2 $(FORTIFY)
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
		$(filter -I%,$(HEADER_FLAGS)) --suppress=missingIncludeSystem $(SOURCES) $(LESSON_FILES)
	tests/documents lessons
	shellcheck $(SCRIPTS)
	flake8 --max-line-length 130 --max-complexity 10 tests/simulated/measure rdma-common/pairs/rdma-pairs $(filter %.py,$(PAIRS_MODULES))
	$(MAKE) --no-print-directory all
	tests/layers

# Build without optimization, with link-time optimization and with the strictest _FORTIFY_SOURCE; run gcc's analyzer.
FLAGS_TO_TRY = "-O0" "-O3 -flto=auto" "-O2 $(FORTIFY)"
ANALYZE = gcc $(DIALECT) $(HEADER_FLAGS) -O2 -fanalyzer -Werror -c -o /dev/null

# Headers of the kernel and of libraries, to compile with another libc. Those of glibc stay hidden.
OTHER_HEADERS = $(addprefix /usr/include/,infiniband rdma linux asm-generic json-c libnl3/netlink xxhash.h \
	$(shell $(CC) -print-multiarch)/asm)

compilers: ## build with gcc and clang with other options, and with musl's headers; run the analyzer of gcc
	tests/setup build check-all compilers
	@mkdir -p build/compilers/headers
	ln -sf $(OTHER_HEADERS) build/compilers/headers
	printf '%s\n' $(SOURCES) $(LESSON_FILES) tests/peer/peer.c | xargs -P "$$(nproc)" -I {} musl-gcc $(DIALECT) $(WARNINGS) \
		-idirafter build/compilers/headers -I. -Werror -O2 -c -o /dev/null {}
	for compiler in gcc clang; do for flags in $(FLAGS_TO_TRY); do for program in $(PROGRAMS) $(LESSON_FILES:.c=); do \
		case $$program in tests/*) modules= ;; rdma-client) modules="$(MODULES) $(CHECK)" ;; *) modules="$(MODULES)" ;; esac; \
		$$compiler $(DIALECT) $(WARNINGS) $(HEADER_FLAGS) -Werror $$flags -o build/compilers/$${program##*/} $$program.c $$modules \
			$(LIBRARIES) || exit 1; \
	done; done; done
	printf '%s\n' $(SOURCES) $(LESSON_FILES) | xargs -P "$$(nproc)" -I {} $(ANALYZE) {}

.PHONY: $(FAKE_VERBS) all help lessons clean tests tests-all check check-local check-all portability compilers fuzz soak mutate demo bench lab fresh format pictures lint
