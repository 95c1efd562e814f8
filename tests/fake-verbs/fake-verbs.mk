# SPDX-License-Identifier: MIT
# Link the programs with the fake instead of libibverbs and librdmacm. In the top folder,
#   make -f tests/fake-verbs/fake-verbs.mk [SANITIZE=address|thread|none]
# makes rdma-server, rdma-client and some lessons in build/fake-verbs/$(SANITIZE).

SANITIZE ?= address
CC ?= cc
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config
OUTPUT ?= build/fake-verbs/$(SANITIZE)
FAKE_VERBS = tests/fake-verbs
FAKE = $(OUTPUT)/fake

flags_address = -fsanitize=address,undefined -fno-sanitize-recover=undefined
flags_thread = -fsanitize=thread
# Loading and relocating libasan and libubsan takes a quarter of a run: if the compiler can, link them statically and at
# a fixed address.
ifeq ($(SANITIZE),address)
link_address := $(shell echo 'int main(int count, char **words) { return words[0][0] + count; }' | $(CC) -x c \
	-o /dev/null $(flags_address) -no-pie -static-libasan -static-libubsan - 2>/dev/null && \
	echo -no-pie -static-libasan -static-libubsan)
endif
fake_warnings = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
fake_flags := -std=gnu11 -D_GNU_SOURCE -pthread -O1 -g -fno-omit-frame-pointer -MMD -MP $(shell $(PKG_CONFIG) --cflags libnl-3.0)
# A race detector must not see how the fake moves bytes: no call of memcpy(), and no instrumentation by SANITIZE=thread.
fake_own = $(fake_warnings) -fno-tree-loop-distribute-patterns \
	$(if $(filter thread,$(SANITIZE)),,$(flags_$(SANITIZE)))

# Functions of libc and libnl that the fake replaces, mostly to make them fail or to simulate time.
wrapped = calloc mmap munmap epoll_create1 epoll_ctl epoll_wait eventfd signalfd sigprocmask \
	signal read pread statvfs fsync fdatasync renameat2 fcntl uselocale fclose getrlimit sysinfo \
	sched_getaffinity getaddrinfo getnameinfo getifaddrs freeifaddrs pthread_create \
	clock_gettime nanosleep alarm raise syscall sem_wait sem_post socket sendto nl_connect
# Link in two steps, so that the program's own calls are redirected, but not those of a sanitizer's library.
link = $(LD) -r $(wrapped:%=--wrap=%) -o $@-wrapped.o $^ && \
	$(CC) $(fake_flags) $(flags_$(SANITIZE)) $(link_$(SANITIZE)) -o $@ $@-wrapped.o -lxxhash

# The lessons for which the fake has all functions.
lessons = $(patsubst tests/%.c,$(OUTPUT)/%,$(wildcard $(patsubst %,tests/lessons/%-*/*.c,03 04 08)))
modules = rdma-common $(patsubst %.c,%,$(wildcard rdma-common/*.c))
module_objects = $(modules:%=$(OUTPUT)/%.o)
check_objects = $(patsubst %.c,$(OUTPUT)/%.o,$(wildcard rdma-common/check/*.c))
fake_objects = $(patsubst %,$(FAKE)/%.o,world verbs cm peer)
peer_objects = $(patsubst %,$(FAKE)/%.o,scripted-peer lies transfer wire)

fake-verbs: $(OUTPUT)/rdma-server $(OUTPUT)/rdma-client $(lessons)

$(OUTPUT)/rdma-client: $(check_objects)
$(OUTPUT)/rdma-server $(OUTPUT)/rdma-client: $(OUTPUT)/%: $(OUTPUT)/%.o $(module_objects) \
		$(fake_objects)
	$(link) -ljson-c -lnl-3

$(OUTPUT)/rdma-%.o: rdma-%.c $(OUTPUT)/rdma-%.d
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(fake_flags) $(flags_$(SANITIZE)) -c -o $@ $<

# A module that calls poll(2) to wait for the fake must wait in simulated time.
$(OUTPUT)/rdma-common.o $(patsubst %,$(OUTPUT)/rdma-common/%.o,check/evidence helper process): CPPFLAGS += -Dpoll=simulated_poll

# The threads of the console wait for real readers, so simulated time does not wait for them. The number of their reads
# differs from run to run, so the script cannot make these calls fail.
$(OUTPUT)/rdma-common/console.o: CPPFLAGS += -Dstart_thread=start_console_thread -Dread=__real_read -Dpoll=poll_console

$(lessons): %: %.o $(fake_objects)
	$(link)

$(lessons:%=%.o): $(OUTPUT)/%.o: tests/%.c $(OUTPUT)/%.d
	@mkdir -p $(@D)
	$(CC) $(fake_flags) -Dpoll=simulated_poll -Dpthread_join=simulated_join $(flags_$(SANITIZE)) -c -o $@ $<

vpath %.c $(FAKE_VERBS) rdma-common
$(FAKE)/%.o: %.c $(FAKE)/%.d
	@mkdir -p $(@D)
	$(CC) $(fake_flags) $(fake_own) -c -o $@ $<

# The peer has its own copies of transfer.c and wire.c: the program's belong to other threads. Only peer* stays global.
# Dissolve section groups (32-bit machines have some): the final link would drop the peer's as duplicates of the
# program's.
$(FAKE)/peer.o: $(peer_objects)
	$(LD) -r --force-group-allocation -o $@ $^
	$(OBJCOPY) --wildcard --keep-global-symbol='peer*' $@

# The compiler writes a list of the included headers beside each object. An object without such a list is out of date.
objects = $(OUTPUT)/rdma-server.o $(OUTPUT)/rdma-client.o $(module_objects) $(check_objects) $(fake_objects) \
	$(peer_objects) $(lessons:%=%.o)
header_lists = $(objects:.o=.d)
$(header_lists): ;
include $(wildcard $(header_lists))

.PHONY: fake-verbs
