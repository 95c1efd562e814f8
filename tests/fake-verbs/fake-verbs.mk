# SPDX-License-Identifier: MIT
# The programs, linked with the fake instead of libibverbs and librdmacm. From the top:
#   make -f tests/fake-verbs/fake-verbs.mk [SANITIZE=address|thread|none]
# makes build/fake-verbs/$(SANITIZE)/rdma-server and rdma-client.

SANITIZE ?= address
CC ?= cc
OBJCOPY ?= objcopy
OUTPUT ?= build/fake-verbs/$(SANITIZE)
FAKE_VERBS = tests/fake-verbs
FAKE = $(OUTPUT)/fake

flags_address = -fsanitize=address,undefined -fno-sanitize-recover=undefined
flags_thread = -fsanitize=thread
# To load these two libraries, and to relocate them, takes a quarter of a run; they are linked in where the compiler can,
# at a fixed address.
ifeq ($(SANITIZE),address)
link_address := $(shell echo 'int main(int count, char **words) { return words[0][0] + count; }' | $(CC) -x c \
	-o /dev/null $(flags_address) -no-pie -static-libasan -static-libubsan - 2>/dev/null && \
	echo -no-pie -static-libasan -static-libubsan)
endif
fake_warnings = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
fake_flags = -std=gnu11 -D_GNU_SOURCE -pthread -O1 -g -fno-omit-frame-pointer
# The fake moves bytes as an adapter does: unseen by a race detector, not by calling memcpy.
fake_own = $(fake_warnings) -fno-tree-loop-distribute-patterns \
	$(if $(filter thread,$(SANITIZE)),,$(flags_$(SANITIZE)))

# Functions that fail on demand, and those that have to know the simulated time.
wrapped = calloc mmap munmap epoll_create1 epoll_ctl epoll_wait eventfd signalfd sigprocmask \
	signal read pread statvfs fsync fdatasync linkat fcntl uselocale fclose getrlimit sysinfo \
	sched_getaffinity getaddrinfo getnameinfo getifaddrs freeifaddrs pthread_create \
	clock_gettime nanosleep alarm raise syscall sem_wait sem_post socket sendto
# In two steps, so that none but the program's own calls become the fake's: not those of a sanitizer's library.
link = $(LD) -r $(wrapped:%=--wrap=%) -o $@-wrapped.o $^ && \
	$(CC) $(fake_flags) $(flags_$(SANITIZE)) $(link_$(SANITIZE)) -o $@ $@-wrapped.o -lxxhash

# The lessons that need no more of the libraries than the fake has.
lessons = $(patsubst tests/%.c,$(OUTPUT)/%,$(wildcard $(patsubst %,tests/lessons/%-*/*.c,03 04 08)))
modules = rdma-common $(patsubst %.c,%,$(wildcard rdma-common/*.c))
module_objects = $(modules:%=$(OUTPUT)/%.o)
check_objects = $(patsubst %.c,$(OUTPUT)/%.o,$(wildcard rdma-common/check/*.c))
fake_objects = $(patsubst %,$(FAKE)/%.o,world verbs cm peer)
peer_objects = $(patsubst %,$(FAKE)/%.o,scripted-peer lies transfer wire)
fake_headers = $(FAKE_VERBS)/fake-verbs.h tests/peer/deviation.h rdma-common/transfer.h rdma-common/wire.h

fake-verbs: $(OUTPUT)/rdma-server $(OUTPUT)/rdma-client $(lessons)

$(OUTPUT)/rdma-client: $(check_objects)
$(OUTPUT)/rdma-server $(OUTPUT)/rdma-client: $(OUTPUT)/%: $(OUTPUT)/%.o $(module_objects) \
		$(fake_objects)
	$(link) -ljson-c

$(OUTPUT)/rdma-%.o: rdma-%.c rdma-common.h $(wildcard rdma-common/*.h rdma-common/check/*.h)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(fake_flags) $(flags_$(SANITIZE)) -c -o $@ $<

# Who waits in poll(2) for what the fake does has to wait in simulated time.
$(OUTPUT)/rdma-common.o $(patsubst %,$(OUTPUT)/rdma-common/%.o,check/evidence helper process): CPPFLAGS += -Dpoll=simulated_poll

# The threads of the console wait for readers, which are real: the simulated time goes on without them. How often they
# read is not the same in each run: none of those calls is made to fail.
$(OUTPUT)/rdma-common/console.o: CPPFLAGS += -Dpthread_create=create_console_thread -Dread=__real_read

$(lessons): %: %.o $(fake_objects)
	$(link)

$(lessons:%=%.o): $(OUTPUT)/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(fake_flags) -Dpoll=simulated_poll -Dpthread_join=simulated_join $(flags_$(SANITIZE)) -c -o $@ $<

vpath %.c $(FAKE_VERBS) rdma-common
$(FAKE)/%.o: %.c $(fake_headers)
	@mkdir -p $(@D)
	$(CC) $(fake_flags) $(fake_own) -c -o $@ $<

# The peer's own copies of the arithmetic and of the messages: the program's are others, and other threads'. Of what the
# compiler puts into a group, as on 32 bits, it keeps its own, too: the program's would have names that it no longer knows.
$(FAKE)/peer.o: $(peer_objects)
	$(LD) -r --force-group-allocation -o $@ $^
	$(OBJCOPY) --wildcard --keep-global-symbol='peer*' $@

.PHONY: fake-verbs
