#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The programs on a fake of libibverbs and librdmacm (fake-verbs/fake-verbs.h): calls that fail, and orders of events
# that are rare on a real network. Tests that transfer payload or messages, or free memory in unusual orders, begin with
# "use address": they run with AddressSanitizer, which takes four times as long.
# shellcheck disable=SC2030,SC2031,SC2154 # bats sets $status, $output and $stderr

load helpers
load fake-verbs/faults
shopt -s extglob

# These tests need no hosts (helpers.bash).
setup_file() { :; }

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
	sanitizers=(address thread)
	[ -z "${FAKE_VERBS_PROGRAMS:-}" ] || sanitizers=(any)
	programs=''
	export ASAN_OPTIONS=exitcode=98 UBSAN_OPTIONS=exitcode=98 TSAN_OPTIONS=exitcode=98
	export FAKE_VERBS_RECORD=$BATS_TEST_TMPDIR/record
}

# use BUILD: run the programs of this build from now on: none, address or thread (fake-verbs.mk). The first test that uses
# a build makes it; if that fails, all tests that use it fail. With $FAKE_VERBS_PROGRAMS all tests run the programs there.
use() {
	local made=$BATS_FILE_TMPDIR/$1
	programs=${FAKE_VERBS_PROGRAMS:-build/fake-verbs/$1}
	[ -z "${FAKE_VERBS_PROGRAMS:-}" ] || return 0
	if [ ! -e "$made" ]; then
		: >"$made"
		make -s -f tests/fake-verbs/fake-verbs.mk "SANITIZE=$1" && echo yes >"$made"
	fi
	[ -s "$made" ]
}

# calls FUNCTION: print how often the last run called FUNCTION; "served" is the number of clients served without an
# error.
calls() {
	local function count called=0
	while read -r function count; do
		[ "$function" != "$1" ] || called=$count
	done <"$FAKE_VERBS_RECORD"
	echo "$called"
}

# fake ROLE SCRIPT [OPTION...]: run rdma-ROLE, a one-off server, a lesson (write-client, read-server, ...), or
# rdma-client --check, whose options include ADDRESS and PORT; sets $status, $output and $stderr. A leak check takes
# three times as long as the run, so only programs in which leaks add up (a server without --one-off, --check) and
# tests that set $leaks have it. If the script sends a signal with signal:, all signals have their default action, even
# under nohup(1). The program's mode is the peer's operation, or $word if that is set (empty: no mode). A test may set
# $launcher to a command that starts the program. Without use() it runs the build "none".
fake() {
	local operation=read role=$1 script=$2 options=$ASAN_OPTIONS words command=("${launcher[@]}")
	shift 2
	[ "$programs" ] || use none
	[[ $script != *signal:* ]] || command+=(env --default-signal)
	[[ ${leaks:-} || $role = @(server|08-server) || $role = check ]] || options=$options:detect_leaks=0
	[[ $role != write-* ]] || script="write $script"
	[[ " $script " != *" write "* ]] || operation="write"
	read -ra words <<<"${word-$operation}"
	case $role in
	08-server) command+=("$programs/lessons/08-server/server") script="no-hello write $script" ;;
	write-* | read-*) command+=("$programs"/lessons/??-"${role%-*}/${role%-*}") script="no-hello $script" ;;
	one-off) command+=("$programs/rdma-server" -t 1 -1 "$@" "${words[@]}") ;;
	check) command+=("$programs/rdma-client" -t 1 --check "$@") ;;
	*) command+=("$programs/rdma-$role" -t 1 "$@" "${words[@]}") ;;
	esac
	[[ $role != *client ]] || command+=(192.0.2.1 20000)
	ASAN_OPTIONS=$options FAKE_VERBS=$script "${command[@]}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
	read_text output "$BATS_TEST_TMPDIR/out"
	read_text stderr "$BATS_TEST_TMPDIR/err"
	[[ " $* " != *" "@(-J|--json)" "* ]] || expect_json <"$BATS_TEST_TMPDIR/out"
}

# read_text VARIABLE FILE: read the file without its last newline into VARIABLE, without starting a process.
read_text() {
	IFS= read -r -d '' "$1" <"$2" || printf -v "$1" '%s' "${!1%$'\n'}"
}

# outcomes [WHO [OPTION...]]: run programs and check their results. Each line of standard input has columns separated by
# tabs: WHO and its options, unless they are arguments; the exit status; the script; then any number of expectations:
#	TEXT	standard error contains TEXT; without any TEXT it must be empty
#	2x TEXT	two lines of standard error contain TEXT
#	> PATTERN	standard output matches PATTERN
#	!> PATTERN	standard output does not match PATTERN
#	NAME=2	the function NAME was called twice; served=2: two clients were served
# WHO is a role of fake(); or "both": a client and a one-off server; or "write" or "read": both sides of that lesson;
# or "every": each operation over each transport, two of the four by a client. A script with [iwarp] runs without the
# word iwarp, then with it. A line that begins with # is a comment.
every=(client:read "client:iwarp write" one-off:write "one-off:iwarp read") # role:words of the script
outcomes() {
	local - columns who=("$@") variant failed=0 count=0
	set +T # keep bats from tracing each command of the functions called here, which takes as long as the runs
	while IFS=$'\t' read -ra columns; do
		[[ ${columns[0]} != "#"* ]] || continue
		[[ ${columns[1]:-} != *"> "* ]] || { echo "a row without a script: ${columns[*]}" && return 1; }
		[ $# -gt 0 ] || { read -ra who <<<"${columns[0]}" && columns=("${columns[@]:1}"); }
		local variants=("${who[0]}:")
		[ "${who[0]}" != both ] || variants=(client: one-off:)
		[[ ${who[0]} != @(write|read) ]] || variants=("${who[0]}-client:" "${who[0]}-server:")
		[ "${who[0]}" != every ] || variants=("${every[@]}")
		[[ ${columns[1]} != *"[iwarp]"* ]] || variants+=("${variants[@]/%/ iwarp}")
		for variant in "${variants[@]}"; do
			fake "${variant%%:*}" "${variant#*:} ${columns[1]/"[iwarp]"/}" "${who[@]:1}"
			count=$((count + 1))
			as_expected "${columns[0]}" "${columns[@]:2}" && continue
			echo "$variant ${who[*]:1} '${columns[1]}': status $status, it said: $stderr"
			failed=1
		done
	done
	echo "$count runs"
	[ "$failed" -eq 0 ]
}

# as_expected STATUS EXPECTATION...: return true if the last run met the expectations; else print those that it did
# not meet. A run that fails must not print "Ready".
as_expected() {
	local expectation speaks='' wrong=''
	[ "$status" -eq "$1" ] || wrong=$1
	for expectation in "${@:2}"; do
		case $expectation in
		"> "*) [[ $output == *${expectation#> }* ]] ;;
		"!> "*) [[ $output != *${expectation#!> }* ]] ;;
		+([a-z_])=+([0-9])) [ "$(calls "${expectation%=*}")" = "${expectation#*=}" ] ;;
		+([0-9])x\ *) speaks=yes && [ "$(grep -c -F -e "${expectation#*x }" <<<"$stderr")" -eq "${expectation%%x *}" ] ;;
		*) speaks=yes && [[ $stderr == *"$expectation"* ]] ;;
		esac || wrong+=${wrong:+, }$expectation
	done
	[ "$speaks" ] || [ -z "$stderr" ] || wrong+=${wrong:+, }silence
	[ "$status" -eq 0 ] || [[ $output != *Ready* ]] || wrong+=${wrong:+, }readiness
	[ -z "$wrong" ] || { echo "not $wrong:" && return 1; }
}

# happy_path: check the output of each side, operation and transport, with the build in $programs.
happy_path() {
	local script role
	for script in read write "iwarp read" "iwarp write"; do
		for role in client server; do
			fake "${role/server/one-off}" "$script"
			diff <(transcript "$role" "${script#iwarp }" "text of the scripted peer" 20000) <(echo "$output")
			[ "$status" -eq 0 ]
			[ -z "$stderr" ]
		done
	done
}

@test "both programs print the expected transcripts and exit with 0, for each operation and transport" {
	use address
	local leaks=yes
	happy_path
}

@test "--verbose prints verbs and states on standard error; standard output never shows a key or a memory address" {
	outcomes client -v <<<"0	read	RDMA READ of 1024 bytes	PHASE_EXCHANGING, LOCAL_MR_POSTED	!> rkey	!> 0x"
	diff <(transcript client read "text of the scripted peer") - <<<"$output"
}

@test "with --one-way the client writes or reads, and the server only serves" {
	outcomes <<-END
	client --one-way	0	one-way write	!> remote buffer
	one-off	0	one-way write	> remote buffer	!> writing message
	one-off	0	one-way	!> remote buffer
	END
}

@test "a server without a mode serves either operation, and refuses a client that states none, with the reason" {
	local word=""
	outcomes <<-END
	one-off	0	[iwarp] read	> reading message
	one-off	0	[iwarp] write	> writing message
	server -J -n 5	0	read clients:3 together	listening on	> $(printf '"operation": "read", *"operations": 5, *"status": 0,*%.0s' 1 2 3)	served=3
	server -J -n 5	0	iwarp write clients:3 together	listening on	> $(printf '"operation": "write", *"operations": 5, *"status": 0,*%.0s' 1 2 3)	served=3
	one-off -s 9000	0	read one-way ring:1000
	one-off -s 9000	0	write one-way ring:1000
	one-off	143	version:2	refused: client and server speak different versions
	server -J	0	tutorial	start the server with read or write	> "operation": null*"status": 4
	one-off	143	tutorial	refused: the client sent no hello, like the tutorial's program, so its mode is not known; start the server
	END
	fake one-off "write" -n 5 -f - < <(echo piped)
	[[ $stderr == *"a pipe can be sent only once, but --iters or --duration repeats it"* ]]
}

@test "a server performs the operation of a --check client, whatever its own mode, once or for the wanted seconds" {
	local word
	for word in read write ""; do
		outcomes one-off -J <<-END
		0	[iwarp] wanted:1024	check from 127.0.0.1: 1024 bytes, verified	> "operation": "read", *"operations": 1,
		0	[iwarp] write wanted:1 payload:1	check from 127.0.0.1: 1 byte, verified	> "operation": "write", *"operations": 1,
		END
	done
	word="read" outcomes one-off -J <<-END
	0	write wanted:65536 wanted-seconds:1 payload:1	check from 127.0.0.1: rate measured, verified	> "operations": [0-9][0-9][0-9]*"seconds": 1.
	0	write wanted:65536 wanted-seconds:3 payload:1	check from 127.0.0.1: rate measured, verified	> "operations": [0-9][0-9][0-9]*"seconds": 3.
	END
	word="write" outcomes server <<<"0	[iwarp] read	: refused: the modes differ, one side reads"
	outcomes one-off <<<"143	wanted:1048577	refused: client and server speak different versions"
}

@test "payloads of 1 to 200,000 bytes are exchanged, in one or many work requests" {
	use address
	outcomes <<-END
	client	0	iwarp payload:5000 max_msg:64 coalesce
	client	0	write payload:200000
	client -m $(printf '%05000d' 7)	0	write max_msg:64
	both	0	payload:5000 max_msg:64
	both	0	write payload:5000 max_msg:64 operation@300
	END
	outcomes client -m "" <<<"0	write" # the shortest payload: only a NUL
}

@test "a server sends a --check client a pattern of the length that the client wants, and stores nothing" {
	use address
	local leaks=yes
	outcomes one-off -m "not this" -o "$BATS_TEST_TMPDIR/stored" <<-END
	0	wanted:1024
	0	write wanted:1 payload:1
	0	iwarp wanted:200000 payload:200000 ring:5000
	0	write wanted:1048576 payload:200000 coalesce
	0	wanted:1
	0	write wanted:1 iwarp payload:200000
	0	wanted:1 payload:8192 passes:0 seconds:1
	0	write wanted:1 payload:8192 passes:0 seconds:1
	0	write wanted:65536 wanted-seconds:1 payload:1
	0	iwarp wanted:8 payload:8 passes:1000
	END
	[ ! -e "$BATS_TEST_TMPDIR/stored" ]
	# the server's own payload is a pipe, which could be sent only once
	outcomes one-off -f <(echo piped) <<<"0	wanted:1 payload:8192 passes:0 seconds:1"
	outcomes one-off --max-size 1K <<<"143	wanted:1 payload:1025	refused"
}

@test "a server performs one operation for a --check client, whatever its own options say" {
	local words
	for words in "wanted:1024" "iwarp wanted:1" "write wanted:200000 payload:200000"; do
		outcomes <<-END
		one-off -J -n 2000	0	$words	check from 127.0.0.1	> "operations": 1,
		one-off -J --duration 3	0	$words	check from 127.0.0.1	> "operations": 1,
		one-off --report	0	$words	> verified in both directions	!> operations
		one-off --min-rate 100T	0	$words
		one-off --interval 1	0	$words	!> 0.000 to
		one-off -J	0	$words	check from 127.0.0.1	> "check": true
		END
	done
}

# A list has at most 32 work requests, so with a greater --depth lists of different lengths follow each other.
@test "many operations succeed at any --depth, and a failed one is reported" {
	use address
	outcomes <<-END
	client -n 100	0	inline:0
	client -n 100	0	write iwarp
	client -n 100	0	write payload:5000 max_msg:64
	client -n 100	0	coalesce iwarp payload:5000 max_msg:64
	client -n 100	6	operation=12	RDMA READ failed
	client -n 20 --depth 1	0	inline:0
	client -n 20 --depth 1	0	write iwarp
	client -n 300 --depth 48	0	write
	client -n 300 --depth 48	0	write coalesce iwarp
	one-off -n 300 --depth 100	0	write
	one-off -n 300 --depth 100	0	write coalesce operation@300
	both -n 300 --depth 128	0	reads:128
	one-off -n 33 --depth 65536	0	write
	one-off -n 33 --depth 65536	0	iwarp inline:0 payload:5000 max_msg:64
	END
}

@test "--busy-poll arms the completion queue only once" {
	outcomes both --busy-poll <<<"0	immediate	ibv_req_notify_cq=1"
}

# A session that polls calls ibv_req_notify_cq() only once, when its completion queue is created. Linux supports up to
# 8,192 processors.
@test "--busy-poll polls if there are at least as many processors as sessions, and sleeps otherwise" {
	outcomes client --busy-poll --connections 2 <<-END
	0	immediate processors:2	ibv_req_notify_cq=2
	0	immediate processors:8192	ibv_req_notify_cq=2
	0	immediate processors:1
	END
	[ "$(calls ibv_req_notify_cq)" -gt 2 ]
	outcomes client --busy-poll --connections 2 <<<"0	immediate fail:sched_getaffinity:1:1"
	[ "$(calls ibv_req_notify_cq)" -gt 2 ]
	outcomes client --busy-poll <<<"0	immediate fail:sched_getaffinity:1:1	ibv_req_notify_cq=1"
}

@test "every completion of a flood is handled, with and without events" {
	use address
	outcomes <<-END
	every -n 1000 --depth 1	0	immediate
	every -n 1000 --depth 64 --busy-poll	0	immediate
	one-off -n 1000 --depth 64	0	immediate
	both -n 1000 --depth 1 --busy-poll	0	immediate
	client -n 1000 --depth 1	0	coalesce write
	END
}

# In most rows the two rings of a stream have different lengths. Words with @ or > delay events.
@test "streams: payloads of 50 to 500,000 bytes pass through bounded rings; a damaged one is reported" {
	use address
	outcomes <<-END
	every -s 20000	0	payload:30000 ring:3000
	every -s 20000	0	payload:500000 memory:300000 request:1000
	every -s 20000	0	payload:9001 ring:997 unknown
	every -s 20000	0	payload:30000 ring:3000 coalesce
	every -s 20000	0	payload:30000 ring:3000 immediate
	every -s 20000	0	payload:9000 ring:4097 max_msg:64 late-source
	every -s 20000	0	payload:9000 ring:4000 passes:3
	every -s 20000	0	payload:30000 ring:3000 peer-operation@300 operation@700
	every -s 20000	0	payload:30000 ring:3000 received-WINDOW@400
	every -s 20000	0	payload:30000 ring:3000 sent-WINDOW@900 inline:0
	every -s 20000	0	payload:30000 ring:3000 peer-operation>sent-WINDOW
	every -s 20000	0	payload:30000 memory:300000 reads:1 unknown
	every -s 300000	0	payload:300000 memory:300000
	every -s 300000	0	payload:3000 memory:300000
	every -s 9000 -n 5	0	ring:1000 payload:50 passes:7
	client --one-way -s 30000	0	[iwarp] write one-way ring:700
	one-off -s 30000	0	[iwarp] one-way ring:700
	# the peer announces its last produced bytes in MSG_DONE alone, without a MSG_WINDOW
	client --one-way	0	one-way payload:9100 ring:3000 DONE-first received-DONE@100
	both -s 100	0	[iwarp] payload:9100 ring:3000 DONE-first received-DONE@100
	# the peer stores slowly after MSG_DONE: after its own verdict the program waits, and confirms the peer's MSG_WINDOWs
	every -s 100000	0	stores:1000
	client --one-way -s 100000	0	[iwarp] write one-way stores:1000
	one-off -s 100000	0	[iwarp] one-way stores:1000
	# this side's ring is shorter than the payload: a damaged first pass is noticed, although the next overwrites it
	client -n 3	0	memory:100000 payload:300000
	client -n 3	7	memory:100000 payload:300000 corrupt-in	the contents are wrong
	client -n 3 -s 300001	0	write memory:100000
	END
}

# Both the bytes that the peer received and the bytes that the program stored must equal the sent bytes. The lengths
# are not multiples of 8, nor of the 256 KiB that the program stores at a time.
@test "streams: files, pipes and patterns arrive unchanged, whether the ring is shorter or holds the whole payload" {
	use address
	local file=$BATS_TEST_TMPDIR/file kept=$BATS_TEST_TMPDIR/kept text script variant
	head -c 600001 <(seq 200000) >"$file"
	for script in "" "memory:100000" "write memory:100000" "ring:4097 unknown" "write ring:70000 coalesce"; do
		for variant in "${every[@]}"; do
			outcomes "${variant%:*}" -f "$file" -o "$kept" <<<"0	${variant#*:} $script payload:600001 file:$file same"
			cmp "$file" "$kept"
			rm "$kept"
		done
		outcomes client -f <(cat "$file") -o >(cat >"$kept.pipe") <<<"0	$script payload:600001 file:$file same"
		wait $!
		cmp "$file" "$kept.pipe"
	done
	# several passes through a ring; a pipe that the client keeps in memory, and that is longer than the ring
	text=$(head -c 1500 "$file" | tr '\n' .)
	printf '%s\0' "$text" >"$kept"
	outcomes client -n 99 -m "$text" <<<"0	write ring:1000 payload:1501 file:$kept same"
	outcomes client -f <(head -c 50001 "$file") <<<"0	memory:50000 payload:50001 file:$file same"
	outcomes <<-END
	client -f $file -o $kept.1 -n 3	0	memory:300000 payload:600001 file:$file same passes:3
	one-off -f $file -o $kept.2 -n 3	0	memory:300000 payload:600001 file:$file same passes:3
	client -f $file -o $kept.3 -n 3	0	write memory:300000 payload:600001 file:$file same passes:3
	one-off -f $file -o $kept.4 -n 3	0	write memory:300000 payload:600001 file:$file same passes:3
	one-off	0	wanted:300001 payload:300001 same memory:100000
	one-off	0	write wanted:300001 payload:300001 same memory:100000
	END
	for script in 1 2 3 4; do cmp "$file" "$kept.$script"; done
	# a pipe holds 64 KiB: the last byte fits only after the reader has read some bytes
	outcomes client -o >(cat >"$kept.pipe") <<<"0	payload:65537 file:$file"
	wait $!
	cmp <(head -c 65537 "$file") "$kept.pipe"
}

@test "streams: --max-size limits payloads, whether or not their length is known in advance" {
	use address
	outcomes <<-END
	client --max-size 1K	4	payload:1025	the server sends 1025 bytes, more than the 1024 that --max-size allows here
	one-off --max-size 8K	4	write unknown payload:9000 coalesce	the peer sends more than the 8192 bytes that --max-size allows here
	one-off --max-size 8K	4	write unknown payload:9000 immediate	the peer sends more than the 8192 bytes that --max-size allows here
	one-off --max-size 1500K	4	write unknown payload:2000000	the peer sends more than the 1536000 bytes that --max-size allows here
	one-off --max-size 8K	0	write unknown payload:8192 immediate
	END
}

# A pipe delivers a byte now and then. With $silent the peer's adapter accepts the bytes, but its program confirms none.
@test "streams: a trickling pipe extends a session, unless the pipe is too slow or the peer stops" {
	use address
	local transport endless silent="99*received-WINDOW! received-DONE! received-VERDICT!"
	exec {endless}< <(yes)
	outcomes <<-END
	every -f /dev/fd/$endless	5	trickles:300 $silent until:4000	no progress
	every -f /dev/fd/$endless	5	trickles:3000 until:9000	the source of the outgoing payload delivered no data
	client --one-way -f /dev/fd/$endless	5	write one-way trickles:300 $silent until:4000	no progress
	client --one-way -f /dev/fd/$endless	5	iwarp write one-way trickles:300 99*received-WINDOW! received-VERDICT! until:4000	no progress
	END
	fake client "trickles:3000 until:9000" -f - <&$endless
	[ "$status" -eq 5 ]
	[[ $stderr == *"the source of the outgoing payload delivered no data"* ]]
	for transport in read "iwarp write"; do
		outcomes client -f <(echo as long as five seconds) <<<"0	$transport trickles:250 from:5000"
	done
}

@test "streams: damaged bytes are reported, and a stopped stream ends the session" {
	use address
	outcomes every -s 20000 <<-END
	7	payload:30000 ring:3000 corrupt-in	contents are wrong
	7	payload:30000 ring:3000 corrupt-out	contents are wrong
	5	payload:30000 ring:3000 99*received-WINDOW!	no progress
	5	payload:30000 ring:3000 peer-operation!	no progress
	5	payload:30000 ring:3000 operation!	no progress
	6	payload:30000 ring:3000 received-WINDOW+DISCONNECTED	peer left
	END
}

@test "streams: a ring that cannot be deregistered stays mapped" {
	use address
	outcomes <<-END
	client -s 500000	0	payload:500000 memory:300000 fail:ibv_dereg_mr:1+:16	cannot deregister 32768 bytes of memory: Device or resource busy
	server -s 500000	0	write clients:2 payload:500000 memory:900000 fail:ibv_dereg_mr:1+:16	bytes of memory: Device or resource busy
	END
}

@test "streams: either side ends and reports the peer's reason if the peer gives up, at any moment" {
	use address
	local step
	for step in 1 2 5 13; do
		outcomes every -s 20000 <<-END
		4	payload:30000 ring:3000 gives-up:$step	the peer gave up: it could not read its outgoing payload, or could not receive, verify or store the incoming one; see its messages
		7	payload:30000 ring:3000 gives-up:$step set:verdict.status=7	contents are wrong
		END
	done
	outcomes both <<<"4	gives-up:7	the peer could not receive, verify or store the payload; see its messages"
}

@test "streams: a side that gives up early sends a verdict; the other side sends none" {
	use address
	outcomes every -v -s 20000 <<-END
	4	payload:30000 ring:3000 gives-up:5	the peer gave up	0x SEND MSG_VERDICT
	END
	outcomes every -v -s 20000 -o /dev/full <<-END
	1	unknown payload:30000 ring:3000	No space left on device	1x SEND MSG_VERDICT	0x received MSG_VERDICT	1x DISCONNECTED, status 0
	END
}

# The file is longer than the ring, so each session has three threads: its own, a helper that reads and a helper that
# stores. If one of the first two does not start, the server refuses the client; a one-off server then serves the next.
@test "a session that gets no memory, descriptor or thread ends with the reason" {
	use address
	local leaks=yes script=payload:8400000 files="-f $BATS_TEST_TMPDIR/long -o $BATS_TEST_TMPDIR/stored"
	local reads="cannot start the thread that reads the outgoing payload" starts="cannot start a thread for the session"
	local keeps="cannot start to verify or store the incoming payload"
	local session="cannot allocate memory for the session"
	truncate -s 8400000 "$BATS_TEST_TMPDIR/long"
	outcomes <<-END
	client $files	1	$script fail:eventfd:2:24	cannot open a descriptor for the session: Too many open files
	client $files	1	$script fail:eventfd:3:24	$reads: Too many open files
	client $files	1	$script fail:calloc:2:12	$session: Cannot allocate memory	rdma_disconnect=0
	one-off $files	0	write $script clients:2 refused:7 fail:calloc:2:12	$session: Cannot allocate memory
	client $files	1	$script fail:calloc:3:12	$reads: Cannot allocate memory
	one-off $files	0	write $script clients:2 fail:calloc:3:12	$reads: Cannot allocate memory
	client $files	1	$script fail:pthread_create:3:11	$reads: Resource temporarily unavailable
	one-off $files	0	write $script clients:2 fail:pthread_create:3:11	$reads: Resource temporarily unavailable
	client $files	1	$script fail:pthread_create:4:11	$starts: Resource temporarily unavailable
	one-off $files	0	write $script clients:2 fail:pthread_create:4:11	$starts: Resource temporarily unavailable
	both $files	1	$script fail:calloc:4:12	$keeps: Cannot allocate memory
	both $files	1	$script fail:eventfd:4:24	$keeps: Too many open files
	both $files	1	$script fail:pthread_create:5:11	$keeps: Resource temporarily unavailable
	END
}

# sed adds two expectations to each row: rdma_connect(3) was called, and no ring (of 8388608 bytes) was registered.
@test "streams: a client registers no ring before the server answers" {
	local leaks=yes
	sed 's/$/\trdma_connect\t0x ibv_reg_mr: 8388608 bytes/' <<-END | outcomes client -v -s 8388609
	5	write ESTABLISHED!
	5	iwarp ESTABLISHED!
	4	write refuse:3
	143	iwarp write ESTABLISHED@500 ROUTE_RESOLVED+signal
	4	write tutorial
	END
}

@test "streams: any failed pread(2) ends the session, and is reported" {
	use address
	local number file=$BATS_TEST_TMPDIR/file
	truncate -s 9000000 "$file"
	for number in 1 2 9 35; do
		outcomes every -f "$file" <<-END
		1	fail:pread:$number:5	cannot read '$file': Input/output error
		1	fail:pread:$number:61	cannot read '$file': it became shorter while it was read; try again when it is complete
		END
	done
}

# Each limit on the file size is smaller than the payload of 140,000 bytes.
@test "streams: no file is left if storing or the session fails" {
	use address
	local bytes folder=$BATS_TEST_TMPDIR/folder missing="No such file or directory"
	mkdir "$folder"
	for bytes in 5000 130000 139999; do
		(prlimit --pid "$BASHPID" --fsize="$bytes" &&
			outcomes every -o "$folder/file" <<<"1	unknown payload:140000 ring:3000	cannot store the incoming payload in '$folder/file': File too large")
	done
	outcomes <<-END
	every -o $folder/file	1	payload:30000 ring:3000 fail:fsync:1:5	cannot store it in '$folder/file': Input/output error
	every -o $folder/file	1	payload:30000 ring:3000 fail:renameat2:1:13	cannot store it in '$folder/file': Permission denied
	every -o /dev/full	1	unknown payload:30000 ring:3000	cannot store the incoming payload in '/dev/full': No space left on device
	every -s 20000 -o $folder/file	5	unknown payload:30000 ring:3000 peer-operation!	no progress
	every -s 20000 -o $folder/file	6	unknown payload:30000 ring:3000 received-WINDOW+DISCONNECTED	peer left
	every -o $folder/none/file	1	unknown payload:30000 ring:3000	cannot store the incoming payload in '$folder/none/file': $missing
	END
	[ "$(count "$folder")" -eq 0 ]
}

# The disk takes 0.9 s of simulated time for 1 MiB, and --timeout is 2 s. With memory:N the ring is shorter than the
# payload. In the second row it holds the whole payload, so no message of the peer extends the session.
@test "a slow disk extends a session beyond --timeout" {
	use address
	local stored=$BATS_TEST_TMPDIR/stored
	outcomes <<-END
	every -t 2 -o $stored	0	payload:8400000 memory:300000 9*fdatasync@900 from:7200
	every -t 2 -o $stored	0	payload:4200000 9*fdatasync@900 from:3600
	END
}

# The second row would go on for long. A server with --one-off ends after such a session.
@test "if --output cannot be opened, the session gives up at once, and the peer gets a verdict" {
	use address
	local none=$BATS_TEST_TMPDIR/none/file missing="No such file or directory"
	outcomes <<-END
	every -v -t 10 -o $none	1	until:1000	: cannot store the incoming payload in '$none': $missing	1x SEND MSG_VERDICT	0x received MSG_VERDICT
	every -v -t 10 -s 20000 -n 100000 -o $none	1	until:1000 payload:30000 ring:3000	'$none': $missing	1x SEND MSG_VERDICT
	server -o $none	0	write clients:2	2x cannot store the incoming payload in '$none': $missing	rdma_reject=0
	END
}

@test "a server reports at its start that --output has no folder, and serves clients that send no payload" {
	local none=$BATS_TEST_TMPDIR/none/file
	local warning="rdma-server: cannot store payloads in '$none': No such file or directory; until that is mended, sessions"
	outcomes <<-END
	one-off -o $none	0	one-way	1x $warning
	one-off -o $none	0	wanted:1024	1x $warning
	server -o $BATS_TEST_TMPDIR/file	0	clients:2	served=2
	END
}

# The session ends after --timeout in simulated time; if everything was received, after one more second for closing.
# With a payload of 1.7 MB, fdatasync syncs the first MiB while the rest arrives.
@test "a disk that does not answer ends the session with the reason, at the latest soon after --timeout" {
	use address
	local file=$BATS_TEST_TMPDIR/file stored=$BATS_TEST_TMPDIR/stored
	truncate -s 9000000 "$file"
	outcomes <<-END
	every -t 10 -f $file	5	pread! from:10000 until:13700	: the source of the outgoing payload delivered no data for 10 s (--timeout)
	every -t 10 -o $stored	5	fsync! unknown from:11000 until:14700	: received everything, but storing it made no progress for 10 s (--timeout)
	every -t 10 -o $stored	5	payload:1700000 memory:300000 fdatasync! from:10000 until:14000	: storing the incoming payload made no progress for
	every -t 10 -o $stored	5	statvfs! from:11000 until:14700	: received everything, but storing it made no progress for 10 s (--timeout)
	every -t 10 -o $stored	5	statvfs! payload:1700000 memory:300000 from:10000 until:14000	: storing the incoming payload made no progress for
	END
	[ ! -e "$stored" ]
}

# For each type of message, some wrong numbers and wrong moments; transfer-test and protocol-test have the other rules.
@test "a peer's impossible numbers or unexpected messages end the session with a reason" {
	use address
	outcomes <<-END
	both	7	set:mr.produced=+1	the peer's memory region announces too many ready bytes: it has 1024 bytes, of which 1025 are ready
	both	7	set:mr.address=0	the peer's memory region has no valid address or is too short: it has 1024 bytes, of which 1024 are ready
	both	7	lie:mr-twice	contents are wrong
	both	7	write lie:window-first	the peer's MSG_WINDOW arrived out of turn
	both	7	lie:done-first	contents are wrong
	both	7	set:done.digest=+1	contents are wrong
	both	7	write set:done.bytes=+1	the peer sent MSG_DONE with another length than agreed
	both	7	lie:verdict-good	contents are wrong
	both	7	write set:verdict.status=7	contents are wrong
	# a bad verdict is valid after both MSG_MRs, once, and from a peer with a hello; any other bad verdict violates
	# the protocol
	both	4	lie:verdict-bad	the peer gave up
	both	7	lie:verdict-bad-first	or the peer violated the protocol	!> gave up
	both	7	tutorial lie:verdict-bad	or the peer violated the protocol	!> gave up
	both	7	lie:verdict-twice	or the peer violated the protocol	!> gave up
	both -s 20000	7	payload:30000 ring:3000 set:window.consumed=+100000	the peer's MSG_WINDOW reports more consumed bytes than were produced
	both -s 20000	7	write payload:30000 ring:3000 set:window.received=+32	the peer's MSG_WINDOW confirms more windows than were sent
	both -s 500000	7	memory:300000 lie:done-early	the peer sent MSG_DONE before it could have read everything
	both -s 500000	7	write ring:4096 lie:verdict-soon	the peer sent a good MSG_VERDICT before this side posted its MSG_DONE
	END
}

# The peer sends a confirmation, or a byte, every 900 ms, and --timeout is one second.
@test "a peer that only confirms does not extend --timeout; a peer that moves one byte per message does" {
	outcomes every -s 500000 <<-END
	5	payload:500000 machine:1000000 ring:4096 lie:confirm until:1500	no progress
	5	payload:500000 machine:1000000 ring:4096 lie:crawl from:9000 until:9700	no progress
	END
}

@test "sessions succeed although the driver omits a limit, or reports a small or impossible one" {
	use address
	local limit
	for limit in max_msg:0 max_wr:0 max_wr:-1 max_wr:-2147483648 max_wr:2147483647 max_cqe:0 max_cqe:-1 \
		max_cqe:-2147483648 max_cqe:2147483647 max_wr:64 max_cqe:50 max_reads:257 max_reads:-1 max_reads:2147483647; do
		outcomes <<-END
		client -n 3 --depth 65536	0	$limit payload:2000
		one-off -n 3 --depth 65536	0	$limit payload:2000 iwarp write
		END
	done
}

# librdmacm stores only the low byte of max_qp_rd_atom and max_qp_init_rd_atom: 256 becomes 0, which permits no READ.
@test "only sessions that need READs fail if the device reports 0 or 256 of them, with the reason" {
	local own="RDMA device double0 cannot perform RDMA READs: its driver reports max_qp_init_rd_atom"
	local serves="RDMA device double0 cannot serve RDMA READs: its driver reports max_qp_rd_atom"
	outcomes <<-END
	both	0	[iwarp] write max_reads:0
	both	0	write max_reads:256
	client	1	[iwarp] max_reads:0	$own 0; use 'write'
	client	1	max_reads:256	$own 256, of which librdmacm keeps the low byte, 0; use 'write'
	client	1	max_own_reads:0	$own 0; use 'write'
	client	1	max_own_reads:4 max_reads:0	$serves 0; use 'write'
	server	0	max_reads:0 refused:9	$own 0; use 'write'	served=0
	client --one-way	0	one-way max_reads:0 max_own_reads:1
	client --one-way	1	one-way max_own_reads:0	$own 0; use 'write'
	one-off	0	one-way max_own_reads:0
	server	0	one-way max_reads:0 max_own_reads:1	$serves 0; use 'write'	served=0
	END
}

@test "--depth is halved until the device accepts the queue pair, and --verbose reports the depth" {
	local only="the device accepts no queue pair of depth 1000: using depth"
	outcomes <<-END
	both -v -n 3 --depth 1000	0	write blocks:8192 inline:64 einval	0x the device accepts no queue pair	rdma_create_qp=1
	both -v -n 3 --depth 1000	0	write blocks:4096 inline:64 einval	0x the device accepts no queue pair	rdma_create_qp=2
	both -v -n 3 --depth 1000	0	write blocks:2048 inline:64 einval	$only 500	rdma_create_qp=4
	both -v -n 3 --depth 1000	0	write blocks:1024 inline:0 einval	$only 250	rdma_create_qp=6
	both -v -n 3 --depth 1000	0	write blocks:1024 inline:64 enomem	$only 125	rdma_create_qp=4
	both -v -n 3 --depth 1000	0	write blocks:64 inline:64 einval	$only 7	rdma_create_qp=15
	both -v -n 3 --depth 1000	0	write blocks:32 inline:0 einval	$only 3	rdma_create_qp=18
	client -n 3 --depth 1000	0	blocks:64 reads:1
	client -n 3 --depth 1000	1	blocks:16	rdma_create_qp failed: Invalid argument
	one-off	0	clients:1 fail:rdma_create_qp:1:12
	END
}

# irdma leaves the limit out of the connect request (asks:0); such a peer serves READs nevertheless.
@test "at most as many READs are posted as the peer serves" {
	outcomes <<-END
	both -n 100 --depth 128	0	reads:1
	both -n 100 --depth 128	0	reads:3 iwarp payload:5000 max_msg:64
	both -n 100 --depth 128	0	reads:255 coalesce
	both -n 100 --depth 128	0	reads:0 write
	both	0	[iwarp] asks:1
	both	0	asks:0 iwarp
	both	0	asks:0 write
	client	4	reads:0	serves no RDMA READ
	server	0	reads:0	serves no RDMA READ
	END
}

@test "a peer that follows the tutorial gets at most 1023 bytes of text, and its payload is not stored" {
	use address
	local longest stored=$BATS_TEST_TMPDIR/stored
	longest=$(printf 'x%.0s' {1..1023})
	outcomes <<-END
	both	0	[iwarp] tutorial
	both	0	tutorial write
	both	0	tutorial iwarp sent-DONE=2
	one-off	0	tutorial write iwarp sent-DONE=2
	one-off	0	tutorial write iwarp sent-DONE>received-DONE sent-DONE=2
	one-off	0	tutorial write iwarp sent-DONE=2 DISCONNECTED>sent-DONE
	one-off	6	tutorial write iwarp sent-DONE=5	peer left
	one-off	1	tutorial write sent-DONE=2	MSG_DONE failed
	client -m $longest	0	tutorial
	one-off -m $longest	0	tutorial write
	client -m ${longest}x	4	tutorial write	exchanges 1024 bytes in each direction and nothing else
	server -m ${longest}x	0	tutorial	exchanges 1024 bytes in each direction and nothing else
	client -s 100	4	tutorial write	the peer sent no hello
	server -s 100	0	tutorial	the peer sent no hello
	client --one-way	4	tutorial write	the peer sent no hello
	client -o $stored	4	tutorial write	the peer sent no hello, so its payload cannot be verified
	server -o $stored	0	tutorial	the peer sent no hello, so its payload cannot be verified
	END
	[ ! -e "$stored" ]
}

@test "either program reports a damaged byte, in either direction" {
	use address
	outcomes every <<-END
	7	corrupt-in	contents are wrong
	7	corrupt-out	contents are wrong
	END
}

@test "a complete payload is shown, even if damaged; an incomplete one, or the peer's later writes, are not" {
	use address
	outcomes <<-END
	both	0	read	> remote buffer: text of the scripted peer
	both	7	corrupt-in	contents are wrong	> remote buffer: 
	both	0	unknown payload:9001	> remote buffer: 
	both	0	write unknown payload:9001	> remote buffer: 
	both	0	[iwarp] write scribble	> remote buffer: text of the scripted peer
	client	4	write unknown payload:30000 gives-up:3	the peer gave up	!> remote buffer
	END
}

# bats test_tags=slow
@test "each failing call of the client is reported" {
	faults client read
	use address
	faults client "iwarp write payload:3000 max_msg:64" # a list of work requests
}

# bats test_tags=slow
@test "each failing call of a one-off server is reported" {
	faults one-off iwarp
}

# bats test_tags=slow
@test "a server goes on serving after each failing call, also after its device disappeared and returned" {
	use address
	faults server write
	# functions that are called after the removal, too: they wait, release objects, or belong to librdmacm
	functions='@(*destroy*|*dealloc*|*dereg*|munmap|read|poll|epoll_*|rdma_*|ibv_get_*)' \
		faults server "DISCONNECTED+leave leave@100 leave+return return@500"
}

# libcxgb4 refuses a post once the peer has left; libsiw returns -1 with errno, and does not set bad_wr. Each role runs
# each script over one of the transports. A peer that has left makes only posts fail.
# bats test_tags=slow
@test "a verb that breaks its contract is reported; a post that fails because the peer left gives status 6" {
	local role script verbs turn=0
	for role in client one-off server; do
		for script in "minus-one no-bad-wr:99" "negative no-bad-wr:0" "negative peer-left"; do
			verbs='ibv_@(post_*|modify_qp|req_notify_cq|query_*|destroy_*|dealloc_pd|dereg_mr)'
			[[ $script != *peer-left ]] || verbs='ibv_post_*'
			if ((turn++ % 2)); then
				functions=$verbs faults "$role" "read payload:3000 ring:1000 $script"
			else
				functions=$verbs faults "$role" "iwarp write payload:3000 ring:1000 max_msg:64 $script"
			fi
		done
	done
}

@test "a failed call is reported even if the driver gives no reason" {
	outcomes client <<-END
	1	no-cq	ibv_create_cq failed, and the driver gives no reason
	1	fail:ibv_poll_cq:1:5	ibv_poll_cq failed
	1	fail:ibv_poll_cq:1+:5	ibv_poll_cq failed
	1	fail:ibv_poll_cq:8+:5	ibv_poll_cq failed
	END
}

@test "if the device refuses a list of requests half-way, the requests that it accepted still complete" {
	use address
	printf '1\twrite max_msg:64 fail:ibv_post_send:%d:12\tibv_post_send failed\t0x never completed\n' {1..9} |
		outcomes client -v -n 5 --depth 3
}

@test "a post that fails without reporting which requests it posted ends only its own session" {
	use address
	outcomes <<-END
	server	0	iwarp write clients:3 together minus-one no-bad-wr:99 abandons fail:ibv_post_send:4:107	127.0.0.1 port 40000: ibv_post_send failed: Transport endpoint is not connected	served=2
	server	0	iwarp write clients:3 together minus-one no-bad-wr:0 abandons fail:ibv_post_send:6:107	ibv_post_send failed: Transport endpoint is not connected	served=2
	client	1	iwarp write minus-one no-bad-wr:99 abandons fail:ibv_post_send:2:107	ibv_post_send failed: Transport endpoint is not connected
	END
}

# A session can succeed without one of its receives. A failure that follows a refused post explains the refusal, and is
# reported as the reason.
@test "a refused post is this host's failure only if the peer has not left and the session has no result" {
	outcomes <<-END
	one-off -s 100000	0	iwarp write stores:5000 abandons fail:ibv_post_recv:45:22	served=1
	one-off -s 100000	6	iwarp write stores:5000 abandons peer-left fail:ibv_post_recv:37:22	the peer left
	one-off -s 100000	5	iwarp write stores:5000 received-VERDICT! DISCONNECTED! abandons fail:ibv_post_recv:37:22	s (--timeout)
	one-off	6	iwarp write abandons peer-left fail:ibv_post_send:2:22	the peer left
	client	1	iwarp write abandons fail:ibv_post_send:2:22 until:2500	ibv_post_send failed: Invalid argument
	client	4	[iwarp] write abandons fail:ibv_post_send:3:22 operation=10	RDMA WRITE failed: completion status 10
	client	1	[iwarp] write abandons fail:ibv_post_send:3:22 operation=4	RDMA WRITE failed: completion status 4
	client	6	write abandons fail:ibv_post_send:3:22 operation=12	RDMA WRITE failed: completion status 12
	client	1	write abandons fail:ibv_post_send:3:22 received-DONE+async:1 operation=5	RDMA device double0 reports
	client	130	write abandons fail:ibv_post_send:2:22 received-DONE+signal:2	interrupted
	client	4	write set:verdict.status=1 abandons fail:ibv_post_send:4:22	the peer could not receive, verify or store the payload
	END
}

@test "completions in unusual orders change no result" {
	use address
	outcomes <<-END
	both	0	coalesce
	both	0	coalesce sent-MR>received-DONE operation+spurious
	both	0	coalesce iwarp received-MR+spurious
	both	0	coalesce write iwarp
	both	0	sent-MR>received-DONE
	both	0	sent-DONE>received-VERDICT
	client	0	sent-MR>received-MR
	client	0	received-MR>sent-MR
	client	0	sent-VERDICT>flush
	client	0	received-VERDICT>sent-VERDICT
	client	0	sent-MR+spurious received-DONE+spurious
	one-off	0	ESTABLISHED>received-MR
	one-off	0	ESTABLISHED>sent-DONE
	one-off	0	ESTABLISHED!
	one-off	0	received-DONE>sent-DONE
	END
}

@test "disconnections at unusual times give the right exit status and reason" {
	use address
	local repeated="repeat-DONE received-DONE>sent-DONE received-DONE+DISCONNECTED"
	outcomes <<-END
	both	0	DISCONNECTED@600
	both	0	DISCONNECTED!
	both	0	DISCONNECTED+TIMEWAIT_EXIT
	# the client has withdrawn its connect request
	one-off	6	withdrawn:22	peer left	0x failed
	one-off	6	iwarp withdrawn:104	peer left	0x failed
	one-off	6	iwarp withdrawn:32	peer left	0x failed
	server -J	0	withdrawn	peer left	0x failed	> "status": 6
	client	0	flush>DISCONNECTED
	client	0	DISCONNECTED>flush
	client	0	flush@9000
	client	0	received-VERDICT+TIMEWAIT_EXIT
	client	0	ESTABLISHED+TIMEWAIT_EXIT
	client	0	operation+DISCONNECTED
	one-off	0	tutorial write operation>DISCONNECTED
	one-off	0	[iwarp] sent-VERDICT>DISCONNECTED
	one-off	0	[iwarp] received-VERDICT>DISCONNECTED
	client	6	[iwarp] sent-MR+DISCONNECTED	peer left
	client	6	received-DONE+DISCONNECTED received-VERDICT!	peer left
	client	6	operation+DISCONNECTED received-VERDICT!	peer left
	client	6	iwarp write operation+DISCONNECTED received-VERDICT!	peer left
	one-off	6	ESTABLISHED+DISCONNECTED	peer left
	one-off	6	iwarp ESTABLISHED+DISCONNECTED received-MR>DISCONNECTED	peer left
	one-off	6	[iwarp] received-MR+DISCONNECTED	peer left
	one-off	6	received-VERDICT!	peer left
	# the protocol violation is reported, not the peer's later departure
	both	7	$repeated	contents are wrong
	one-off	7	write $repeated	contents are wrong
	client	7	slow-events coalesce payload:30000 ring:3000 set:window.received=+32 received-WINDOW+DISCONNECTED	MSG_WINDOW confirms more windows
	one-off	7	slow-events coalesce write ring:100 set:window.received=+32 received-WINDOW+DISCONNECTED	MSG_WINDOW confirms more windows
	one-off	7	slow-events coalesce lie:window-first received-WINDOW+DISCONNECTED	the peer's MSG_WINDOW arrived out of turn
	# a connection may be freed as soon as its last completion event is acknowledged
	both	0	slow-events coalesce DISCONNECTED@600 DISCONNECTED+spurious
	client	0	slow-events coalesce iwarp write DISCONNECTED@600 DISCONNECTED+spurious
	END
}

# If the client has withdrawn its request, rdma_accept(3) fails with the same errno as after a failure of this host. The
# server therefore rejects the request after a failed call: the rejection succeeds only if the client has not withdrawn.
@test "a failed call is reported as the server's failure, also to a client that has not withdrawn" {
	use address
	local accept="rdma_accept failed: Invalid argument" larger="some adapters reject a path whose MTU is larger than their port's"
	outcomes <<-END
	one-off	1	fail:rdma_accept:1:22 refused:9	$accept (MTU of the path 4096 bytes, of this port 4096)	0x $larger	rdma_reject=1
	one-off	1	strict-mtu mtu:3 peer-mtu:5 refused:9	$accept (MTU of the client's port 4096 bytes, of the path 4096, of this port 1024); $larger: set both hosts to the same MTU	rdma_reject=1
	one-off	0	strict-mtu mtu:5 peer-mtu:3
	one-off	1	iwarp fail:rdma_accept:1:22 refused:9	$accept	0x MTU	rdma_reject=1
	one-off	1	iwarp fail:rdma_accept:1:104 refused:9	rdma_accept failed: Connection reset by peer	rdma_reject=1
	one-off	1	[iwarp] fail:rdma_accept:1:12 refused:9	rdma_accept failed: Cannot allocate memory	rdma_reject=1
	one-off	1	withdrawn:12	rdma_accept failed: Cannot allocate memory
	# over iWARP rdma_accept ends the request even if it fails, so rdma_reject fails, too; EINVAL does not mean that
	# the client has left
	one-off	1	iwarp withdrawn:22	$accept	0x MTU	rdma_reject=1
	server -J	0	[iwarp] write blocks:16 refused:9	rdma_create_qp failed: Invalid argument	> "status": 1	rdma_reject=1
	client	4	[iwarp] refuse:9	the server refused: the server could not set up the session; see its messages
	END
}

# node_guid GUID: create the sysfs folder of a device with this node GUID; the programs read it instead of /sys.
node_guid() {
	export FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	mkdir -p "$FAKE_VERBS_DEVICE"
	echo "$1" >"$FAKE_VERBS_DEVICE/node_guid"
}

# Before release 56 librdmacm ends the client if rdma_resolve_addr(3) finds such a device. The fake kernel tells no
# source address, so the programs know the device only with --bind.
@test "a device with node GUID 0 is named, with advice, before its address is resolved or listened on" {
	use address
	local guid="RDMA device double0 has node GUID 0, so librdmacm cannot find it"
	local advice="on the host that has the physical function set the virtual function's MAC address ('ip link set PF vf N mac ADDRESS'), then unbind and bind it"
	node_guid 0000:0000:0000:0000
	outcomes <<-END
	client -B 192.0.2.2	3	[iwarp] unfound:9	cannot resolve the address: $guid: $advice	rdma_resolve_addr=0
	client -J -B 192.0.2.2	3	unfound:9	$guid	> "status": 3	rdma_resolve_addr=0
	server -B 192.0.2.2	3	[iwarp] unfound:9	cannot listen on 192.0.2.2, any port: $guid: $advice	rdma_listen=0
	server -B two	0	addresses:192.0.2.2,192.0.2.3 unfound:1	cannot listen on every address of --bind 'two': $guid: $advice	rdma_listen=1	served=1
	server	0	clients:3 unfound:2	1x rejected a connect request to 192.0.2.2: $guid: $advice; later requests	served=1
	check	3	[iwarp] unfound:9	> active*?  -> $guid: $advice	!> no address of this network namespace
	check -B 192.0.2.2 192.0.2.1	3	[iwarp] unfound:9	> address     not resolved: librdmacm cannot find the RDMA device that leads there*reach       $guid (L10)?  -> $advice	rdma_resolve_addr=0
	check -J -B 192.0.2.2 192.0.2.1	3	unfound:9	> "error": "reach: $guid
	# librdmacm finds no device, and nothing shows why
	client	3	unfound:9	the address is resolved, but librdmacm finds no RDMA device for it; check that no RDMA device has node GUID 0	rdma_resolve_addr=1
	check 192.0.2.1	3	unfound:9	> address     not resolved: No such device
	# librdmacm finds the device of the address nevertheless: the node GUID changes nothing
	client -B 192.0.2.2	0	read
	server -B 192.0.2.2	0	write
	check	0	read	!> ->
	check -B 192.0.2.2 192.0.2.1	0	read	!> ->
	# no identifier can be created to look for the device
	client -B 192.0.2.2	3	unfound:9 fail:rdma_create_id:2:24	the address is resolved, but librdmacm finds no RDMA device for it
	END
	node_guid 0200:00ff:fe00:0001
	outcomes <<-END
	client -B 192.0.2.2	3	unfound:9	the address is resolved, but librdmacm finds no RDMA device for it	0x $guid
	check	3	unfound:9	> -> no address of this network namespace leads to this port
	END
}

# librdmacm finds no device whose node GUID is 0. It then reports the request as if it had found one.
@test "a server rejects requests whose device librdmacm does not find, warns once, and serves the next client" {
	use address
	local refused="rejected a connect request to 192.0.2.2: librdmacm finds no RDMA device for this address"
	outcomes <<-END
	server	0	[iwarp] clients:3 unfound:2 refused:9	1x $refused	served=1	rdma_reject=2
	server -J	0	clients:3 together unfound:1 refused:9	1x $refused	listening on	served=2
	server	0	check unfound:1 refused:9	1x $refused	served=0
	one-off	0	[iwarp] write clients:2 unfound:1 refused:9	1x $refused	served=1
	server	0	clients:2 unfound:1 fail:rdma_reject:1:22	1x $refused	served=1
	server	0	clients:2 unfound:1 refused:9 abandons fail:rdma_destroy_id:1:16	1x $refused	cannot destroy a connection identifier	served=1
	END
}

@test "a known result stays the reported reason if a deadline or a signal then ends the session" {
	use address
	outcomes both <<-END
	7	corrupt-in sent-VERDICT!	contents are wrong
	7	write corrupt-in received-VERDICT! DISCONNECTED!	contents are wrong
	7	corrupt-in sent-VERDICT+signal	contents are wrong
	7	set:verdict.status=7 sent-VERDICT+signal	contents are wrong
	4	set:verdict.status=1 sent-VERDICT! DISCONNECTED!	or store the payload
	4	write set:verdict.status=1 received-VERDICT+signal	or store the payload
	END
}

# The program waits --timeout for each message or completion that the peer owes, then one second to close, and one
# more second if it must force the flush of its requests. A new deadline may be earlier than the previous one.
@test "each kind of session end happens at the expected time" {
	outcomes <<-END
	client -t 10	0	ends:60 write
	# the last requests are not signaled: the session still ends at once, whichever side gives up
	client -t 10 -n 100000 --depth 9 -s 64 -o /dev/full	1	until:1000 write unknown payload:30000 ring:3000	No space left on device
	client -t 10 -n 100000 --depth 9 -s 64	4	until:1000 write payload:300000 ring:3000 gives-up:5	the peer gave up
	client -t 10 -n 100000 --depth 9 -s 64	143	until:1000 write payload:300000 ring:3000 operation+signal	interrupted before
	client -t 10	3	ends:10000 ADDR_RESOLVED!	not resolved within
	client -t 10	3	ends:10000 ROUTE_RESOLVED!	not resolved within
	client -t 10	5	ends:10000 ESTABLISHED!	no progress
	client -t 10	5	ends:12000 sent-MR!	no progress
	client -t 10	5	[iwarp] ends:12270 operation!	no progress
	client -t 10	5	ends:12270 iwarp operation! DISCONNECTED!	no progress
	client -t 10	5	ends:10030 write payload:3000 max_msg:64 operation!	no progress
	client -t 10	5	ends:12270 sent-DONE!	no progress
	client -t 10	5	ends:10030 received-DONE! received-VERDICT!	no progress
	client -t 10	5	ends:10030 received-VERDICT!	no progress
	client -t 10	5	ends:12030 received-VERDICT! flush@90000	no progress
	client -t 10	0	ends:18030 ESTABLISHED@9000 received-MR@9000
	client -t 10	0	ends:18030 sent-MR@9000 operation@9000
	client -t 10	0	ends:18030 received-DONE@9000 received-VERDICT@18000
	client -t 10	5	ends:10030 payload:30000 ring:3000 99*received-WINDOW!	no progress
	client -t 10	0	ends:12030 sent-VERDICT! received-VERDICT>sent-DONE
	client -t 10	0	ends:1030 lazy-flush
	client -t 10	0	ends:2030 flush@90000
	client -t 10	0	ends:10030 DISCONNECTED!
	client -t 10	0	ends:11030 DISCONNECTED! flush@90000
	client -t 10	6	ends:2020 sent-MR+DISCONNECTED flush@90000	peer left
	client -t 10	6	ends:2030 received-DONE+DISCONNECTED received-VERDICT! flush@90000	peer left
	client -t 10	143	ends:2030 sent-MR+signal flush@90000	interrupted before
	client -t 10	143	ends:1020 sent-MR+signal DISCONNECTED!	interrupted before
	client -t 10	6	ends:2030 operation=12 flush@90000	RDMA READ failed
	client -t 10	0	ends:4040 2*ADDR_RESOLVED=ADDR_ERROR:-110
	client -t 10 --depth 1 -n 4	0	ends:16030 4*operation@4000
	client -t 10	5	ends:11030 tutorial DISCONNECTED!	no progress
	one-off -t 10	5	ends:11030 tutorial write DISCONNECTED!	no progress
	one-off -t 10	5	[iwarp] ends:10020 received-MR!	no progress
	one-off -t 10	5	ends:12020 sent-MR!	no progress
	one-off -t 10	5	ends:12270 iwarp operation!	no progress
	one-off -t 10	5	ends:11020 received-DONE! received-VERDICT! DISCONNECTED!	no progress
	one-off -t 10	5	ends:12270 sent-DONE! flush@90000 DISCONNECTED!	no progress
	one-off -t 10	0	ends:1030 lazy-flush
	one-off -t 10	0	ends:20030 DISCONNECTED!
	one-off -t 10	0	ends:21030 DISCONNECTED! flush@90000
	one-off -t 10	0	ends:2030 iwarp sent-VERDICT>received-VERDICT received-VERDICT+async:1 flush@90000
	one-off -t 10	6	ends:2030 received-DONE+DISCONNECTED received-VERDICT! flush@90000	peer left
	one-off -t 10	143	ends:2030 sent-MR+signal flush@90000	interrupted before
	END
}

# The advice without an RDMA device, and for a loopback address.
software="rdma link add rdma0 type rxe netdev eth0"
loopback="give the address of a network interface that has an RDMA device ('rdma link', 'ip address'), not a loopback address"

# negotiation-test checks which hellos are refused, and what the client reports for each reason of a server.
@test "each failure of the connection manager has its exit status, reason and advice" {
	local no_server="check that rdma-server runs on that host and listens on that port" versions="client and server speak different versions of the protocol"
	outcomes <<-END
	client	3	fail:getaddrinfo:1:1	cannot resolve the host name '192.0.2.1': Temporary failure in name resolution
	client	3	fail:getaddrinfo:1:24	cannot resolve the host name '192.0.2.1': Too many open files
	client -B 192.0.2.2	3	fail:getaddrinfo:2:24	cannot resolve --bind '192.0.2.2': Too many open files
	server	3	fail:getaddrinfo:1:24	cannot resolve --bind 'any': Too many open files
	client	3	ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	client -t 10	3	9*ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	client	3	ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-22	cannot resolve the route: Invalid argument; over InfiniBand, check that the subnet manager runs
	client	3	addresses:127.0.0.1	cannot resolve the route: No such device; $loopback
	client	3	iwarp addresses:127.0.0.1	cannot resolve the address: Invalid argument; $loopback
	client	3	[iwarp] addresses:127.1.2.3	$loopback
	client	3	[iwarp] addresses:::1	$loopback
	client	3	[iwarp] addresses:127.0.0.1,::1	1x trying the next address	2x $loopback
	client	0	[iwarp] addresses:127.0.0.1,192.0.2.1	1x $loopback
	both	5	ESTABLISHED=UNREACHABLE:-110	UNREACHABLE
	client	6	ESTABLISHED=UNREACHABLE:-113	No route to host
	both	6	ESTABLISHED=CONNECT_ERROR:-5	CONNECT_ERROR
	client	4	fail:rdma_connect:1:111	cannot connect: Connection refused; $no_server
	client	4	fail:rdma_connect:1:113	cannot connect: No route to host; $no_server
	client	4	fail:rdma_connect:1:13	cannot connect: Permission denied; $no_server
	client	5	fail:rdma_connect:1:110	no answer to the connect request
	client	1	fail:rdma_connect:1:99	cannot connect: Cannot assign requested address; an earlier connection may still use the local port
	client	1	fail:rdma_connect:1:12	cannot connect: Cannot allocate memory; check that this host has free memory, and that the program on that port is an rdma-server: early data from another program can cause this error, too
	client	1	fail:rdma_connect:1:22	cannot connect: Invalid argument	0x link-local
	client	1	addresses:fe80::1%lo fail:rdma_connect:1:22	cannot connect: Invalid argument	0x link-local
	client	1	addresses:fe80::1 fail:rdma_connect:1:22	cannot connect: Invalid argument; name the network interface of the link-local address, as in fe80::1%eth0
	client	4	ESTABLISHED=REJECTED:28	connection rejected (status 28: consumer defined), no reason from the server arrived; either the server listens on another address
	client	4	ESTABLISHED=REJECTED:4	connection rejected (status 4: timeout), no reason from the server arrived; read the messages of the server
	client	4	ESTABLISHED=REJECTED:34	connection rejected (status 34), no reason from the server arrived
	# after "stale connection" the client tries once more, with a new queue pair
	client	0	ESTABLISHED=REJECTED:10	rdma_connect=2
	client	4	2*ESTABLISHED=REJECTED:10	connection rejected (status 10: stale connection), no reason from the server arrived; that host still has	rdma_connect=2
	client --connections 2	0	2*ESTABLISHED=REJECTED:10	rdma_connect=4
	client	1	ESTABLISHED=REJECTED:10 fail:rdma_create_id:2:24	cannot create a connection identifier
	client	4	iwarp ESTABLISHED=REJECTED:-104	connection rejected (status -104: Connection reset by peer), no reason from the server arrived
	client	4	refuse:255	connection rejected: no program listens on that port; $no_server
	client	4	iwarp refuse:255	connection rejected: no program listens on that port, or the program is not this project's rdma-server
	client	4	refuse:1	version
	client	4	write refuse:2	the modes differ
	client	4	refuse:3	the server refused: the client sends nothing, or more than
	# over iWARP a short hello arrives short; over RoCE zeros pad it, and with hello-size:4 are read as its version
	client	4	[iwarp] version:2	$versions
	client	4	version:5	$versions
	client	4	iwarp hello-size:55	$versions
	client	4	[iwarp] hello-size:4	$versions
	client	4	[iwarp] version:2 refuse:1	the server refused: $versions
	client	4	iwarp hello-size:32 refuse:2	the server refused: $versions
	server	0	[iwarp] version:2	refused: $versions	served=0	rdma_reject=1
	server	0	version:5	refused: $versions	served=0	rdma_reject=1
	server	0	iwarp hello-size:55	refused: $versions	served=0	rdma_reject=1
	server	0	[iwarp] hello-size:4	refused: $versions	served=0	rdma_reject=1
	client	1	ROUTE_RESOLVED+DEVICE_REMOVAL	removed
	client	1	sent-MR+DEVICE_REMOVAL	removed
	client	1	sent-MR+DISCONNECTED DISCONNECTED+DEVICE_REMOVAL	removed
	one-off	1	ESTABLISHED+DEVICE_REMOVAL	removed
	client	3	no-device	cannot find an RDMA device: No such device	$software
	client	3	fail:rdma_create_event_channel:1:19	connection manager: No such device	$software
	client	3	fail:rdma_create_event_channel:1:13	Permission denied	/dev/infiniband
	client	3	fail:rdma_create_event_channel:1:1	Operation not permitted	/dev/infiniband
	client	1	fail:rdma_create_event_channel:1:24	raise the limit of open files ('ulimit -n')
	client	0	ADDR_RESOLVED+ADDR_CHANGE
	# once the connection is established, UNREACHABLE is ignored, and REJECTED means that the peer left
	client	0	sent-MR+UNREACHABLE:-110
	client	0	received-DONE+UNREACHABLE:-110
	client	5	sent-MR+UNREACHABLE:-110 received-VERDICT!	no progress
	client	6	ESTABLISHED+REJECTED:28	peer left
	client	6	ESTABLISHED+REJECTED:28 DISCONNECTED!	peer left
	client	6	addresses:192.0.2.1,192.0.2.3 sent-MR+REJECTED:28	peer left
	client	0	received-VERDICT+REJECTED:28
	client	143	addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal signal+REJECTED:28	interrupted before
	END
}

# If librdmacm's own work for an event fails, the status of the event is -1, and errno is the reason.
@test "events with status -1 give the right exit status and reason, with and without errno" {
	local device="the address was resolved to an RDMA device, but librdmacm cannot use this device"
	local connect="the server accepted, but this host cannot set up the connection"
	outcomes <<-END
	client	3	[iwarp] ADDR_RESOLVED=ADDR_ERROR:-1 library:19	$device: No such device; check that	0x check that the host is up
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:110	$device: Connection timed out	rdma_resolve_addr=1
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:-22	$device: Invalid argument
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:1	$device: Operation not permitted; the rdma cgroup of this process may be at its limit	0x ibv_devices
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:0	cannot resolve the address: Operation not permitted; check that the host is up
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-1 library:12	the route is resolved, but librdmacm cannot query it: Cannot allocate memory	0x subnet manager
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-1 library:0	cannot resolve the route: Operation not permitted; over InfiniBand, check that the subnet manager runs
	client	1	write ESTABLISHED=CONNECT_ERROR:-1 refused:9	$connect: Invalid argument	0x check that the peer is up	rdma_reject=1
	client	1	ESTABLISHED=CONNECT_ERROR:-1 library:110	$connect: Connection timed out	rdma_reject=1
	client	6	ESTABLISHED=CONNECT_ERROR:-1 withdrawn:22	peer left	0x cannot set up the connection	rdma_reject=1
	client	1	ESTABLISHED=CONNECT_ERROR:-1 library:12 withdrawn:22	$connect: Cannot allocate memory
	client	6	ESTABLISHED=CONNECT_ERROR:-1 library:0	cannot connect: CONNECT_ERROR, status -1 (Operation not permitted)	rdma_reject=0
	check 192.0.2.1	3	ADDR_RESOLVED=ADDR_ERROR:-1	> address     not resolved: librdmacm failed and gives no reason (the kernel may have denied permission)*ibv_devices	!> Operation not permitted
	check 192.0.2.1	3	ROUTE_RESOLVED=ROUTE_ERROR:-1	> route       not resolved: librdmacm failed and gives no reason (the kernel may have denied permission)	!> Operation not permitted
	END
}

@test "--check: address resolution that fails is repeated until --timeout" {
	outcomes <<-END
	check -t 5 192.0.2.1	0	2*ADDR_RESOLVED=ADDR_ERROR:-110
	check -t 5 192.0.2.1	3	ROUTE_RESOLVED=ROUTE_ERROR:-110	> route       not resolved: Connection timed out
	check -t 1 192.0.2.1	3	ADDR_RESOLVED=ADDR_ERROR:-110
	check -t 9 192.0.2.1	3	5*ADDR_RESOLVED=ADDR_ERROR:-110	> address     not resolved: Connection timed out
	check -t 9 192.0.2.1	0	4*ADDR_RESOLVED=ADDR_ERROR:-110	rdma_resolve_addr=6
	END
}

# The fake kernel answers no netlink queries: reach-test has the causes that need answers, causes.bats those of a real
# path.
@test "--check ADDRESS: a request to an unused port shows whether the address answers" {
	local unknown="the connect request to 192.0.2.1 failed, and no rule of rdma-pair(7) explains it"
	outcomes check 192.0.2.1 <<-END
	0	read	> reach       192.0.2.1 answers connect requests*Ready	rdma_connect=1	sendto=1
	0	iwarp	> reach       192.0.2.1 answers TCP*Ready	rdma_connect=1	sendto=0
	# a program answers at each unused port: --check tries all four, and counts the last rejection as the answer
	0	answers-everywhere refuse:2	> answers connect requests (port 47896)*Ready	rdma_connect=4
	4	unused:28	> reach       192.0.2.1 rejects the request (reason 28, consumer defined), and no UDP packet comes back to 192.0.2.2; one of: *?B3?	!> Ready	sendto=5
	4	unused:4	> reach       $unknown	!> Ready
	0	ESTABLISHED+signal ROUTE_RESOLVED+ADDR_CHANGE	> Ready
	5	unused:0	> reach       $unknown?  -> run 'rdma-client --check 192.0.2.2' on that host	!> Ready
	0	addresses:192.0.2.1,192.0.2.3	> Ready	rdma_connect=1
	5	addresses:192.0.2.1,192.0.2.3 unused:0	> name        '192.0.2.1' is 192.0.2.3*reach       the connect request to 192.0.2.3 failed	rdma_connect=2
	130	ROUTE_RESOLVED+signal:2	!> reach
	130	ROUTE_RESOLVED+signal:2 unused:0	!> reach
	3	fail:sendto:1:1	> reach       this host forbids packets to UDP port 4791 of 192.0.2.1 (EPERM); one of: *?C5??  -> see 'nft list ruleset'	!> Ready	rdma_connect=0
	3	fail:sendto:1:105	> reach       this host cannot send to UDP port 4791 of 192.0.2.1: ENOBUFS; one of: *?C5?	rdma_connect=0
	0	iwarp fail:sendto:1:1	> Ready
	1	fail:rdma_create_qp:1:13	> reach       the connect request failed: rdma_create_qp failed: Permission denied	!> Ready
	1	fail:rdma_create_id:5:12	rdma-client: cannot create a connection identifier: Cannot allocate memory	!> Ready	rdma_connect=0
	END
	outcomes check --json 192.0.2.1 <<-END
	0	read	> "reach": ? { "status": "ok"*"rule": null, "evidence": { "address": "192.0.2.1"*"request": "8"*"causes": ? ? }
	4	unused:28	> "rule": "B3"*"udp_other": "silent"*"error": "reach: 192.0.2.1 rejects the request
	END
}

@test "--check with PORT: a request to an unused port distinguishes a stopped program from a broken path" {
	outcomes check --duration 0 192.0.2.1 20000 <<-END
	4	refuse:255	> reach       192.0.2.1 answers, but no program listens on port 20000 ?B1??  -> start rdma-server on that host	!> Ready	rdma_connect=1
	5	ESTABLISHED!	> reach       192.0.2.1 answers connect requests, but the program on port 20000 does not ?C2?	!> firewall
	5	iwarp ESTABLISHED!	> reach       192.0.2.1 answers TCP, but nothing answers on port 20000; one of: *?C2?
	5	ESTABLISHED! unused:0	> reach       the connect request to 192.0.2.1 failed, and no rule	!> ?C2?
	130	ESTABLISHED! signal:rdma_connect:2:2	!> reach	rdma_connect=2
	4	ESTABLISHED=REJECTED:10 ESTABLISHED=REJECTED:10 refuse:255	> ?B1?
	0	read	!> reach
	4	write refuse:9	!> reach
	END
	outcomes check --tos 104 192.0.2.1 20000 <<-END
	5	ESTABLISHED! unused:0	> no rule of	rdma_connect=3
	END
}

# found STATUS SCRIPT [ADDRESS]: check that --check exits with STATUS and prints exactly the lines of standard input.
found() {
	fake check "memory:9000000 $2" "${@:3}"
	[ "$status" -eq "$1" ]
	[ -z "$stderr" ]
	diff - <(echo "$output")
}

@test "--check prints its findings about a path line by line" {
	local gid="GID 5 (::ffff:192.0.2.2, RoCE v2, lo)"
	local memory="8789 KiB may be locked: longer payloads are transferred in pieces"
	local congestion="congestion  lo: type of service 0; the driver does not report PFC or ECN"
	found 0 "" 192.0.2.1 <<-END
		device      double0 port 1: RoCE, active, MTU 4096 bytes (maximum 4096)
		name        '192.0.2.1' is 192.0.2.1
		address     resolved: source 192.0.2.2, device double0 port 1, $gid
		route       resolved, MTU of the path 4096 bytes
		$congestion
		memory      $memory
		reach       192.0.2.1 answers connect requests (port 47893): packets pass in both directions
		Ready. Start 'rdma-server' on the other host, and go on here with the PORT that it prints:
		  rdma-client --check 192.0.2.1 PORT
	END
	found 0 "iwarp mtu:3" 192.0.2.1 <<-END
		device      double0 port 1: iWARP, active
		name        '192.0.2.1' is 192.0.2.1
		address     resolved: source 192.0.2.2, device double0 port 1
		route       resolved
		memory      $memory
		reach       192.0.2.1 answers TCP (port 47893), possibly without iWARP
		Ready. Start 'rdma-server' on the other host, and go on here with the PORT that it prints:
		  rdma-client --check 192.0.2.1 PORT
	END
	found 3 "down mtu:1 addresses:192.0.2.1,192.0.2.3,192.0.2.5 2*ADDR_RESOLVED=ADDR_ERROR:-99" 192.0.2.1 <<-END
		device      double0 port 1: RoCE, not active, MTU 256 bytes (maximum 4096)
		  -> the port is not active: plug in the cable, set the network interface up ('ip link set ... up'), or start the subnet manager of InfiniBand
		name        '192.0.2.1' is 192.0.2.1
		address     not resolved: Cannot assign requested address
		  -> check that the host is up ('ping'), and that 'ip route get' shows a network interface that 'rdma link' lists
		name        '192.0.2.1' is 192.0.2.3
		address     not resolved: Cannot assign requested address
		  -> check that the host is up ('ping'), and that 'ip route get' shows a network interface that 'rdma link' lists
		name        '192.0.2.1' is 192.0.2.5
		address     resolved: source 192.0.2.2, device double0 port 1, $gid
		route       resolved, MTU of the path 256 bytes
		$congestion
		memory      $memory
	END
}

# host-test covers the findings from the adapter's files in sysfs; the host of this test has no such files.
@test "--check without ADDRESS prints the devices, and how much memory may be locked" {
	[ -z "$(ls -A /sys/class/infiniband 2>/dev/null)" ] || skip "this machine has RDMA devices of its own"
	found 0 "" <<-END
		device      double0 port 1: RoCE, active, MTU 4096 bytes (maximum 4096)
		memory      8789 KiB may be locked: longer payloads are transferred in pieces
		reach       addresses with an RDMA device: 192.0.2.2 (double0, lo)
		Ready. Examine the path to another host next:
		  rdma-client --check ADDRESS
	END
	outcomes check <<-END
	0	fail:getaddrinfo:1:1	> Ready
	0	fail:rdma_create_id:4:12	> Ready	rdma_create_id=3
	3	fail:rdma_create_id:1:12	> device      double0 port 1: RoCE, active*device      cannot find out which addresses of this host lead to an RDMA port: Cannot allocate memory
	3	no-device	> device      none?  -> *$software
	3	fail:rdma_get_devices:1:24	> device      none: Too many open files
	3	down	> device      double0 port 1: RoCE, not active
	3	no-gids	> -> no address of this network namespace leads to this port
	3	no-gids memory:8192	> -> no address of this network namespace leads to this port
	3	[iwarp] elsewhere	> -> no address of this network namespace leads to this port
	0	iwarp no-gids	> Ready
	1	memory:8192	> memory      cannot register the 12 KiB that a session needs
	0	unbound memory:8388608	> memory      may be locked without limit
	END
	outcomes check --json <<<'3	down	> "peer": null*"error": "device: double0 port 1'
}

@test "--check examines as many ports as a device can have" {
	use address
	outcomes check 192.0.2.1 <<<"0	ports:255"
	[ "$(grep -c '^device      double0 port [0-9]*: RoCE, active' <<<"$output")" -eq 255 ]
}

# The smallest session needs three pages: one for messages, one for each ring.
@test "--check and a session report a limit that prevents registering memory, and exit with 1" {
	local needs="memory      cannot register the 12 KiB that a session needs: Cannot allocate memory"
	local advice="  -> raise the locked-memory limit ('ulimit -l', memlock in /etc/security/limits.conf, LimitMEMLOCK= of a systemd unit,*"
	outcomes check 192.0.2.1 <<-END
	1	memory:0	> $needs; 0 KiB may be locked*$advice
	1	memory:8192	> $needs; 8 KiB may be locked*$advice
	0	memory:12288	> memory      12 KiB may be locked: longer payloads are transferred in pieces
	1	fail:ibv_alloc_pd:1:12	> $needs
	END
	outcomes client <<-END
	1	memory:0 limited	it would exceed the locked-memory limit of 0 KiB; raise it ('ulimit -l'
	1	memory:4096 limited	it would exceed the locked-memory limit of 4 KiB; raise it ('ulimit -l'
	1	memory:8192 limited	it would exceed the locked-memory limit of 8 KiB; raise it ('ulimit -l'
	0	memory:12288 limited
	0	memory:12288
	END
	outcomes check 192.0.2.1 20000 <<<"1	memory:8192	!> server"
}

# The kernel reports EPERM for a limit of 0, ENOMEM for a larger limit and for missing memory; the rdma cgroup returns
# EAGAIN.
@test "the locked-memory limit is the cause of a failure only if it is exceeded and applies to this process" {
	local bytes="cannot register 2496 bytes of memory" cgroup="Resource temporarily unavailable; either the rdma cgroup of this process"
	local short="Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter"
	local charged="$short, or the driver counts registered memory and queues against the locked-memory limit of"
	outcomes client <<-END
	1	memory:0	$bytes: $charged 0 KiB: raise it ('ulimit -l'	0x would exceed
	1	memory:8388608 unbound fail:ibv_reg_mr:1:12	$bytes: $short	0x locked-memory
	1	memory:8388608 limited fail:ibv_reg_mr:1:12	$bytes: $charged 8192 KiB	0x would exceed
	1	memory:8388608 limited fail:ibv_reg_mr:1:1	$bytes: Operation not permitted	0x locked-memory
	1	memory:0 limited fail:ibv_create_cq:1:1	ibv_create_cq failed: it would exceed the locked-memory limit of 0 KiB
	1	memory:8388608 unbound fail:ibv_create_cq:1:12	ibv_create_cq failed: $short	0x locked-memory
	1	memory:8388608 limited fail:ibv_create_cq:1:12	ibv_create_cq failed: $charged 8192 KiB
	1	memory:8388608 limited fail:rdma_create_qp:1+:12	rdma_create_qp failed: $charged 8192 KiB
	1	fail:ibv_alloc_pd:1:11	ibv_alloc_pd failed: $cgroup
	1	memory:8388608 limited fail:ibv_alloc_pd:1:12	ibv_alloc_pd failed: $short	0x locked-memory
	1	fail:ibv_create_cq:1:11	ibv_create_cq failed: $cgroup
	1	fail:rdma_create_qp:1:11	rdma_create_qp failed: $cgroup	rdma_create_qp=1
	1	fail:ibv_reg_mr:1:11	$bytes: $cgroup
	END
	bytes="memory      cannot register the 12 KiB that a session needs"
	outcomes check 192.0.2.1 <<-END
	1	memory:8388608 unbound fail:ibv_reg_mr:1:12	> $bytes: Cannot allocate memory?  -> memory is short on this host	!> may be locked
	1	memory:8388608 limited fail:ibv_reg_mr:1:12	> $bytes: Cannot allocate memory?  -> memory is short on this host	!> may be locked
	1	memory:0 limited fail:ibv_reg_mr:1:1	> $bytes: Operation not permitted; 0 KiB may be locked?  -> raise the locked-memory limit
	1	fail:ibv_reg_mr:1:11	> $bytes: Resource temporarily unavailable?  -> either the rdma cgroup of this process
	1	fail:ibv_alloc_pd:1:11	> $bytes: Resource temporarily unavailable?  -> either the rdma cgroup of this process
	# --check registers at most a quarter of the machine's memory
	0	memory:8388608 unbound machine:16777216	> memory      8192 KiB may be locked
	0	memory:8388608 unbound machine:67108864	> memory      may be locked without limit
	# without a route --check registers no memory
	3	memory:8388608 unbound ADDR_RESOLVED=ADDR_ERROR:-99	!> memory
	3	memory:8388608 limited ADDR_RESOLVED=ADDR_ERROR:-99	> memory      8192 KiB may be locked
	END
}

@test "--check --json: the error is the failed finding of 'reach', otherwise the first failed finding" {
	local script
	for script in down "down ADDR_RESOLVED=ADDR_ERROR:-99" fail:getaddrinfo:1:1 memory:8192 no-gids "ADDR_RESOLVED=ADDR_ERROR:-19" \
		"fail:rdma_get_devices:1:24" "fail:ibv_query_device:1:5"; do
		fake check "$script" --json 192.0.2.1
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[2])
assert outcome["status"] == int(sys.argv[1]) != 0, outcome
failed = [(step, one) for step in outcome if type(outcome[step]) is list for one in outcome[step] if one["status"] != "ok"]
step, first = next((one for one in failed if one[0] == "reach"), failed[0])
assert outcome["error"] == "; ".join([step + ": " + first["text"]] + ([first["advice"]] if first["advice"] else [])), outcome' "$status" "$output"
	done
	outcomes check --json 192.0.2.1 <<<'0	read	> "error": null'
}

@test "--check succeeds although it cannot free memory or a protection domain, and reports that" {
	outcomes check <<-END
	0	fail:ibv_dereg_mr:1:16	cannot deregister	cannot free a protection domain: Device or resource busy
	0	negative fail:ibv_dealloc_pd:1:16	cannot free a protection domain: Device or resource busy
	END
}

@test "--check reports failed calls as findings, and exits with 3; advice alone gives status 0" {
	local few="  -> raise the limit of open files ('ulimit -n')"
	outcomes check -B 192.0.2.2 192.0.2.1 <<-END
	3	fail:getaddrinfo:1:1	> name        '192.0.2.1' not resolved: Temporary failure in name resolution
	3	fail:getaddrinfo:1:24	> name        '192.0.2.1' not resolved: Too many open files
	3	fail:getaddrinfo:2:1	> address     not resolved: cannot connect from '192.0.2.2': Temporary failure in name resolution
	3	fail:getifaddrs:1:12	> device      cannot find out which addresses of this host lead to an RDMA port: Cannot allocate memory
	3	fail:rdma_create_id:1:13	> device      cannot find out which addresses of this host lead to an RDMA port: Permission denied
	3	fail:rdma_create_id:1:24	> lead to an RDMA port: Too many open files*$few
	3	fail:rdma_create_id:4:12	> address     not resolved: cannot use the connection manager: Cannot allocate memory	!> -> load the module
	3	fail:rdma_create_id:4:24	> cannot use the connection manager: Too many open files*$few
	3	fail:rdma_resolve_route:1:110	> route       not resolved: Connection timed out?  -> over InfiniBand, check that the subnet manager runs
	3	addresses:127.0.0.1	> route       not resolved: No such device?  -> $loopback
	3	iwarp addresses:127.0.0.1	> address     not resolved: Invalid argument?  -> $loopback
	3	fail:ibv_query_device:1:5	> device      double0: cannot be queried: Input/output error
	3	fail:ibv_query_port:1:5	> device      double0 port 1: cannot be queried: Input/output error
	3	ADDR_RESOLVED=ADDR_ERROR:-99	> address     not resolved: Cannot assign requested address?  -> give --bind an address of this host
	3	fail:rdma_get_devices:1:19	> device      none*$software
	3	fail:rdma_get_devices:1:24	> device      none: Too many open files*$few
	3	no-device	> device      none
	0	mtu:3 memory:67108864	> MTU 1024 bytes (maximum 4096)?  -> larger packets are faster*65536 KiB may be locked: longer payloads are transferred in pieces?reach *Ready
	END
}

@test "--check --tos shows the type of service of a RoCE v2 path, or why it cannot be set" {
	outcomes check --tos 0x68 192.0.2.1 <<-END
	0	read	> congestion  lo: type of service 104; the driver does not report PFC or ECN?memory
	0	iwarp	> route       resolved?memory
	0	roce-v1 addresses:fe80::1%lo	> (::ffff:192.0.2.2, RoCE v1, lo)	!> congestion
	3	fail:rdma_set_option:1:12	> address     not resolved: cannot set --tos: Cannot allocate memory
	END
	outcomes check --tos 0x68 --duration 0 192.0.2.1 20000 <<-END
	0	read	> type of service 104;*Ready. All sizes arrived
	1	fail:rdma_set_option:2:12	> cannot set --tos: Cannot allocate memory
	END
}

# The network interface of a GID may be unknown. A link-local address names its interface.
@test "over RoCE --check names the GID, its type and any known interface; without a GID it exits with 3" {
	outcomes check 192.0.2.1 <<-END
	0	roce-v1	> , GID 4 (::ffff:192.0.2.2, RoCE v1)?  -> this GID uses RoCE v1, which routers do not forward
	0	roce-v1 addresses:fe80::1%lo	> , GID 5 (::ffff:192.0.2.2, RoCE v1, lo)
	3	no-gids	> -> no address of this network namespace leads to this port
	0	no-gids iwarp	> device double0 port 1	!> GID
	END
}

@test "--check with PORT runs sessions until one fails, and reports the reason and the result of each direction" {
	use address
	local ready="Ready. All sizes arrived in both directions, verified." transfer="?transfer    1 byte: client to server"
	local latency="latency     a READ of 8 bytes takes *99th percentile of 1000)" silent="no progress for"
	local mismatch="the server accepted with a hello that does not match the request"
	outcomes check 192.0.2.1 20000 <<-END
	0	read	> $latency*$ready	!> server to client 0.000
	0	immediate iwarp set:verdict.bytes=9000000	> $latency
	4	tutorial	> the server does not support --check with PORT	!> : rdma-server
	7	wanted:0	> $mismatch
	7	wanted:2	> $mismatch
	7	payload:2	> $mismatch
	7	no-pattern	> $mismatch
	143	2*accept=busy REJECTED+signal until:99	> memory
	143	sent-MR+signal	> interrupted
	1	fail:rdma_create_event_channel:1:24	cannot open the RDMA connection manager: Too many open files
	1	fail:rdma_create_id:5:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	1	fail:rdma_create_id:6:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	5	operation!	> $transfer arrived, server to client failed: $silent
	END
	outcomes check --duration 0 192.0.2.1 20000 <<<"0	3*accept=busy from:300	> $ready"
}

@test "--check with PORT: control characters in the server's device name are escaped" {
	use address
	outcomes check --duration 0 192.0.2.1 20000 <<<$'0\tdevice:peer\e[7m-with-a-long-name\t> rdma-server, device peer\\\\x1b\[7m-with-a, '
}

# The failing call belongs to one of the three simultaneous sessions. Before them --check makes one protection domain
# for its memory finding, and runs 7 single sessions, one for each size (5 over iWARP). check-test has a slow session.
@test "--check with --connections names each session by its source port; a failed one decides the exit status" {
	use address
	local script text number='[0-9.]+ [kMG]?bit/s'
	for script in immediate "immediate slow-start"; do # the measurement takes one second, as long as --timeout
		outcomes check --connections 3 192.0.2.1 20000 <<<"0	$script"
		[ "$(grep -E -c "^path        source port 499[0-9]{2}: client to server $number, server to client $number$" <<<"$output")" -eq 3 ]
	done
	while IFS=$'\t' read -r script text; do
		fake check "$script" --connections 3 --duration 0 192.0.2.1 20000
		[ "$status" -eq 1 ]
		[ "$(grep -c '^path        source port 499[0-9]*: verified in both directions$' <<<"$output")" -eq 2 ]
		grep -x "$text" <<<"$output"$'\n'"$stderr"
	done <<-END
	fail:ibv_alloc_pd:10:12	path        source port not known: ibv_alloc_pd failed: Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter
	fail:rdma_create_id:14:24	rdma-client: cannot create a connection identifier: Too many open files
	END
	for script in "fail:rdma_connect:9:101" "iwarp fail:rdma_connect:7:101"; do
		fake check "$script" --connections 3 --duration 0 --json 192.0.2.1 20000
		[ "$status" -eq 4 ]
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
failed, = [path for path in outcome["path"] if path["status"] == "failed"]
assert failed["text"].endswith(outcome["error"]), outcome' "$output"
	done
}

@test "a device event ends a session only if it concerns its queue pair or completion queue" {
	use address
	printf '1\tsent-MR+async:%d\tdouble0 reports: device event %d\n' 0 0 1 1 | outcomes both # CQ_ERR QP_FATAL
	# QP_REQ_ERR QP_ACCESS_ERR: the peer's request caused the event
	printf '7\tsent-MR+async:%d\tthe peer sent a request that RDMA device double0 cannot accept: device event %d\n' 2 2 3 3 |
		outcomes both
	# no session ends: COMM_EST PORT_ACTIVE PORT_ERR CLIENT_REREGISTER GID_CHANGE
	printf '0\tsent-MR+async:%d\n' 4 9 10 17 18 | outcomes both
	outcomes client <<-END
	1	sent-MR+async:1 fail:ibv_get_async_event:1:4	device event 1
	1	sent-MR+async:1 fail:ibv_get_async_event:1:11	device event 1
	0	sent-MR+async:1 fail:ibv_get_async_event:1:5
	END
}

# The scripted client disconnects only if it is the tutorial's; otherwise the server does. If the client leaves, the
# server does not wait for the completion of its last message: the client has received it.
@test "lessons 3 and 4 work on both sides, over both transports" {
	use address
	local lesson
	for lesson in write read; do
		printf '0\t%s\t> remote buffer: text of the scripted peer\n' "[iwarp] " "[iwarp] coalesce" operation@300 \
			"iwarp received-MR@5000" received-DONE@5000 "2*ESTABLISHED+UNREACHABLE:-110" "[iwarp] tutorial" \
			"[iwarp] tutorial coalesce" "tutorial DISCONNECTED@500" | outcomes "$lesson"
		outcomes "$lesson-server" <<<"0	[iwarp] tutorial sent-DONE@500	> listening on port 20000."
	done
	outcomes <<-END
	read-client	0	iwarp tutorial sent-DONE=2	> remote buffer: text of the scripted peer
	read-client	1	abandons tutorial sent-DONE=2	cannot complete a request: completion status 2
	END
}

@test "a lesson fails if its output is lost" {
	local role
	for role in write-client write-server read-client read-server; do
		launcher=(sh -c '"$@" >/dev/full' -)
		fake "$role" abandons
		expect 1 "cannot write the output: No space left on device"
	done
}

# bats test_tags=slow
@test "each failing call of a lesson is reported" {
	local role
	for role in write-client write-server read-client read-server; do # a failed lesson exits: the kernel releases its objects
		faults "$role" ""
		faults "$role" "iwarp tutorial"
		functions="ibv_post_*" faults "$role" negative
	done
}

# A failure ends the lesson with status 1, SIGALRM after 30 s with 142. The kernel releases its objects.
# bats test_tags=slow
@test "a lesson ends with the reason, or after 30 s, if a message, an event or a completion fails or is missing" {
	local lesson
	for lesson in write read; do
		sed "s/\t1\t/&abandons until:30000 /; s/\t142\t/&abandons from:30000 until:30000 /; s/^lesson/$lesson/" <<-END | outcomes
		lesson-client	1	ADDR_RESOLVED=ADDR_ERROR:-110	cannot resolve the address: Connection timed out
		lesson-client	1	ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
		lesson-client	1	ROUTE_RESOLVED=ROUTE_ERROR:-110	cannot resolve the route: Connection timed out
		lesson	1	fail:getaddrinfo:1:12	cannot resolve the name: Cannot allocate memory
		lesson	1	[iwarp] unfound:9	cannot find the device of the connection: No such device
		lesson-client	1	[iwarp] refuse:255	cannot connect: Connection refused
		lesson-client	1	ESTABLISHED=UNREACHABLE:-110	cannot connect: Connection timed out
		lesson-client	1	received-MR!	cannot use a message: Protocol error
		lesson-client	142	received-MR! received-DONE!
		lesson	142	[iwarp] received-DONE!
		lesson-client	1	DISCONNECTED=DISCONNECTED:-110	cannot disconnect: Connection timed out
		lesson	1	sent-MR=12	cannot complete a request: completion status 12
		lesson	1	operation=10	cannot complete a request: completion status 10
		lesson	1	[iwarp] received-MR+DISCONNECTED	cannot complete
		lesson-server	1	ESTABLISHED=CONNECT_ERROR:-110	cannot accept the connection: Connection timed out
		lesson-server	142	received-MR!
		lesson-server	142	sent-DONE!
		END
	done
}

# Lesson 8: a failure costs at most one client, and the server exits without an error on SIGTERM.
# bats test_tags=slow
@test "lesson 8 serves many clients, one after the other and at the same time" {
	local sanitizer
	for sanitizer in "${sanitizers[@]}"; do
		use "$sanitizer"
		printf '0\t%s\tserved=%s\t> remote buffer: text of the scripted peer\t!> failed\n' "[iwarp] clients:3" 3 \
			"[iwarp] clients:3 tutorial" 3 "[iwarp] clients:2 tutorial sent-DONE@500" 2 \
			"[iwarp] clients:40 together" 40 "clients:3 coalesce together" 3 \
			"clients:3 slow-events together" 3 "clients:2 2*ESTABLISHED+UNREACHABLE:-110" 2 \
			"clients:2 spurious sent-MR+spurious" 2 | outcomes 08-server
	done
}

# bats test_tags=slow
@test "lesson 8 goes on serving after a client that dies, stays silent or sends an invalid key" {
	use address
	outcomes 08-server <<-END
	0	clients:2 unfound:1	> a client failed.	> remote buffer
	0	[iwarp] clients:2 sent-MR+DISCONNECTED	cannot receive a message	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-MR+DISCONNECTED	cannot	> a client failed.	> remote buffer
	0	clients:2 ESTABLISHED!	cannot accept a client: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 ESTABLISHED=CONNECT_ERROR:-110	cannot accept a client: Connection reset	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-MR!	cannot receive a message: Connection timed out	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-DONE!	cannot receive a message: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 sent-DONE!	cannot send: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 sent-MR=2	a request failed: completion status 2	> a client failed.	> remote buffer
	0	clients:2 sent-MR=12	a request failed: completion status 12	> a client failed.	> remote buffer
	0	clients:2 operation=10	a request failed: completion status 10	> a client failed.	> remote buffer
	END
}

# bats test_tags=slow
@test "each failing call of lesson 8 is reported" {
	local script
	for script in "" "iwarp tutorial" together; do
		faults 08-server "abandons $script"
	done
}

# $twice: three clients, one after the other, and a device that is removed and returns twice.
@test "a server for all addresses serves again after its device disappeared and returned" {
	local sanitizer step gone="the RDMA device" twice="clients:3 2*leave+return return@5000 return@5000"
	for sanitizer in "${sanitizers[@]}"; do
		use "$sanitizer"
		outcomes server <<-END
		0	$twice 2*DISCONNECTED+leave leave@100 leave@100	served=3
		0	$twice 2*DISCONNECTED+leave	served=3
		0	$twice 2*DISCONNECTED+leave iwarp leave@100	served=3
		0	$twice 2*DISCONNECTED+leave write leave@2000 leave@700	served=3
		# the device returns before the server has handled the removal: nothing of the old device is used
		0	[iwarp] coalesce CONNECT_REQUEST+leave leave+return
		# the removal ends all sessions that run at the same time
		0	together clients:3 sent-MR+leave leave+return return@5000	3x $gone	3x rdma link
		END
		for step in sent-MR "iwarp sent-MR" "ESTABLISHED" "write operation" received-DONE; do
			outcomes server <<<"0	$twice ${step% *} 2*${step##* }+leave	$gone	rdma link"
			[ "$(calls served)" -ge 1 ]
		done
	done
}

@test "a server with --bind whose device is removed ends its sessions, reports the removal and exits with 1" {
	use address
	outcomes server --bind 192.0.2.1 <<-END
	1	clients:2 DISCONNECTED+leave leave@100 by-itself	cannot listen on an address of --bind '192.0.2.1' any more: its RDMA device was removed
	1	clients:2 sent-MR+leave by-itself	cannot listen on an address of --bind '192.0.2.1' any more: its RDMA device was removed
	END
}

@test "a signal ends each session cleanly, with the right exit status and reason" {
	use address
	outcomes <<-END
	client	143	ADDR_RESOLVED+signal	interrupted
	client	143	ROUTE_RESOLVED+signal	interrupted
	client	143	ESTABLISHED+signal	interrupted
	client	0	received-VERDICT+signal DISCONNECTED!
	both	143	sent-MR+signal	interrupted
	both	130	sent-MR+signal:2	interrupted
	client	129	sent-MR+signal:1	interrupted
	one-off	143	iwarp received-MR+signal	interrupted
	both	0	DISCONNECTED+signal
	server	0	DISCONNECTED+signal:2 by-itself
	one-off	143	clients:0
	# a signal ends all sessions of a server, each with its reason
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:1 until:500	3x interrupted before the session was complete
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:2 until:500	3x interrupted before the session was complete
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:15 until:500	3x interrupted before the session was complete
	# over iWARP rdma_connect(3) sleeps, and signals may interrupt it: the first signal other than SIGALRM decides;
	# SIGALRM alone is the timeout
	client	143	connect-signal:15	interrupted
	client	130	connect-signal:2	interrupted
	client	5	connect-signal:14	no answer to the connect request
	client -t 10	143	connect-early:15 until:1100	interrupted
	client -t 10	130	connect-early:2 until:1100	interrupted
	client -t 10	143	connect-early:15 connect-signal:2	interrupted
	client -t 10	130	connect-early:2 connect-signal:15	interrupted
	client -t 10	5	connect-early:14 until:1100	no answer to the connect request
	client -t 10	143	connect-early:14 connect-signal:15	interrupted
	# an interrupted client does not connect when the route resolves late, and does not try another address
	client -v	143	ADDR_RESOLVED+signal flush@100	interrupted	0x rdma_connect	!> route resolved
	client -v	143	addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal ESTABLISHED@500	1x rdma_resolve_addr
	END
}

@test "a signal ends a program at once while a name, or the next address of --check, is resolved" {
	outcomes <<-END
	client	143	signal:getaddrinfo:1:15
	client -B 192.0.2.2	130	signal:getaddrinfo:2:2
	server -B 192.0.2.1	143	signal:getaddrinfo:1:15
	check 192.0.2.1 20000	143	addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15	> address  	!> address  *address  
	END
}

# The kernel does not deliver a signal to process 1 if its action is the default one (pid_namespaces(7)). The rows
# first run in an ordinary process: the statuses must be the same.
@test "a signal ends process 1 of a container with the same exit status as an ordinary process" {
	use none
	local launcher=() rows
	rows=$(cat <<-END
		both	143	sent-MR+signal	interrupted
		both	130	sent-MR+signal:2	interrupted
		client	129	sent-MR+signal:1	interrupted
		client -J	143	ADDR_RESOLVED+signal	interrupted	> "status": 143
		client	143	connect-signal:15	interrupted
		one-off	143	clients:0
		server	0	DISCONNECTED+signal:2 by-itself
		# a signal ends the program at once: before a session, between two addresses, after an earlier signal
		client	143	signal:getaddrinfo:1:15
		server -B 192.0.2.1	130	signal:getaddrinfo:1:2
		client	129	signal:getaddrinfo:1:1
		check 192.0.2.1 20000	143	addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15	> address
		client -t 10	130	sent-MR+signal signal:rdma_disconnect:1:2
	END
	)
	outcomes <<<"$rows"
	launcher=(unshare --pid --fork --kill-child)
	[ "$(id -u)" -eq 0 ] || launcher+=(--user --map-root-user)
	"${launcher[@]}" true || skip "this user may not create a PID namespace"
	outcomes <<<"$rows"
	mkfifo "$BATS_TEST_TMPDIR/fifo" # no process opens its other end
	# shellcheck disable=SC2016 # expanded by that shell; /proc is that of the outer namespace
	timeout -s KILL 100 "${launcher[@]}" bash -c 'read -r pid _ </proc/self/stat
		echo "$pid" >"$1" && exec "${@:2}"' - "$BATS_TEST_TMPDIR/pid" \
		"$programs/rdma-client" -f "$BATS_TEST_TMPDIR/fifo" write 192.0.2.1 20000 3>&- &
	await test -s "$BATS_TEST_TMPDIR/pid"
	while kill "$(<"$BATS_TEST_TMPDIR/pid")" 2>/dev/null; do sleep 0.05; done
	wait $! || status=$?
	[ "$status" -eq 143 ]
}

@test "SIGHUP stays ignored if the parent ignored it, as nohup(1) does" {
	use none
	local mode
	for mode in "sent-MR+signal:1" "ROUTE_RESOLVED+signal:1"; do
		FAKE_VERBS="$mode read" nohup "$programs/rdma-client" read 192.0.2.1 20000 </dev/null >"$BATS_TEST_TMPDIR/out" 2>&1
		grep -q '^remote buffer: text of the scripted peer' "$BATS_TEST_TMPDIR/out"
	done
}

@test "a session that begins while another one is open has its number in each line; other sessions have none" {
	local number
	outcomes server <<<"0	together clients:3"
	for number in 2 3; do
		diff <(transcript server read "text of the scripted peer" 20000 | tail -n +2) <(sed -n "s/^\[$number\] //p" <<<"$output")
	done
	diff <(transcript server read "text of the scripted peer" 20000) <(grep -v '^\[' <<<"$output")
	fake server "together clients:3 3*received-MR!"
	[ "$(grep -c '^\[[23]\] rdma-server: \|^rdma-server: \[[23]\] ' <<<"$stderr")" -eq 2 ]
	outcomes server <<<"0	clients:3	!> ["
}

# EADDRNOTAVAIL, EAFNOSUPPORT and ENODEV mean that the address does not exist. If the port is in use (EADDRINUSE, or
# EADDRNOTAVAIL for a wildcard address), the server tries another port, unless --port is given. A server uses at most 16
# addresses of a name.
@test "a server listens on the same port of every address, or of each address of the name in --bind" {
	local errno several=addresses:192.0.2.1,fd00::1,192.0.2.3 taken="the port is in use; choose another --port"
	for errno in 99 97 19; do
		outcomes <<-END
		one-off	0	fail:rdma_bind_addr:2+:$errno	rdma_listen=1
		one-off	3	fail:rdma_bind_addr:1+:$errno	give --bind an address of a network interface
		one-off -B name -p 4000	0	$several fail:rdma_bind_addr:3+:$errno	rdma_listen=2
		server -B name	3	$several fail:rdma_bind_addr:1+:$errno	on name, any port: 
		END
	done
	outcomes <<-END
	one-off	0	read	rdma_listen=2
	one-off	0	fail:rdma_bind_addr:2:98	rdma_listen=3
	one-off	0	fail:rdma_bind_addr:2:99	rdma_listen=3
	server	1	fail:rdma_bind_addr:1+:98	$taken	rdma_bind_addr=20
	server -p 20000	1	fail:rdma_bind_addr:2:98	port 20000: $taken
	one-off -B name	0	$several	rdma_listen=3
	one-off -B name	0	$several fail:rdma_bind_addr:3:98	rdma_listen=5
	one-off -B name	0	addresses:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17	rdma_listen=16
	# a name may have the same address twice, from two lines of /etc/hosts
	one-off -B name	0	addresses:192.0.2.1,192.0.2.1	rdma_listen=1
	one-off -B name -p 4000	0	addresses:1,fd00::1,1,fd00::1,1,2	rdma_listen=3
	one-off -B name	0	addresses:fe80::1%1,fe80::1%2	rdma_listen=2
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:98	cannot listen on name port 4000: $taken
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:99	cannot listen on name port 4000: $taken
	server -B name -p 4000	1	$several fail:rdma_listen:2:12	cannot listen on name port 4000: Cannot allocate memory
	END
}

# With --json the client prints one object, for the last address that it tried.
@test "a client tries the next address of a name until a server of this project answers" {
	use address
	local times expected script next="trying the next address of '192.0.2.1'"
	while read -r times expected script; do
		outcomes client -J <<<"$expected	addresses:192.0.2.1,fd00::1 $script	${times}x $next	> \"status\": $expected,	!> }?{"
		[ "$expected" -ne 0 ] || [[ $output == *'"verified": true'* ]]
	done <<-END
	0	0	read
	1	0	ADDR_RESOLVED=ADDR_ERROR:-19
	1	3	2*ADDR_RESOLVED=ADDR_ERROR:-19
	1	0	ROUTE_RESOLVED!
	1	0	ESTABLISHED!
	1	4	refuse:255
	0	4	refuse:2
	0	6	operation=12
	0	143	ADDR_RESOLVED+signal
	END
	outcomes client -J -B name <<<"0	addresses:192.0.2.1,fd00::1 ADDR_RESOLVED=ADDR_ERROR:-19	1x $next"
}

@test "a client tries each address of a name once, even if the name lists it twice" {
	outcomes <<-END
	client	3	addresses:192.0.2.1,fd00::1,192.0.2.1 3*ADDR_RESOLVED=ADDR_ERROR:-19	1x trying the next address	rdma_resolve_addr=2
	check 192.0.2.1	3	addresses:192.0.2.1,192.0.2.1 2*ADDR_RESOLVED=ADDR_ERROR:-19	rdma_resolve_addr=1
	END
}

# The first address does not resolve, so each call can fail with the last address, too.
# bats test_tags=slow
@test "with --json a client prints one object for a name with two addresses, whichever call fails" {
	faults client "addresses:192.0.2.1,fd00::1 ADDR_RESOLVED=ADDR_ERROR:-19" -J
}

# without_descriptor REDIRECTION PROGRAM [ARGUMENT...]: run the program with this redirection of its standard
# descriptors; sets $status.
without_descriptor() {
	use none
	FAKE_VERBS='' sh -c "exec \"\$@\" $1" sh "$programs/$2" -t 1 read "${@:3}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
}

@test "a closed standard input or standard error is no failure; a closed or full standard output is" {
	local redirection
	for redirection in "<&-" "2>&-" "<&- 2>&-"; do
		without_descriptor "$redirection" rdma-client 192.0.2.1 1
		[ "$status" -eq 0 ]
		diff <(transcript client read "text of the scripted peer") "$BATS_TEST_TMPDIR/out"
	done
	for redirection in ">&-" ">/dev/full"; do
		for command in "rdma-client 192.0.2.1 1" "rdma-server -1"; do
			# shellcheck disable=SC2086 # several words
			without_descriptor "$redirection" $command
			[ "$status" -eq 1 ]
			grep -q 'cannot write to standard output' "$BATS_TEST_TMPDIR/err"
		done
	done
	without_descriptor "<&- >&- 2>&-" rdma-client 192.0.2.1 1
	[ "$status" -eq 1 ]
}

# unread: make a pipe of one page without a reader; sets $pipe to its path, $unread to the descriptor that keeps it
# open.
unread() {
	pipe=$BATS_TEST_TMPDIR/pipe
	mkfifo "$pipe"
	exec {unread}<>"$pipe"
	python3 -c 'import fcntl, sys; fcntl.fcntl(int(sys.argv[1]), fcntl.F_SETPIPE_SZ, 4096)' "$unread"
}

# A server has 100 clients, one after the other or all at once, then gets SIGTERM. The waits of the program are
# simulated, and take no time.
# bats test_tags=slow
@test "with unread standard output or error, sessions succeed, SIGTERM ends the server, and lost lines are counted" {
	use thread
	local script read=$BATS_TEST_TMPDIR/read
	unread
	for script in "clients:100" "clients:100 together"; do
		status=0
		FAKE_VERBS=$script "$programs/rdma-server" -t 1000 read >"$pipe" 2>"$read" || status=$?
		[ "$status $(calls served)" = "1 100" ]
		grep -q 'the output was not read in time: its last [0-9]* lines are lost' "$read"
		status=0
		FAKE_VERBS=$script "$programs/rdma-server" -t 1000 read --verbose >"$read" 2>"$pipe" || status=$?
		[ "$status $(calls served)" = "1 100" ]
		[ "$(grep -c 'remote buffer: text of the scripted peer' "$read")" -eq 100 ]
	done
}

# has_disconnected: return true if the client has disconnected; it then waits for the reader of its standard output.
has_disconnected() {
	grep -q rdma_disconnect "$BATS_TEST_TMPDIR/err"
}

# no_signal_is_pending: return true if the client has received the first signal. The kernel would merge a second signal
# with a pending one.
no_signal_is_pending() {
	grep -q '^ShdPnd:.0*$' "/proc/$client/status"
}

@test "a client whose output is not read ends with status 1 after --timeout or a signal, with 143 after a second signal" {
	use none
	local signals start
	unread
	head -c 4096 /dev/zero >&"$unread"
	for signals in 0 1 2; do
		: >"$BATS_TEST_TMPDIR/err"
		start=$(milliseconds)
		FAKE_VERBS='' "$programs/rdma-client" -v -t $((signals ? 100 : 1)) read 192.0.2.1 1 \
			>"$pipe" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
		client=$!
		await has_disconnected
		[ "$signals" -lt 1 ] || kill -TERM "$client"
		[ "$signals" -lt 2 ] || { await no_signal_is_pending && kill -TERM "$client"; }
		status=0
		wait "$client" || status=$?
		client=
		within 2 "$start" "$signals signals"
		[ "$status" -eq $((signals < 2 ? 1 : 143)) ]
		[ "$signals" -eq 2 ] || grep -q 'its last 8 lines are lost' "$BATS_TEST_TMPDIR/err"
	done
}

# The simulated clock starts at one second after the epoch.
@test "--json prints where a server listens, then each session with number, time, peer and failure" {
	outcomes server -J -n 3 <<<"0	clients:3 fail:ibv_alloc_pd:2:12	ibv_alloc_pd failed"
	python3 - "$output" "$(hostname)" <<-'END'
	import json, sys
	listening, first, second, third = map(json.loads, sys.argv[1].splitlines())
	assert listening["kind"] == "listening" and listening["port"] == 20000 and listening["host"] == sys.argv[2]
	assert listening["time"] == "1970-01-01T00:00:01.000Z" <= first["time"] <= second["time"] < third["time"] < "1970-01-01T00:01", third
	assert (first["session"], second["session"]) == (1, 2)
	assert (first["peer"], first["peer_port"], first["path_mtu"]) == ("127.0.0.1", 40000, 4096), first
	keys = "role", "operations", "bytes", "received_bytes", "verified", "status", "error"
	assert [first[key] for key in keys] == ["server", 3, 3072, 1024, True, 0, None], first
	assert (second["status"], second["error"]) == (1, "ibv_alloc_pd failed: Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter"), second
	END
	outcomes server -J <<<'0	version:2	refused	> "status": 4,*"error": "refused: client and server speak different versions of the protocol; use'
}

@test "--json prints measurements, in bits as well, and the verified bytes" {
	outcomes client -J -s 100 -n 5 --depth 4 <<<$'0\twrite passes:3 payload:1000 operation@10\tdisconnected.'
	[ "$(values role operation transport device bytes operations request_bytes depth received_bytes verified verified_bytes latency_us)" = \
		"client write RoCE double0 500 5 100 4 1000 True 1000 None" ]
	python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
rate = outcome["bytes"] / outcome["seconds"]
assert abs(outcome["bytes_per_second"] / rate - 1) < 1e-6 and abs(outcome["bits_per_second"] / rate - 8) < 1e-6' "$output"
	outcomes client -J --depth 1 <<<$'0\tiwarp\tdisconnected.\t> "latency_us": { "min": '
	[ "$(values operation transport path_mtu received_bytes)" = "read iWARP None 1024" ]
}

@test "messages omit the middle of a long name, so that reason and advice fit" {
	use address
	local long shown missing="x//file': No such file or directory" taken="addresses:192.0.2.2 fail:rdma_bind_addr:1"
	printf -v long 'x/%.0s' {1..600}
	shown="${long:0:62}...${long: -62}"
	outcomes <<-END
	client -J -f $long	1	read	rdma-client: cannot read '$shown': No such file or directory
	client -o $long/file	1	read	$missing
	one-off -o $long/file	1	read	2x $missing
	client -o $long/file	1	unknown	$missing
	client -o $long/file	1	write unknown	$missing
	client -B $long	3	read	rdma-client: cannot resolve --bind '$shown': 
	server -B $long	3	read	rdma-server: cannot resolve --bind '$shown': 
	client -B $long	3	addresses:192.0.2.2 fail:rdma_resolve_addr:1:19	--bind '$shown' as the source: No such device; give an address of this host
	server -B $long -p $(printf '%0140d' 1)	1	$taken:98	: the port is in use; choose another --port
	server -B $long	3	$taken:19	listen on $shown, any port: No such device; give --bind an address of a network interface that has an RDMA device ('rdma link')
	END
}

# Columns: the bytes of one pass, options, script. A WRITE goes on until the time is up, and completes its last pass.
@test "--duration ends with a complete pass; a READ of a stream ends with the peer's source" {
	local pass options script
	while IFS=$'\t' read -r pass options script; do
		# shellcheck disable=SC2086 # several options
		fake client "$script" -J --duration 1 $options
		[ "$status" -eq 0 ]
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
assert 1 <= outcome["seconds"] < 1.2, outcome
assert outcome["operations"] > 20 and outcome["bytes"] == outcome["operations"] * int(sys.argv[2]), outcome' "$output" "$pass"
	done <<-END
	1024	-t 1	read
	1024	-t 1	iwarp
	1024	-t 1	write
	1024	-t 1	tutorial
	10000	-s 10000	write ring:4096
	30000	-t 1	memory:25000 payload:30000
	30000	-s 30000	write memory:25000
	END
	fake client "ring:4096 payload:10000" -J --duration 1
	[ "$(values status operations bytes verified_bytes)" = "0 3 30000 30000" ] # three passes of the peer's source
	outcomes <<-END
	client -s 10000	0	passes:0 seconds:1
	client -s 10000	0	write passes:0 seconds:1 payload:60000 memory:50000
	one-off -s 10000 --duration 1	0	passes:0 seconds:2
	one-off -s 60000 --duration 1	0	passes:0 seconds:0 memory:50000
	END
}

# In simulated time the source has its bytes after 5 s, and the operation then takes milliseconds, or --duration.
# Columns: least and most seconds, options, script.
@test "the time of an operation and of each pass begins when it is posted, not while it waits for the source" {
	local stream="payload:30000 ring:3000 late-source received-WINDOW@5000" repeated="payload:3000 late-source received-DONE@5000"
	local script options least most
	while IFS=$'\t' read -r least most options script; do
		# shellcheck disable=SC2086 # several options
		fake client "from:5000 $script" -t 10 -J $options
		[ "$status" -eq 0 ]
		python3 - "$output" "$least" "$most" "$options" <<-'END'
		import json, sys
		*intervals, session = map(json.loads, sys.argv[1].splitlines())
		assert float(sys.argv[2]) <= session["seconds"] < float(sys.argv[3]), session
		assert (session["latency_us"] or {"max": 0})["max"] < 1e6, session
		if "--interval" in sys.argv[4]:
		    assert len(intervals) == max(1, int(session["seconds"])) and intervals[0]["begin"] == 0, intervals
		    assert abs(intervals[-1]["end"] - session["seconds"]) < 1e-3, intervals
		END
	done <<-END
	0.01	0.2	--one-way --min-rate 1M	one-way $stream
	0.01	0.2	--one-way --min-rate 1M	iwarp one-way $stream
	0.01	0.2	--depth 1	$stream
	0.001	0.2	-n 3 --depth 1	$repeated
	0.01	0.2	--interval 1	$stream
	2	2.2	--duration 2 --interval 1	$repeated
	2	2.2	--one-way --duration 2 --depth 1	iwarp one-way $repeated
	END
	outcomes one-off -t 10 --min-rate 1M <<<"0	from:5000 iwarp $stream"
}

# The sender cannot read a pipe again. Only the direction with several passes matters: in the other direction a pipe may
# be sent.
@test "either side refuses a session that would send a pipe twice, with the reason" {
	local once="a pipe can be sent only once, but --iters or --duration repeats it"
	outcomes <<-END
	client -n 5	4	unknown	$once
	client -n 5	0	write unknown
	client --duration 1	4	unknown	$once
	client	4	write unknown passes:5	$once
	client	4	write unknown passes:0 seconds:1	$once
	client	0	unknown passes:5
	client	4	refuse:5	the server refused: $once
	one-off -n 5	143	unknown	refused: $once
	one-off -n 5	0	write unknown
	one-off	143	write unknown passes:5	refused: $once
	one-off -n 5 -s 1	0	one-way write passes:1
	END
	outcomes one-off -f <(echo short) <<<"143	clients:1 passes:5	refused: $once	served=0"
	outcomes server -f <(echo short) <<<"0	clients:2 passes:5	served=2" # a server of several clients has a copy of the pipe
	outcomes client -f <(echo short) <<<"0	write passes:5"
	outcomes client -f <(echo short) <<<"4	passes:5	port 20000: $once"
}

# device_that_counts: create the sysfs folder of a device with 7 errors; the programs read it instead of /sys.
device_that_counts() {
	export FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	mkdir -p "$FAKE_VERBS_DEVICE/ports/1/hw_counters"
	echo 7 >"$FAKE_VERBS_DEVICE/ports/1/hw_counters/duplicate_request"
}

# In simulated time the first three of 40 passes take 0.7 s each, the others little. So one pass ends in the first
# second, one in the second, and all others in the third interval, which is shorter than a second.
@test "--interval reports each interval with its bytes and errors; the intervals add up to the operation" {
	local script
	device_that_counts
	for script in "" "write iwarp" "payload:30000 memory:25000"; do
		fake client "$script 3*operation@700" -J --interval 1 -n 40 -t 5 -s 10000 --depth 1
		[ "$status" -eq 0 ]
		python3 - "$output" <<-'END'
		import json, sys
		*intervals, session = map(json.loads, sys.argv[1].splitlines())
		assert len(intervals) == 3 and [i["kind"] for i in intervals] == 3 * ["interval"], intervals
		amounts = [i["bytes"] for i in intervals]
		assert amounts[0] == amounts[1] > 0 and sum(amounts) == session["bytes"] > 20 * amounts[0], amounts
		assert [i["begin"] for i in intervals] == [0, 1, 2] and [i["end"] for i in intervals[:2]] == [1, 2], intervals
		assert 2.1 < intervals[2]["end"] < 3 and all(i["error_counters"] == {} for i in intervals), intervals
		assert abs(intervals[2]["bits_per_second"] - 8 * intervals[2]["bytes"] / (intervals[2]["end"] - 2)) < 1
		END
		fake one-off "$script peer-operation@10 operation@2500" --interval 2 -n 40 -t 5 -s 10000
		[ "$status" -eq 0 ]
		[ "$(grep -cE '^[0-9.]+ to [0-9.]+ s: [0-9]+ bytes, ' <<<"$output")" -eq 2 ]
	done
	fake client "" -J --interval 1 --duration 3 -s 10000 # no fourth interval after the last second
	[ "$(grep -c '"kind": "interval"' <<<"$output")" -eq 3 ]
	fake client "write memory:25000 5*operation@700" -J --interval 1 --duration 1 -t 5 -s 30000 # a long pass
	[ "$(grep -c '"kind": "interval"' <<<"$output")" -eq 2 ]
	fake client "write 5*operation@700" -J --interval 2 --duration 1 -t 5 --depth 1 -s 3000000
	grep '"begin": 0, "end": 2[.,]' <<<"$output" # an interval does not end with --duration
	fake client "memory:25000 peer-operation@2500" -J --interval 1 -t 5 -s 30000 # intervals end with this side's operation
	[ "$(grep -c '"kind": "interval"' <<<"$output")" -eq 1 ]
	outcomes one-off --interval 1 -s 1 <<<"0	one-way write	!>  s: " # this side has no operation, so no interval
}

# In simulated time three of 200 READs of 5000 bytes take a second each, in the second row one. report-test has the
# format.
@test "--report prints the amounts, rates and percentiles of the session" {
	local count quantiles
	while read -r count quantiles; do
		outcomes client --report -t 2 -n 200 --depth 1 <<<"0	payload:5000 $count*operation@1000"
		[[ $output =~ "read 1000000 bytes in 200 operations and $count.4"[0-9]*" s: 0."[0-9]+" MB/s" ]]
		[[ $output =~ "in us: minimum "$quantiles ]]
	done <<-'END'
	3 [0-9]+\.[0-9]+, median [0-9]{4}\.[0-9]+, 99th percentile 1[0-9]{6}\.[0-9]+, 99.9th 1[0-9]{6}\.[0-9]+, maximum 1[0-9]{6}\.
	1 [0-9]+\.[0-9]+, median [0-9]{4}\.[0-9]+, 99th percentile [0-9]{4}\.[0-9]+, 99.9th 1[0-9]{6}\.[0-9]+, maximum 1[0-9]{6}\.
	END
}

@test "the port's counters are read before and after a session, and sent to a peer that asks for them" {
	device_that_counts
	outcomes <<-END
	client	0	uncounted
	client	0	counts
	client --report	0	write counts
	one-off	0	uncounted
	one-off	0	counts
	one-off	0	write iwarp counts
	client --report	0	set:verdict.errors=1	> ?no errors counted by double0, nor by the peer's device
	client --report	0	set:verdict.errors=18446744073709551615	> no errors counted by double0?errors counted: 0 by this side, 18446744073709551614 by the peer
	client -J	0	read	disconnected.	> "error_counters": { }
	END
	outcomes check 192.0.2.1 20000 <<-END
	0	read	> counters    no errors counted by this host's device during the sessions
	0	read set:verdict.missing=18446744073709551615	> counters    packets are reordered; no errors counted by
	0	read set:verdict.retransmitted=18446744073709551615	> counters    packets are late; no errors counted by
	END
	outcomes check --json --duration 0 192.0.2.1 20000 <<<'0	read	> "lost_share": 0, "lost_direction": null }'
	rm -r "$FAKE_VERBS_DEVICE"
	outcomes check --json --duration 0 192.0.2.1 20000 <<<"0	read	> this host's device has no error counters, which would show lost packets*\"lost_share\": null, \"lost_direction\": null }"
	outcomes <<-END
	client --report	0	uncounted
	client -J	0	read	disconnected.	> "error_counters": null
	END
}

# drawn ROLE SCRIPT ARGUMENT...: run a program on a terminal and print the first two progress lines, without the rates.
# Fail if the last progress line is not erased.
drawn() {
	local text
	use none
	text=$(FAKE_VERBS=$2 TERM=xterm NO_COLOR='' script -qec "stty cols 80; exec $programs/rdma-$1 -t 10 ${*:3}" /dev/null)
	[[ $text != *left* || ${text##*left$'\e[K'} == $'\r\e[K'* ]] || return 1
	tr '\r' '\n' <<<"$text" | sed -n 's/, [^,]*\(, .* left\)\x1b\[K$/\1/p' | uniq | head -n 2 | paste -s -d ' '
}

@test "progress of a single session is drawn on a terminal, and erased when the session ends" {
	local -x TERM=xterm ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
	local late="request:1000 99*peer-operation@1200" mode
	outcomes client -t 10 --depth 1 -n 2 <<<"0	2*operation@1500" # nothing is drawn without a terminal
	for mode in read write; do
		[ "$(drawn client "$mode 2*operation@1500" --depth 1 -n 2 "$mode" 192.0.2.1 1)" = "1.0 KiB of 2.0 KiB, 2 s left" ]
		[ "$(drawn client "$mode 2*operation@1500" -v --depth 1 -n 2 "$mode" 192.0.2.1 1)" = "" ]
		[ "$(drawn server "$mode together clients:2 4*operation@1500" --depth 1 -n 2 "$mode")" = "" ]
	done
	[ "$(drawn client "one-way late-source received-DONE@4000 2*operation@1500" --one-way --depth 1 -n 2 read 192.0.2.1 1)" = \
		"1.0 KiB of 2.0 KiB, 2 s left" ] # the rate counts from the first post, not from the wait for the source
	[ "$(drawn server "one-way memory:20000 $late" -1 -s 30000 read)" = \
		"3.9 KiB of 29.3 KiB, 8 s left 8.0 KiB of 29.3 KiB, 4 s left" ]
	[ "$(drawn server "write one-way payload:30000 ring:3000 $late" -1 write)" = \
		"2.9 KiB of 29.3 KiB, 9 s left 5.9 KiB of 29.3 KiB, 6 s left" ]
}

# Any other failure outranks a slow operation. A server of several clients only reports a slow operation.
@test "--min-rate: a slower operation of a client or one-off server gives status 8 if nothing else fails" {
	outcomes <<-END
	client --min-rate 8K	0	operation@1000
	client --min-rate 9K	7	corrupt-in operation@1000	contents are wrong
	one-off --min-rate 90G	8	operation@1000 write	slower than --min-rate
	server --min-rate 90G	0	operation@1000 write	slower than --min-rate
	one-off --min-rate 1	8	one-way write	with the client's --one-way this side performs no operation
	client -J --min-rate 9K	8	operation@1000	slower than --min-rate: 8.	 kbit/s instead of 9 kbit/s
	END
	[ "$(values status verified)" = "8 True" ]
}

@test "a client's --bind accepts an address of this host, and refuses addresses of other hosts or of the other family" {
	outcomes <<-END
	client -B 192.0.2.2	0	read
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:99	with --bind '192.0.2.3' as the source: Cannot assign requested address
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:19	with --bind '192.0.2.3' as the source: No such device
	client -J -B fd00::2	3	read	--bind 'fd00::2' is not an IPv4 address, but the server's is
	client -J -B 192.0.2.300	3	read	cannot resolve --bind '192.0.2.300': 	> "status": 3,
	END
}

# Over RoCE the client's --tos applies to both sides; over iWARP the programs do not know the value.
@test "over RoCE the client's --tos applies to both sides, and --json reports it; a failure is reported" {
	outcomes <<-END
	client -J --tos 104	0	read	disconnected.	> "tos": 104,
	client -J	0	read	disconnected.	> "tos": 0,
	client -J --tos 104	0	iwarp	disconnected.	> "tos": null,
	one-off -J --tos 104	0	tos:72	disconnected.	> "tos": 72,
	client -v --tos 8	0	read	type of service 8
	client --tos 8	1	fail:rdma_set_option:1:12	cannot set --tos: Cannot allocate memory
	one-off --tos 8	1	fail:rdma_set_option:1:12	Cannot allocate memory
	# the one-off server refuses the client, and waits for another one until a signal ends it
	one-off --tos 8	143	fail:rdma_set_option:4:12	cannot set --tos: Cannot allocate memory
	END
}

# values KEY...: print the values of these keys in the last object of $output, separated by spaces.
values() {
	output=${output##*$'\n'} json "$@" | paste -s -d ' '
}

# Columns: exit status, the statuses of the sessions, the number of sessions that succeeded, options, script.
@test "--connections: each connection is a complete session, and the worst status is the exit status" {
	local expected statuses succeeded options script found
	while IFS=$'\t' read -r expected statuses succeeded options script; do
		# shellcheck disable=SC2086 # several options
		fake client "$script" --json --connections 4 $options
		found="$status $(sed -n 's/.*"status": \([0-9]*\),.*/\1/p' <<<"$output" | paste -s -d ' ') $(values succeeded)"
		echo "$script: $found"
		[ "$found" = "$expected $statuses $expected $succeeded" ]
		[ "$(wc -l <<<"$output")" -eq 5 ]
	done <<-END
	0	0 0 0 0	4	-t 1	read
	0	0 0 0 0	4	-t 1	iwarp write
	0	0 0 0 0	4	-n 3	write passes:3
	5	5 0 0 0	3	-t 1	ESTABLISHED! read until:1200
	6	6 0 0 0	3	-t 1	received-MR+DISCONNECTED:0 read
	4	4 4 0 0	2	-t 1	2*accept=busy read
	4	4 4 4 4	0	-t 1	refuse:4 write
	3	3 3 3 3	0	-t 1	addresses:192.0.2.1 4*ADDR_RESOLVED! until:1300
	1	0 1 0 0	3	-t 1	fail:ibv_alloc_pd:2:12 read
	1	0 0 0 1	3	-t 1	fail:pthread_create:6:11 write
	8	8 8 8 8	0	--min-rate 9T	operation@10 write
	143	143 143 143 143	0	-t 9	signal:ibv_post_send:1:15 4*received-DONE! read until:2000
	END
}

@test "--connections --report prints number and source port of each session, the sum, the slowest and the fastest" {
	fake client "2*operation@100 write 5*sent-MR@1" --connections 3 --report
	[ "$status" -eq 0 ]
	[ "$(grep -c 'remote buffer: text of the scripted peer' <<<"$output")" -eq 3 ]
	[ "$(grep -c '^\[[123]\] ' <<<"$output")" -eq "$(grep -vc -e '^3 of 3 sessions' -e '^slowest' <<<"$output")" ]
	[ "$(sed -n 's/^\[\(.\)\] source port \([0-9]*\), queue pair 0x.*, good$/\1 \2/p' <<<"$output")" = \
		"$(printf '%s\n' "1 49972" "2 49975" "3 49974")" ]
	grep -x '3 of 3 sessions succeeded: 3072 bytes in 0.[0-9]* s, 0.[0-9]* Gbit/s' <<<"$output"
	grep '^slowest: \[2\] source port 49975, 0.000 Gbit/s; fastest: \[3\] source port 49974, ' <<<"$output"
	fake client "roce-v1 2*operation@100 write" --connections 2 --report # no UDP, so no source port
	[ "$(grep -c '^\[[12]\] source port not known, queue pair 0x.*, good$' <<<"$output")" -eq 2 ]
	grep '^slowest: \[[12]\] source port not known, 0.000 Gbit/s; fastest: \[[12]\] source port not known, ' <<<"$output"
}

# rdma_connect(3) blocks the main thread over iWARP, each call for at most --timeout.
@test "--connections over iWARP: if the first connect requests get no answer, no time is left for the others" {
	use address
	outcomes client --connections 100 <<-END
	5	iwarp write coalesce connect-early:14 until:2500	2x no answer to the connect request	98x no time was left for the connect request	rdma_connect=2
	END
}

@test "--connections: a session that fails or is late does not end the others" {
	use address
	outcomes <<-END
	client --connections 3 -J	1	read fail:rdma_create_id:1+:24	cannot create a connection identifier	> "succeeded": 0,*"kind": "session"*"status": 1,	!> "kind": "session"*"kind": "session"
	client --connections 3 -J	1	read fail:rdma_create_id:2:24	cannot create a connection identifier: Too many open files	> "succeeded": 2,
	client --connections 3 -J	1	write fail:calloc:2:12	cannot allocate memory for another connection	> "succeeded": 2,*"error": "2 of 3 sessions succeeded"
	client --connections 2 -s 1	1	write fail:calloc:2:12	cannot allocate memory	> 1 of 2 sessions succeeded: 1 byte in 0.
	# a session that fails, or is established too late, is disconnected while the other goes on
	client -t 10 -v --connections 2 --duration 5	1	write fail:ibv_reg_mr:3:12	2x rdma_disconnect
	client -t 10 -v --connections 2 --duration 20 -s 64	5	write ESTABLISHED@12000	2x rdma_disconnect
	# events after the end of a session do not change its reason
	client --connections 2	6	received-MR+DISCONNECTED:0 received-MR+async:3 async@300 received-VERDICT@600	[1] 192.0.2.1 port 20000: the peer left	0x cannot accept
	END
}

# refused:N is the reason that the server must send, for which a client prints advice. The second client is served if
# the resource suffices.
@test "a server that runs out of a resource refuses the client with the reason" {
	use address
	outcomes <<-END
	server	0	clients:2 refused:7 fail:calloc:2:12	cannot allocate memory for another connection	served=1	rdma_reject=1
	server	0	clients:2 refused:7 fail:ibv_reg_mr:1:12	cannot register 2496 bytes of memory	served=1	rdma_reject=1
	server	0	clients:2 refused:9 fail:ibv_alloc_pd:1:12	ibv_alloc_pd failed	served=1	rdma_reject=1
	server	0	clients:2 refused:9 fail:rdma_create_qp:1:24	rdma_create_qp failed: Too many open files	served=1	rdma_reject=1
	server	0	clients:2 refused:7 fail:ibv_reg_mr:2+:12	cannot register 1024 bytes of memory	served=0	rdma_reject=2
	server	0	clients:2 refused:9 fail:pthread_create:3:11	cannot start a thread for the session: Resource temporarily	served=1	rdma_reject=1
	server	0	clients:2 refused:7 memory:4096 limited	it would exceed the locked-memory limit of 4 KiB	served=0	rdma_reject=2
	END
}

# Two sessions make no progress until --timeout. A third client arrives meanwhile and is refused; a fourth one is
# served after a session has ended. In the row with $later the third client arrives just before the end of the first
# session, the fourth one just after it. A session locks at least three pages.
@test "clients above --max-sessions, or above the memory for all sessions, are refused with the reason" {
	use address
	local four="clients:4 together 2*received-MR!" silent="2x no progress for"
	local later="CONNECT_REQUEST@4000 CONNECT_REQUEST@9900 CONNECT_REQUEST@10200 from:14000 until:14200"
	outcomes <<-END
	server	0	together clients:3	served=3
	one-off	0	together clients:2 refused:4	refused: the server is busy or exiting, so it accepts no further session; try again later
	server --max-sessions 3	0	clients:3 together	served=3
	server --max-sessions 3	0	clients:7	served=7
	server --max-sessions 2	0	$four CONNECT_REQUEST@5000 refused:4	1x refused: the limit of --max-sessions, 2, is reached: raise it, or wait until a session ends	$silent	served=1	rdma_reject=1
	# each session has its own deadline: one makes no progress from 0 ms on, the other from 4000 ms on
	server --max-sessions 2 -t 10	0	$four $later	$silent	served=1	rdma_reject=1
	END
	sed "s/^/server\t0\t$four CONNECT_REQUEST@5000 refused:7 /; s/\$/, a quarter\t$silent\tserved=1\trdma_reject=1/" <<-END | outcomes
	machine:917504	1x cannot register 1024 bytes of memory: the sessions use 224 KiB of the 224 KiB for all sessions
	iwarp write machine:901120 payload:50000	1x cannot register 1024 bytes of memory: the sessions use 220 KiB of the 220 KiB for all sessions
	machine:884736	1x cannot register 2496 bytes of memory: the sessions use 216 KiB of the 216 KiB for all sessions
	END
	# long rings of the first clients leave enough lockable memory for 64 sessions, although each region takes whole
	# pages
	outcomes server -t 10 -s 300000 <<<"0	clients:64 together payload:300000 memory:8388608 limited	served=64"
}

# The sessions end after --timeout, but the helpers that store for them stay blocked.
@test "a server whose disk blocks 32 threads of ended sessions refuses further clients" {
	use address
	local hung
	printf -v hung ' fsync!%.0s' {1..32}
	outcomes server -o "$BATS_TEST_TMPDIR/stored" <<-END
	0	clients:34${hung% *}	31x storing it made no progress for	served=3
	0	clients:34$hung refused:9	32x storing it made no progress	2x refused: 32 threads of ended sessions still wait for a disk or a pipe: find the disk or the pipe that hangs	rdma_reject=2
	END
}

# The other two threads write standard output and standard error.
@test "a server creates one thread for each session, and one helper for each file of a session" {
	truncate -s 9000000 "$BATS_TEST_TMPDIR/long"
	outcomes <<-END
	server	0	clients:20 together	served=20	pthread_create=$((2 + 20))
	server -f $BATS_TEST_TMPDIR/long -o $BATS_TEST_TMPDIR/stored	0	clients:5 together	served=5	pthread_create=$((2 + 5 * 3))
	END
}

# First row: each silent session is probed after 0.25, 0.75, 1.75, 3.75, 6.25 and 8.75 s; the good session posts 4
# requests. Second row: probes after 0.25, 0.75 and 1.75 s; from the progress on, after 0.25, 0.75, 1.75, 3.75 and
# 7.75 s.
@test "silent peers are probed less and less often, with 200 sessions as with one" {
	use address
	local still="no progress for"
	outcomes <<-END
	server -t 10	0	clients:201 together 200*received-MR!	200x $still	served=1	ibv_post_send=$((200 * 6 + 4))
	one-off -t 20	0	received-MR@3000 received-DONE@9000	ibv_post_send=$((3 + 5 + 4))
	END
}

@test "a session that cannot get completion events ends with the reason; the other sessions go on" {
	use address
	local lost="1x cannot get completion events: Bad file descriptor"
	local removed="1x the RDMA device was removed; look for it with 'rdma link'"
	outcomes server -t 10 <<-END
	0	until:10100 clients:4 together 3*received-MR! fail:ibv_get_cq_event:1:9	$lost	3x no progress for
	0	until:10100 clients:4 together 3*received-MR! fail:ibv_get_cq_event:1:5	$removed	3x no progress for
	END
}

# exit_status_of REQUEST STATUS: print the exit status if this work request completes with STATUS (ibv_poll_cq(3)).
exit_status_of() {
	case $2 in
	9 | 10) echo 4 ;; # REM_INV_REQ_ERR REM_ACCESS_ERR
	11) echo 6 ;; # REM_OP_ERR
	12 | 13 | 16 | 20) echo 6 ;; # RETRY_EXC_ERR RNR_RETRY_EXC_ERR REM_ABORT_ERR RESP_TIMEOUT_ERR
	5) echo 6 ;; # WR_FLUSH_ERR
	1 | 2) [[ $1 == received* ]] && echo 7 || echo 1 ;; # LOC_LEN_ERR, and Soft-RoCE's LOC_QP_OP_ERR
	*) echo 1 ;;
	esac
}

# A session with both verdicts has succeeded, even if the SEND of this side's verdict fails: in the rows with
# sent-VERDICT, the peer's verdict therefore does not arrive.
@test "every error status of a completion is reported, with the right exit status" {
	use address
	local work code also codes
	for work in sent-MR operation sent-DONE sent-VERDICT received-MR received-DONE received-VERDICT; do
		codes="1 4 5 10 12"
		[ $work != operation ] || codes=$(seq 23)
		for code in $codes; do
			[ $work = sent-VERDICT ] && also="received-VERDICT!" || also=
			printf '%s\t%s\t%s\n' "$(exit_status_of $work "$code")" "$work=$code $also" "rdma-"
		done
	done >"$BATS_TEST_TMPDIR/table"
	outcomes both <"$BATS_TEST_TMPDIR/table"
}

# Status 1 is LOC_LEN_ERR, for which Soft-RoCE reports 2. soft-iWARP reports a broken connection as status 2 of a send.
@test "failed completions have the right reason: failed request, message of another protocol, or lost peer" {
	local code other="the peer sent something that is not a message of this protocol: receive failed"
	for code in 1 2; do
		outcomes <<-END
		client	7	received-MR=$code	192.0.2.1 port 20000: $other
		client	7	received-DONE=$code	$other
		client	1	sent-MR=$code	port 20000: MSG_MR failed
		one-off	7	received-MR=$code	port 40000: $other
		END
	done
	outcomes client <<-END
	1	received-MR=4	192.0.2.1 port 20000: receive failed
	6	operation=12	192.0.2.1 port 20000: RDMA READ failed: completion status 12 (status 12, vendor error 0x5a)
	6	iwarp sent-MR=2	peer left
	1	iwarp sent-MR=4	MSG_MR failed
	7	iwarp received-MR=2	not a message of this protocol
	END
}

# bats test_tags=slow
@test "ThreadSanitizer finds no data race" {
	use thread
	local script i
	happy_path
	for script in immediate "immediate write iwarp" coalesce "flush>DISCONNECTED" "operation!" \
		"sent-MR+signal" "payload:5000 max_msg:64 operation@300" "sent-MR+async:1" "lazy-flush" \
		"sent-MR+UNREACHABLE:-110 received-DONE+async:4" "received-VERDICT+TIMEWAIT_EXIT DISCONNECTED+spurious" \
		"slow-events coalesce operation+spurious DISCONNECTED+spurious" "sent-DONE+DEVICE_REMOVAL"; do
		for i in first second third; do
			fake client "$script" -J --min-rate 1
			[ "$status" -ne 98 ] && [ "$status" -ne 99 ] && [ "$status" -ne 124 ] || { echo "$i $script: $stderr"; return 1; }
			fake server "together clients:2 $script"
			[ "$status" -eq 0 ] || { echo "$script: $stderr"; return 1; }
		done
	done
	outcomes check --connections 3 192.0.2.1 20000 <<<"0	immediate"
}

# bats test_tags=slow
@test "ThreadSanitizer finds no data race with helpers in both directions" {
	use thread
	local script stored=$BATS_TEST_TMPDIR/stored
	for script in "write" "iwarp"; do # the client reads a pipe, because it loads a small file before the session
		outcomes client -f <(head -c 500000 /dev/zero) -o "$stored" <<-END
		0	$script payload:500000 memory:300000 ring:40000	pthread_create=5
		END
		outcomes server -s 500000 -o "$stored" <<-END
		0	$script payload:500000 memory:900000 ring:40000 together clients:2	pthread_create=6
		END
	done
}

# instructions OPERATION BYTES DEPTH: print how many instructions of its own the client executes for each operation. The
# libraries, which are fake here, are not counted. The difference between two runs excludes the setup.
instructions() {
	local passes sums=() file=$BATS_TEST_TMPDIR/callgrind
	for passes in 1000 3000; do
		FAKE_VERBS="$1 one-way payload:$2" valgrind -q --tool=callgrind --callgrind-out-file="$file" \
			"$programs/rdma-client" -t 1 --one-way -n "$passes" --depth "$3" "$1" 192.0.2.1 20000 >/dev/null
		sums+=("$(callgrind_annotate --auto=no --threshold=100 "$file" |
			awk '/rdma-common|rdma-client\.c/ && !/tests\/fake-verbs/ { gsub(",", "", $1); sum += $1 } END { print sum + 0 }')")
	done
	echo $(((sums[1] - sums[0]) / 2000))
}

# The limits are a tenth above the goals of 600 and 180 instructions, with code that gcc makes for amd64.
# bats test_tags=slow
@test "a READ at depth 1 costs the client at most 660 instructions, a WRITE at depth 16 at most 198" {
	use none
	local reading writing
	[ "$(uname -m)" = x86_64 ] || skip "instructions are counted on amd64 alone"
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	reading=$(instructions read 8 1)
	writing=$(instructions write 64 16)
	echo "READ of 8 bytes at depth 1: $reading, WRITE of 64 bytes at depth 16: $writing"
	((reading > 50 && reading <= 660)) # 50 or fewer: the counting failed
	((writing > 50 && writing <= 198))
}

# bats test_tags=slow
@test "valgrind finds no error" {
	use none
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	local memcheck=(valgrind -q --error-exitcode=98 --leak-check=full)
	FAKE_VERBS=iwarp "${memcheck[@]}" "$programs/rdma-client" -t 1 read 192.0.2.1 20000
	FAKE_VERBS="together clients:2" "${memcheck[@]}" "$programs/rdma-server" -t 1 read
}

# kept RECORDED...: check that each file RECORDED.out has the lines that the file RECORDED has below its heading. --help
# may have more lines and longer ones. In JSON keys and list entries may be added; numbers may differ except "schema"
# and "status", texts only in "version", "time", "host", "text" and "advice".
kept() {
	python3 - "$@" <<-'END'
	import itertools, json, sys
	def kept(old, new, key=None):
	    if isinstance(old, dict):
	        return isinstance(new, dict) and all(name in new and kept(old[name], new[name], name) for name in old)
	    if isinstance(old, list):
	        return isinstance(new, list) and len(new) >= len(old) and all(map(kept, old, new))
	    if type(old) in (int, float) and key not in ("schema", "status"):
	        return type(new) in (int, float)
	    return type(old) is type(new) and (old == new or key in ("version", "time", "host", "text", "advice"))
	for name in sys.argv[1:]:
	    (heading, *recorded), printed = ([*map(str.rstrip, open(file))] for file in (name, f"{name}.out"))
	    if "--help" in heading:
	        printed = [next((line for line in printed if line.startswith(old)), "")[:len(old)] for old in recorded]
	    for old, new in itertools.zip_longest(recorded, printed, fillvalue=""):
	        if not (kept(json.loads(old), json.loads(new or "0")) if old.startswith("{") else old == new):
	            sys.exit(f"{heading}\nrecorded: {old}\nprinted:  {new}")
	END
}

@test "version 1 keeps its options, exit statuses, transcripts and the keys of its JSON objects" {
	local all recorded expected command script words
	csplit -s -z -f "$BATS_TEST_TMPDIR/recorded" <(grep -v '^#' tests/recorded) '/^== /' '{*}'
	all=("$BATS_TEST_TMPDIR"/recorded*)
	for recorded in "${all[@]}"; do
		IFS=$'\t' read -r expected command script <"$recorded"
		read -ra words <<<"$command"
		fake "${words[0]}" "$script" "${words[@]:1}"
		[ "$status" -eq "${expected#== }" ]
		mv "$BATS_TEST_TMPDIR/out" "$recorded.out"
	done
	kept "${all[@]}"
	[ "${#all[@]}" -eq "$(grep -c '^== ' tests/recorded)" ]
}

@test "the installed JSON schema permits keys that a later version adds, and the tests' schema rejects them" {
	local pattern object later='"later": 1,' new objects=() extended=()
	for pattern in '"kind": "session".*"min"' '"kind": "check".*"peer": null'; do
		object=$(grep -m 1 "$pattern" tests/recorded)
		objects+=("$object")
		for new in "${object/{/{ $later}" "${object/\"min\"/$later \"min\"}" "${object/\"text\"/$later \"text\"}"; do
			[[ $new = *"$later"* ]] || continue
			extended+=("$new")
		done
	done
	printf '%s\n' "${objects[@]}" | valid_json
	run ! valid_json < <(printf '%s\n' "${extended[@]}")
	[ "$(grep -c "^<stdin>: .*('later' was unexpected)$" <<<"$output")" -eq "${#extended[@]}" ]
	printf '%s\n' "${extended[@]}" | python3 -c 'import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
for line in sys.stdin:
    jsonschema.validate(json.loads(line), schema)' .man/rdma-pair.schema.json
}
