#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The programs on a fake of libibverbs and librdmacm (fake-verbs/fake-verbs.h): calls that fail, and
# orders of events that a real network shows once in a thousand runs. A row is tagged as memory that takes payload or messages
# through it, or frees it in unusual orders: it runs with AddressSanitizer, which takes four times as long.
# shellcheck disable=SC2030,SC2031,SC2154 # bats sets $status, $output and $stderr

load helpers

setup_file() {
	cd "$BATS_TEST_DIRNAME/.." || return
	[ -z "${FAKE_VERBS_PROGRAMS:-}" ] || return 0 # built for another machine: tests/portability
	make -s -f tests/fake-verbs/fake-verbs.mk SANITIZE=address
	make -s -f tests/fake-verbs/fake-verbs.mk SANITIZE=thread
	make -s -f tests/fake-verbs/fake-verbs.mk SANITIZE=none
}

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
	every_build=${FAKE_VERBS_PROGRAMS:-build/fake-verbs/address build/fake-verbs/thread}
	programs=${FAKE_VERBS_PROGRAMS:-build/fake-verbs/none}
	[[ " ${BATS_TEST_TAGS[*]} " != *" memory "* ]] || programs=${every_build% *}
	export ASAN_OPTIONS=exitcode=98 UBSAN_OPTIONS=exitcode=98 TSAN_OPTIONS=exitcode=98
	export FAKE_VERBS_RECORD=$BATS_TEST_TMPDIR/record
}

# calls FUNCTION...: how often the last run called each, with blanks between; "served" are the clients of which all was right.
calls() {
	awk -v functions="$*" '{ count[$1] = $2 }
		END { for (i = 1; i <= split(functions, names, " "); i++) printf("%s%d", (i > 1 ? " " : ""), count[names[i]]) }' \
		"$FAKE_VERBS_RECORD"
}

# said COUNT TEXT: so many lines of standard error have it.
said() {
	[ "$(grep -c -F -e "$2" <<<"$stderr")" -eq "$1" ] || { echo "not $1 times '$2' in $stderr"; return 1; }
}

# untraced COMMAND...: without bats noting each command of the functions that it calls, which takes as long as the run.
untraced() {
	local -
	set +T
	"$@"
}

# fake ROLE SCRIPT [OPTION...]: a run of rdma-ROLE, or of the smallest pair; sets $status, $output and $stderr. Leaks are
# looked for where they add up, in a server that goes on, and in all that a test sets $leaks for: the search takes three
# times as long as the run. A signal that ends it is not ignored because it is where the tests were started, by nohup(1)
# or in the background. The operation of the program is that of the peer, unless $word is set, to another one or to none.
fake() {
	untraced run_fake "$@"
}

run_fake() {
	local operation=read role=$1 script=$2 options=$ASAN_OPTIONS words command=()
	shift 2
	[[ $script != *signal:* ]] || command=(env --default-signal)
	[[ ${leaks:-} || ($role = server && " $* " != *" -1 "*) ]] || options=$options:detect_leaks=0
	[[ " $script " != *" write "* ]] || operation="write"
	case $role in
	smallest-*) command+=("$programs/$role") script="no-hello write $script" ;;
	*)
		read -ra words <<<"${word-$operation}"
		command+=("$programs/rdma-$role" -t 1 "$@" "${words[@]}")
		;;
	esac
	[[ $role != *client ]] || command+=(192.0.2.1 20000)
	ASAN_OPTIONS=$options FAKE_VERBS=$script "${command[@]}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
	read_text output "$BATS_TEST_TMPDIR/out"
	read_text stderr "$BATS_TEST_TMPDIR/err"
	[[ " $* " != *" "@(-J|--json)" "* ]] || expect_json <"$BATS_TEST_TMPDIR/out"
}

# read_text VARIABLE FILE: what stands in the file, without the end of its last line; without a process for that.
read_text() {
	IFS= read -r -d '' "$1" <"$2" || printf -v "$1" '%s' "${!1%$'\n'}"
}

# outcomes [ROLE [OPTION...]]: lines of standard input are, with a tab or two between, role and options, unless given, exit
# status, script, and what standard error says; without that it says nothing.
outcomes() {
	untraced try_outcomes "$@"
}

try_outcomes() {
	local columns command=("$@") expected script text failed=0 count=0
	while IFS=$'\t' read -ra columns; do
		[ $# -gt 0 ] || { read -ra command <<<"${columns[0]}" && columns=("${columns[@]:1}"); }
		expected=${columns[0]} script=${columns[1]:-} text=${columns[2]:-}
		fake "${command[0]}" "$script" "${command[@]:1}"
		count=$((count + 1))
		[ "$status" -eq "$expected" ] && [[ $stderr == *"$text"* ]] && [ "${text:+said}" = "${stderr:+said}" ] && continue
		echo "${command[*]} '$script': exit status $status instead of $expected, it said: $stderr"
		failed=1
	done
	echo "$count runs"
	[ "$failed" -eq 0 ]
}

# counts FUNCTION...: lines of standard input are role and options, exit status, how often each is called, and script.
counts() {
	untraced try_counts "$@"
}

try_counts() {
	local command expected count script failed=0
	while IFS=$'\t' read -r command expected count script; do
		read -ra command <<<"$command"
		fake "${command[0]}" "$script" "${command[@]:1}"
		[ "$status $(calls "$@")" = "$expected $count" ] && continue
		echo "${command[*]} '$script': exit status $status, $* called $(calls "$@") times, it said: $stderr"
		failed=1
	done
	[ "$failed" -eq 0 ]
}

# both [OPTION...]: the same outcomes of a client and of a one-off server.
both() {
	local table
	table=$(cat)
	outcomes client "$@" <<<"$table"
	outcomes server -1 "$@" <<<"$table"
}

# every_way [OPTION...]: the same with each operation over each transport, half of them of a client, half of a server.
every_way() {
	local table
	table=$(cat)
	with_words read client "$@"
	with_words "iwarp write" client "$@"
	with_words write server -1 "$@"
	with_words "iwarp read" server -1 "$@"
}

# with_words WORDS ROLE [OPTION...]: outcomes of $table with these words in each script.
with_words() {
	# shellcheck disable=SC2001 # in each line
	outcomes "${@:2}" < <(sed "s/\t/\t$1 /" <<<"$table")
}

# The same for any build of the programs.
happy_path() {
	local transport operation
	for transport in "" iwarp; do
		for operation in read write; do
			fake client "$transport $operation"
			diff <(transcript client "$operation" "text of the scripted peer") <(echo "$output")
			[ "$status" -eq 0 ]
			[ -z "$stderr" ]
			fake server "$transport $operation" -1
			diff <(transcript server "$operation" "text of the scripted peer" 20000) <(echo "$output")
			[ "$status" -eq 0 ]
			[ -z "$stderr" ]
		done
	done
}

# bats test_tags=memory
@test "both programs, both operations, both kinds of transport: transcripts, exit status 0" {
	local leaks=yes
	happy_path
}

@test "--verbose prints verbs and states on standard error; without it no key and no address of memory is printed" {
	fake client read -v
	[[ $stderr == *"RDMA READ of 1024 bytes"* && $stderr == *"PHASE_EXCHANGING, LOCAL_MR_POSTED"* ]]
	diff <(transcript client read "text of the scripted peer") - <<<"$output"
	[[ $output != *rkey* && $output != *0x* ]]
}

@test "--one-way: the client writes or reads, the server only serves" {
	outcomes client --one-way <<<"0	one-way write"
	[[ $output != *"remote buffer"* ]]
	outcomes server -1 <<<"0	one-way write"
	[[ $output != *"writing message"* && $output == *"remote buffer"* ]]
	outcomes server -1 <<<"0	one-way"
	[[ $output != *"remote buffer"* ]]
}

@test "a server without a word does what the client asks for; one that does not say so is refused, and the server says why" {
	local word="" operation transport
	for operation in read write; do
		for transport in "" iwarp; do
			fake server "$transport $operation" -1
			diff <(transcript server "$operation" "text of the scripted peer" 20000) <(echo "$output")
			[ "$status" -eq 0 ]
			fake server "$transport $operation clients:3 together" -J -n 5
			[ "$(grep -c "\"operation\": \"$operation\", .*\"operations\": 5, .* \"status\": 0" <<<"$output")" -eq 3 ]
		done
		outcomes server -1 -s 9000 <<<"0	$operation one-way ring:1000"
	done
	outcomes server -1 <<-END
	0	tutorial	the client sent no hello, as the tutorial's program, so it does not say whether it reads or writes; start the server with that word
	0	version:3	refused: client and server speak different versions
	END
	fake server "write" -1 -n 5 -f - < <(echo piped)
	[[ $stderr == *"a pipe can be sent once, and --iters or --duration asks for it again"* ]]
	fake server "tutorial" -J
	[[ $output == *'"operation": null'*'"status": 4'* ]]
}

@test "a client that examines the path, and asks for the other operation first, is refused without a word of it" {
	local word transport seconds
	for transport in "" iwarp; do
		word="read" fake server "$transport write check" -J
		[[ $status -eq 0 && $stderr = "listening on port 20000." && $output = *'"kind": "listening"'* && $output != *session* ]]
		word="write" fake server "$transport check"
		[[ $status -eq 0 && -z $stderr && $output = "listening on port 20000." ]]
		word="write" fake server "$transport"
		[[ $stderr == *": refused: mismatched modes, one side reads"* ]]
	done
	for seconds in 1 3; do # but one that measures is served, for as long as it says
		word="read" fake server "write check measures back seconds:$seconds payload:1" -1
		[[ $status -eq 0 && $output =~ wrote\ [0-9]+\ bytes\ in\ [0-9]{3,4}\ operations\ and\ $seconds\. ]]
	done
	word="write" fake server "check fail:rdma_reject:1:22"
	[[ $status -eq 0 && -z $stderr ]]
	word="write" fake server "check fail:rdma_destroy_id:1:16"
	[[ $stderr == "rdma-server: cannot destroy a connection identifier: Device or resource busy" ]]
}

# bats test_tags=memory
@test "long payloads, in many work requests" {
	outcomes <<-END
	client	0	payload:5000 max_msg:64
	client	0	write payload:200000
	client	0	payload:5000 max_msg:64 operation@300
	client	0	iwarp payload:5000 max_msg:64 coalesce
	client -m $(printf '%05000d' 7)	0	write max_msg:64
	server -1	0	payload:5000 max_msg:64
	server -1	0	write payload:5000 max_msg:64 operation@300
	END
	outcomes client -m "" <<<"0	write" # and the shortest
}

# bats test_tags=memory
@test "a client that examines the path gets a pattern as long as what it sends, and nothing of that is stored" {
	local leaks=yes
	outcomes server -1 -m "not this" -o "$BATS_TEST_TMPDIR/none/stored" <<-END
	0	check
	0	write check payload:1
	0	iwarp check payload:200000 ring:5000
	0	write check payload:200000 coalesce
	0	check-short
	0	write check-short iwarp payload:200000
	0	check check-short measures payload:8192 passes:0 seconds:1
	0	write check check-short measures payload:8192 passes:0 seconds:1
	0	write check measures back seconds:1 payload:1
	0	check measures iwarp passes:0 seconds:1 payload:8
	END
	outcomes server -1 --max-size 1K <<<"0	check payload:1025	refused"
}

# The last ones with lists of work requests that are as long as there may be at a time, then shorter, then longer again.
# bats test_tags=memory
@test "many operations, few of whose completions are asked for" {
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
	client -n 300 --depth 48	0	reads:128
	server -1 -n 300 --depth 100	0	write
	server -1 -n 300 --depth 100	0	write coalesce operation@300
	server -1 -n 300 --depth 100	0	reads:128
	server -1 -n 33 --depth 65536	0	write
	server -1 -n 33 --depth 65536	0	iwarp inline:0 payload:5000 max_msg:64
	END
}

@test "--busy-poll asks for no completion event" {
	local role
	for role in client "server -1"; do
		outcomes <<<"$role --busy-poll	0	immediate"
		[ "$(calls ibv_req_notify_cq)" -eq 1 ] # when the queue is created
	done
}

# bats test_tags=memory
@test "completions that keep coming are all handled, whether their events are waited for or not" {
	local script
	for script in immediate "immediate write" "immediate iwarp"; do
		outcomes <<-END
		client -n 1000 --depth 1	0	$script
		client -n 1000 --depth 64 --busy-poll	0	$script
		server -1 -n 1000 --depth 64	0	$script
		server -1 -n 1000 --depth 1 --busy-poll	0	$script
		END
	done
	outcomes client -n 1000 --depth 1 <<<"0	coalesce write"
}

# Rings of different length on both sides, which do not divide each other; the rest is how late things come.
# bats test_tags=memory
@test "streams: any number of bytes through rings of bounded memory" {
	every_way -s 20000 <<-END
	0	payload:30000 ring:3000
	0	payload:500000 memory:300000 request:1000
	0	payload:9001 ring:997 unknown
	0	payload:30000 ring:3000 coalesce
	0	payload:30000 ring:3000 immediate
	0	payload:9000 ring:4097 max_msg:64 late-source
	0	payload:9000 ring:4000 passes:3 every-pass
	0	payload:30000 ring:3000 peer-operation@300 operation@700
	0	payload:30000 ring:3000 received-WINDOW@400
	0	payload:30000 ring:3000 sent-WINDOW@900 inline:0
	0	payload:30000 ring:3000 peer-operation>sent-WINDOW
	0	payload:30000 memory:300000 reads:1 unknown
	END
	every_way -s 300000 <<-END
	0	payload:300000 memory:300000
	0	payload:3000 memory:300000
	END
	every_way -s 9000 -n 5 <<<"0	ring:1000 payload:50 passes:7"
	outcomes <<-END
	client --one-way -s 30000	0	write one-way ring:700
	client --one-way -s 30000	0	iwarp write one-way ring:700
	server -1 -s 30000	0	one-way ring:700
	server -1 -s 30000	0	iwarp one-way ring:700
	END
}

# MSG_DONE overtakes the MSG_WINDOW that would have said it, and comes when all that was ready before has been read.
# bats test_tags=memory
@test "streams: what MSG_DONE alone says to be ready is read, too" {
	local script
	for script in "" iwarp; do
		outcomes <<-END
		client --one-way	0	$script one-way payload:9100 ring:3000 DONE-first received-DONE@100
		client -s 100	0	$script payload:9100 ring:3000 DONE-first received-DONE@100
		server -1 -s 100	0	$script payload:9100 ring:3000 DONE-first received-DONE@100
		END
	done
}

# A hundred MSG_WINDOW behind the verdict of the program, which are confirmed; an older peer's twenty are not.
# bats test_tags=memory
@test "streams: a peer that stores slowly behind MSG_DONE is waited for as long as it moves" {
	every_way -s 100000 <<-END
	0	stores:1000
	0	stores:5000 no-late-windows
	END
	outcomes <<-END
	client --one-way -s 100000	0	write one-way stores:1000
	client --one-way -s 100000	0	iwarp write one-way stores:1000
	server -1 -s 100000	0	one-way stores:1000
	server -1 -s 100000	0	iwarp one-way stores:1000
	END
}

# bats test_tags=memory
@test "streams: --max-size holds for what the hello says, and for an unknown length whose end comes together with MSG_DONE" {
	outcomes client --max-size 1K <<<"4	payload:1025	the server sends 1025 bytes, more than the 1024 that --max-size allows here"
	outcomes server -1 --max-size 8K <<-END
	4	write unknown payload:9000 coalesce	the peer sends more than the 8192 bytes that --max-size allows here
	4	write unknown payload:9000 immediate	the peer sends more than the 8192 bytes that --max-size allows here
	0	write unknown payload:8192 immediate
	END
}

# The peer's adapter takes what the pipe gives, bit by bit, and its program says nothing of it.
# bats test_tags=memory
@test "streams: a pipe that trickles does not keep a session with a peer that stands still" {
	local transport operation silent="99*received-WINDOW! received-DONE! received-VERDICT!"
	for transport in "" iwarp; do
		for operation in read write; do
			outcomes client -f <(yes) <<<"5	$transport $operation trickles:300 $silent until:4000	nothing happened"
			outcomes server -1 -f <(yes) <<<"5	$transport $operation trickles:300 $silent until:4000	nothing happened"
			outcomes client -f <(echo as long as five seconds) <<<"0	$transport $operation trickles:250 from:5000"
			outcomes client -f <(yes) <<<"5	$transport $operation trickles:3000 until:9000	nothing more came of what this side sends"
		done
		outcomes client --one-way -f <(yes) <<-END
		5	$transport write one-way trickles:300 $silent until:4000	nothing happened
		5	$transport write one-way trickles:300 99*received-WINDOW! received-VERDICT! until:4000	nothing happened
		END
	done
}

# bats test_tags=memory
@test "streams: what is damaged on the way is found, what stands still is given up" {
	every_way -s 20000 <<-END
	7	payload:30000 ring:3000 corrupt-in	contents are wrong
	7	payload:30000 ring:3000 corrupt-out	contents are wrong
	5	payload:30000 ring:3000 99*received-WINDOW!	nothing happened
	5	payload:30000 ring:3000 peer-operation!	nothing happened
	5	payload:30000 ring:3000 operation!	nothing happened
	6	payload:30000 ring:3000 received-WINDOW+DISCONNECTED	peer went away
	END
}

# bats test_tags=memory
@test "streams: rings that cannot be deregistered stay mapped" {
	outcomes <<-END
	client -s 500000	0	payload:500000 memory:300000 fail:ibv_dereg_mr:1+:16	cannot deregister 32768 bytes of memory: Device or resource busy
	server -s 500000	0	write clients:2 payload:500000 memory:900000 fail:ibv_dereg_mr:1+:16	bytes of memory: Device or resource busy
	END
}

# bats test_tags=memory
@test "streams: a peer that gives up, at any moment: both sides end, in words" {
	local script step
	for script in "" "iwarp write"; do
		for step in 1 2 5 13; do
			both -s 20000 <<-END
			4	$script payload:30000 ring:3000 gives-up:$step	the peer gave up: it could not read what it sends, or keep what it receives; its own messages
			7	$script payload:30000 ring:3000 finds-wrong:$step	contents are wrong
			END
		done
	done
	both <<<"4	gives-up:7	the peer received the payload and could not store it; its own messages say why"
}

# A helper reads a file that is longer than what is kept in memory, and one stores. A session's thread, or helper, that does
# not start is a reason to refuse a client: the one-off server takes the next one.
# bats test_tags=memory
@test "no memory or no thread for a session, or for a helper: it ends in words, its rings go last" {
	local leaks=yes script=payload:8400000 long=$BATS_TEST_TMPDIR/long reads="cannot start a thread that reads what this side sends"
	local keeps="cannot start to verify, or store, what is received" starts="cannot start a thread for the session"
	local posts="cannot allocate memory for work requests"
	truncate -s 8400000 "$long"
	outcomes client -f "$long" -o "$BATS_TEST_TMPDIR/stored" <<-END
	1	$script fail:calloc:2:12	$reads: Cannot allocate memory
	1	$script fail:eventfd:2:24	cannot open a descriptor for the session: Too many open files
	1	$script fail:eventfd:3:24	$reads: Too many open files
	1	$script fail:pthread_create:3:11	$reads: Resource temporarily unavailable
	1	$script fail:pthread_create:4:11	$starts: Resource temporarily unavailable
	1	$script fail:calloc:3:12	$posts: Cannot allocate memory
	1	$script fail:calloc:4:12	$keeps: Cannot allocate memory
	1	$script fail:pthread_create:5:11	$keeps: Resource temporarily unavailable
	END
	outcomes server -1 -f "$long" -o "$BATS_TEST_TMPDIR/stored" <<-END
	0	write $script clients:2 fail:calloc:2:12	$reads: Cannot allocate memory
	0	write $script clients:2 fail:pthread_create:3:11	$reads: Resource temporarily unavailable
	0	write $script clients:2 fail:pthread_create:4:11	$starts: Resource temporarily unavailable
	1	write $script fail:calloc:3:12	$posts: Cannot allocate memory
	1	write $script fail:calloc:4:12	$keeps: Cannot allocate memory
	1	write $script fail:pthread_create:5:11	$keeps: Resource temporarily unavailable
	END
}

# A client that leaves before it has the answer can close a listener of soft-iWARP.
@test "streams: a client registers no ring before the server answers" {
	local leaks=yes expected script
	while read -r expected script; do
		fake client "$script" -v -s 8388609
		[ "$status" -eq "$expected" ]
		[[ $stderr == *rdma_connect* && $stderr != *"ibv_reg_mr: 8388608 bytes"* ]] ||
			{ echo "$script: $stderr"; return 1; }
	done <<-END
	5	write ESTABLISHED!
	5	iwarp ESTABLISHED!
	4	write refuse:3
	143	iwarp write ESTABLISHED@500 ROUTE_RESOLVED+signal
	4	write tutorial
	END
}

# bats test_tags=memory
@test "streams: a file that cannot be read on, whichever pread(2) it is: both sides end, in words" {
	local operation number file=$BATS_TEST_TMPDIR/file
	truncate -s 9000000 "$file"
	for operation in read write; do
		for number in 1 2 9 35; do
			both -f "$file" <<<"1	$operation fail:pread:$number:5	cannot read '$file': Input/output error"
		done
	done
}

# bats test_tags=memory
@test "streams: what is received cannot be stored, at the beginning, half-way and at the end: nothing is left" {
	local role operation kilobytes folder=$BATS_TEST_TMPDIR/folder
	mkdir "$folder"
	for role in client "server -1"; do
		for operation in read write; do
			for kilobytes in 5 130; do # what the program prints is shorter
				# shellcheck disable=SC2086
				(ulimit -f "$kilobytes" && outcomes $role -o "$folder/file" <<-END
				1	$operation unknown payload:140000 ring:3000	cannot store in '$folder/file': File too large
				END
				)
			done
			# shellcheck disable=SC2086
			outcomes $role -o "$folder/file" <<-END
			1	$operation payload:30000 ring:3000 fail:fsync:1:5	cannot be stored in '$folder/file': Input/output error
			1	$operation payload:30000 ring:3000 fail:linkat:1:13	cannot be stored in '$folder/file': Permission denied
			END
			fake "${role% -1}" "$operation" -o "$folder/none/file"
			[[ $stderr == *"cannot store 1024 bytes in '$folder/none/file': No such file or directory"* ]]
			fake "${role% -1}" "$operation unknown" -o "$folder/none/file"
			[[ $stderr == *"cannot store the incoming payload in '$folder/none/file': No such file or directory"* ]]
			# shellcheck disable=SC2086
			outcomes $role -o /dev/full <<<"1	$operation unknown payload:30000 ring:3000	cannot store in '/dev/full': No space left on device"
			[ "$(count "$folder")" -eq 0 ]
		done
	done
}

# Simulated time: --timeout, and where all is received a second to close. Of 1.7 MB the first MiB is synced meanwhile.
# bats test_tags=memory
@test "a disk that does not answer: the session ends after --timeout, and says what did not move" {
	local side script file=$BATS_TEST_TMPDIR/file stored=$BATS_TEST_TMPDIR/stored
	truncate -s 9000000 "$file"
	for side in "client:read" "client:iwarp write" "server -1:write"; do
		script=${side#*:} side=${side%:*}
		outcomes <<-END
		$side -t 10 -f $file	5	$script pread! from:10000 until:13700	: nothing more came of what this side sends for the time of --timeout
		$side -t 10 -o $stored	5	$script fsync! unknown from:11000 until:14700	: all is received, but storing it did not move for the time of --timeout
		$side -t 10 -o $stored	5	$script payload:1700000 memory:300000 fdatasync! from:10000 until:14000	: storing what is received did not move for
		END
	done
	[ ! -e "$stored" ]
}

# Each type of message, in which a number is wrong. Which rules there are besides is in transfer-test and protocol-test.
# bats test_tags=memory
@test "a peer whose numbers cannot be: the rule that it breaks is reported, status 7" {
	both <<-END
	7	set:mr.ready=+1	the peer's memory region is ready beyond its end: it has 1024 bytes, of which 1025 are ready
	7	set:mr.address=0	the peer's memory region cannot be used: it has 1024 bytes, of which 1024 are ready
	7	lie:mr-twice	contents are wrong
	7	write lie:window-first	the peer's window is out of turn
	7	lie:done-first	contents are wrong
	7	set:done.digest=+1	contents are wrong
	7	write set:done.bytes=+1	the peer is done with other bytes than agreed
	7	lie:verdict-good	contents are wrong
	7	write set:verdict.status=7	contents are wrong
	END
	both -s 20000 <<-END
	7	payload:30000 ring:3000 set:window.taken=+100000	the peer's window takes what was not ready
	7	write payload:30000 ring:3000 set:window.received=+32	the peer's window confirms more windows than were sent
	END
	both -s 500000 <<-END
	7	memory:300000 lie:done-early	the peer is done reading what was not ready
	7	write ring:4096 lie:verdict-soon	the peer judged what this side had not sent yet
	END
}

# A confirmation, or a byte, every 900 ms, and --timeout is a second.
@test "bytes must move: who only confirms is given up in time, who moves a byte a message is waited for" {
	every_way -s 500000 <<-END
	5	payload:500000 machine:1000000 ring:4096 lie:confirm until:1500	nothing happened
	5	payload:500000 machine:1000000 ring:4096 lie:crawl from:9000 until:9700	nothing happened
	END
}

# bats test_tags=memory
@test "a device whose driver leaves a limit out, or states nonsense" {
	local script
	for script in max_msg:0 max_wr:0 max_wr:-1 max_wr:-2147483648 max_wr:2147483647 max_cqe:0 max_cqe:-1 \
		max_cqe:-2147483648 max_cqe:2147483647 max_wr:64 max_cqe:50 max_reads:0 max_reads:-1 max_reads:2147483647; do
		outcomes client -n 3 --depth 65536 <<<"0	$script payload:2000"
		outcomes server -1 -n 3 --depth 65536 <<<"0	$script payload:2000 iwarp write"
	done
}

@test "--depth is halved until the device takes such a queue pair, and --verbose says so" {
	local role blocks inline reason depth attempts sentence
	while read -r blocks inline reason depth attempts; do
		for role in client server; do
			fake $role "write blocks:$blocks inline:$inline $reason" -v -n 3 --depth 1000
			sentence="the device takes no queue pair of depth 1000, only one of $depth"
			echo "$role, $blocks blocks, $inline inline: status $status, $(calls rdma_create_qp) attempts, $stderr"
			[ "$status" -eq 0 ]
			[ "$(calls rdma_create_qp)" -eq "$attempts" ]
			if [ "$depth" -eq 1000 ]; then [[ $stderr != *"the device takes no"* ]]; else [[ $stderr == *"$sentence"* ]]; fi
		done
	done <<-END
	8192 64 einval 1000 1
	4096 64 einval 1000 2
	2048 64 einval 500 4
	1024 0 einval 250 6
	1024 64 enomem 125 4
	64 64 einval 7 15
	32 0 einval 3 18
	END
	outcomes client -n 3 --depth 1000 <<-END
	0	blocks:64 reads:1
	1	blocks:16	rdma_create_qp failed: Invalid argument
	END
	outcomes server -1 <<<$'0\tclients:1 fail:rdma_create_qp:1:12'
}

# A driver that leaves a limit out of a connect request (irdma) has READs served all the same.
@test "no more reads are posted than the peer serves" {
	both -n 100 --depth 128 <<-END
	0	reads:1
	0	reads:3 iwarp payload:5000 max_msg:64
	0	reads:255 coalesce
	0	reads:0 write
	END
	both <<-END
	0	asks:1
	0	asks:1 iwarp
	0	asks:0 iwarp
	0	asks:0 write
	END
	outcomes <<-END
	client	4	reads:0	serves no RDMA READ
	server	0	reads:0	serves no RDMA READ
	END
}

# bats test_tags=memory
@test "a peer that follows the tutorial" {
	outcomes <<-END
	client	0	tutorial
	client	0	tutorial write
	client	0	tutorial iwarp
	client	0	tutorial iwarp sent-DONE=2
	server -1	0	tutorial
	server -1	0	tutorial write iwarp
	server -1	0	tutorial iwarp sent-DONE=2
	server -1	0	tutorial write iwarp sent-DONE=2
	server -1	0	tutorial write iwarp sent-DONE>received-DONE sent-DONE=2
	server -1	0	tutorial write iwarp sent-DONE=2 DISCONNECTED>sent-DONE
	server -1	6	tutorial write iwarp sent-DONE=5	peer went away
	server -1	1	tutorial write sent-DONE=2	MSG_DONE failed
	END
}

# bats test_tags=memory
@test "a peer that follows the tutorial gets a text of 1023 bytes, and nothing else; what it sends is not stored" {
	local longest stored=$BATS_TEST_TMPDIR/stored
	longest=$(printf 'x%.0s' {1..1023})
	outcomes <<-END
	client -m $longest	0	tutorial
	server -1 -m $longest	0	tutorial write
	client -m ${longest}x	4	tutorial write	exchanges 1024 bytes both ways and nothing else
	server -m ${longest}x	0	tutorial	exchanges 1024 bytes both ways and nothing else
	client -s 100	4	tutorial write	the peer sent no hello
	server -s 100	0	tutorial	the peer sent no hello
	client --one-way	4	tutorial write	the peer sent no hello
	client -o $stored	4	tutorial write	the peer sent no hello, so nothing that it sends can be verified
	server -o $stored	0	tutorial	the peer sent no hello, so nothing that it sends can be verified
	END
	[ ! -e "$stored" ]
}

# bats test_tags=memory
@test "a damaged byte is found, in either direction, by either program" {
	every_way <<-END
	7	corrupt-in	contents are wrong
	7	corrupt-out	contents are wrong
	END
}

@test "what is shown is all that came, damaged or of unknown length, and nothing of what did not all come" {
	local script
	for script in "" corrupt-in "unknown payload:9001" "write unknown payload:9001"; do
		fake client "$script"
		[[ $output == *"remote buffer: "* ]]
		fake server "$script" -1
		[[ $output == *"remote buffer: "* ]]
	done
	fake client "write unknown payload:30000 gives-up:3"
	[ "$status" -eq 4 ]
	[[ $output != *"remote buffer"* ]]
}

# bats test_tags=memory
@test "what is shown is what was verified, whatever the peer still writes" {
	local role transport
	for role in client "server -1"; do
		for transport in "" iwarp; do
			outcomes <<<"$role	0	$transport write scribble"
			[[ $output == *"remote buffer: text of the scripted peer"* ]]
		done
	done
}

# bats test_tags=slow
@test "every call of the client fails" {
	FAKE_VERBS_PROGRAMS=$programs tests/fake-verbs/faults client "" read
	tests/fake-verbs/faults client "iwarp write payload:3000 max_msg:64" write # many work requests
}

# bats test_tags=slow
@test "every call of a one-off server fails" {
	FAKE_VERBS_PROGRAMS=$programs tests/fake-verbs/faults one-off "iwarp" read
}

# bats test_tags=slow
@test "every call of a server fails, it goes on serving, also one whose device goes and comes back" {
	leaks=yes tests/fake-verbs/faults server "write" write
	# of these calls those that follow the device's leaving: each waits, or takes down
	leaks=yes tests/fake-verbs/faults server "DISCONNECTED+leave leave@100 leave+return return@500" read \
		'@(*destroy*|*dealloc*|*dereg*|munmap|read|poll|epoll_*|rdma_*|ibv_get_*)'
}

# From some call on: the sessions end all the same, and nothing spins.
@test "a main thread that cannot wait any more says so once, and why" {
	local role number
	for role in client server; do
		for number in 2 3 4; do
			fake "$role" "fail:epoll_wait:$number+:22"
			[ "$status" -eq 1 ]
			said 1 "cannot wait for events: Invalid argument"
		done
	done
}

@test "a driver that gives no reason" {
	outcomes client <<-END
	1	no-cq	ibv_create_cq failed: the driver gives no reason
	1	fail:ibv_poll_cq:1:5	ibv_poll_cq failed
	1	fail:ibv_poll_cq:1+:5	ibv_poll_cq failed
	1	fail:ibv_poll_cq:8+:5	ibv_poll_cq failed
	END
}

# bats test_tags=memory
@test "what was posted of a list that is refused half-way comes back" {
	local number
	for number in {1..9}; do
		fake client "write max_msg:64 fail:ibv_post_send:$number:12" -v -n 5 --depth 3
		[ "$status" -eq 1 ]
		[[ $stderr == *"ibv_post_send failed"* ]]
		[[ $stderr != *"never completed"* ]] || { echo "$number: $stderr"; return 1; }
	done
}

# bats test_tags=memory
@test "completions in unusual orders" {
	outcomes client <<-END
	0	sent-MR>received-MR
	0	received-MR>sent-MR
	0	sent-MR>received-DONE
	0	sent-DONE>received-VERDICT
	0	sent-VERDICT>flush
	0	received-VERDICT>sent-VERDICT
	0	sent-MR+spurious received-DONE+spurious
	0	coalesce
	0	coalesce sent-MR>received-DONE operation+spurious
	0	coalesce write iwarp
	END
	outcomes server -1 <<-END
	0	ESTABLISHED>received-MR
	0	ESTABLISHED>sent-DONE
	0	ESTABLISHED!
	0	received-DONE>sent-DONE
	0	sent-MR>received-DONE
	0	sent-DONE>received-VERDICT
	0	coalesce
	0	coalesce received-MR+spurious iwarp
	END
}

# bats test_tags=memory
@test "disconnections at odd times" {
	outcomes client <<-END
	0	flush>DISCONNECTED
	0	DISCONNECTED>flush
	0	DISCONNECTED@600
	0	DISCONNECTED!
	0	flush@9000
	0	received-VERDICT+TIMEWAIT_EXIT
	0	ESTABLISHED+TIMEWAIT_EXIT
	0	DISCONNECTED+TIMEWAIT_EXIT
	6	sent-MR+DISCONNECTED	peer went away
	6	iwarp sent-MR+DISCONNECTED	peer went away
	6	received-DONE+DISCONNECTED received-VERDICT!	peer went away
	7	repeat-DONE received-DONE>sent-DONE received-DONE+DISCONNECTED	contents are wrong
	7	slow-events coalesce payload:30000 ring:3000 set:window.received=+32 received-WINDOW+DISCONNECTED	the peer's window confirms more windows
	0	operation+DISCONNECTED
	6	operation+DISCONNECTED received-VERDICT!	peer went away
	6	iwarp write operation+DISCONNECTED received-VERDICT!	peer went away
	END
	outcomes server -1 <<-END
	0	tutorial write operation>DISCONNECTED
	0	sent-VERDICT>DISCONNECTED
	0	received-VERDICT>DISCONNECTED
	0	iwarp sent-VERDICT>DISCONNECTED
	0	iwarp received-VERDICT>DISCONNECTED
	0	DISCONNECTED!
	0	DISCONNECTED@600
	0	DISCONNECTED+TIMEWAIT_EXIT
	7	repeat-DONE received-DONE>sent-DONE received-DONE+DISCONNECTED	contents are wrong
	7	write repeat-DONE received-DONE>sent-DONE received-DONE+DISCONNECTED	contents are wrong
	7	slow-events coalesce lie:window-first received-WINDOW+DISCONNECTED	the peer's window is out of turn
	7	slow-events coalesce write ring:100 set:window.received=+32 received-WINDOW+DISCONNECTED	the peer's window confirms more windows
	6	ESTABLISHED+DISCONNECTED	peer went away
	6	iwarp ESTABLISHED+DISCONNECTED received-MR>DISCONNECTED	peer went away
	6	received-MR+DISCONNECTED	peer went away
	6	iwarp received-MR+DISCONNECTED	peer went away
	6	received-VERDICT!	peer went away
	END
}

# bats test_tags=memory
@test "a connection may be freed as soon as its last completion event is acknowledged" {
	outcomes <<-END
	client	0	slow-events coalesce DISCONNECTED@600 DISCONNECTED+spurious
	client	0	slow-events coalesce iwarp write DISCONNECTED@600 DISCONNECTED+spurious
	server -1	0	slow-events coalesce DISCONNECTED@600 DISCONNECTED+spurious
	END
}

# endings ROLE: lines of standard input are exit status, milliseconds until the program ends, give or take 50, and script.
endings() {
	local expected time script text
	while read -r expected time script; do
		text=rdma-
		[ "$expected" -ne 3 ] || text="not resolved in time"
		[ "$expected" -ne 5 ] || text="nothing happened"
		[ "$expected" -ne 0 ] || text=
		printf '%s\t%s%s\n' "$expected" "$script from:$((time - 50)) until:$((time + 50))" "${text:+$'\t'$text}"
	done | outcomes "$1" -t 10 "${@:2}"
}

# --timeout for each thing that the peer owes; then a second to close, and where nothing is flushed another by force.
@test "each ending takes the time that it should" {
	endings client <<-END
	0	60	write
	3	10000	ADDR_RESOLVED!
	3	10000	ROUTE_RESOLVED!
	5	10000	ESTABLISHED!
	5	12000	sent-MR!
	5	12270	operation!
	5	12270	iwarp operation!
	5	12270	iwarp operation! DISCONNECTED!
	5	10030	write payload:3000 max_msg:64 operation!
	5	12270	sent-DONE!
	5	10030	received-DONE! received-VERDICT!
	5	10030	received-VERDICT!
	5	12030	received-VERDICT! flush@90000
	0	18030	ESTABLISHED@9000 received-MR@9000
	0	18030	sent-MR@9000 operation@9000
	0	18030	received-DONE@9000 received-VERDICT@18000
	5	10030	payload:30000 ring:3000 99*received-WINDOW!
	0	12030	sent-VERDICT! received-VERDICT>sent-DONE
	0	1030	lazy-flush
	0	2030	flush@90000
	0	10030	DISCONNECTED!
	0	11030	DISCONNECTED! flush@90000
	6	2020	sent-MR+DISCONNECTED flush@90000
	6	2030	received-DONE+DISCONNECTED received-VERDICT! flush@90000
	143	2030	sent-MR+signal flush@90000
	143	1020	sent-MR+signal DISCONNECTED!
	6	2030	operation=12 flush@90000
	0	4040	2*ADDR_RESOLVED=ADDR_ERROR:-110
	END
	endings client --depth 1 -n 4 <<<$'0\t16030\t4*operation@4000'
	endings client <<<$'5\t11030\ttutorial DISCONNECTED!'
	endings server -1 <<<$'5\t11030\ttutorial write DISCONNECTED!'
	endings server -1 <<-END
	5	10020	received-MR!
	5	10020	iwarp received-MR!
	5	12020	sent-MR!
	5	12270	iwarp operation!
	5	11020	received-DONE! received-VERDICT! DISCONNECTED!
	5	12270	sent-DONE! flush@90000 DISCONNECTED!
	0	1030	lazy-flush
	0	20030	DISCONNECTED!
	0	21030	DISCONNECTED! flush@90000
	143	2030	sent-MR+signal flush@90000
	END
}

@test "the connection manager says no" {
	outcomes client -B 192.0.2.2 <<-END
	3	fail:getaddrinfo:1:1	cannot resolve the host name '192.0.2.1': Temporary failure in name resolution
	3	fail:getaddrinfo:1:24	cannot resolve the host name '192.0.2.1': Too many open files
	3	fail:getaddrinfo:2:24	cannot resolve --bind '192.0.2.2': Too many open files
	END
	outcomes server <<<"3	fail:getaddrinfo:1:24	cannot resolve --bind 'any': Too many open files"
	outcomes client <<-END
	3	ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	3	ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
	3	ROUTE_RESOLVED=ROUTE_ERROR:-22	cannot resolve the route: Invalid argument
	5	ESTABLISHED=UNREACHABLE:-110	UNREACHABLE
	6	ESTABLISHED=UNREACHABLE:-113	No route to host
	6	ESTABLISHED=CONNECT_ERROR:-5	CONNECT_ERROR
	4	fail:rdma_connect:1:111	cannot connect: Connection refused; is rdma-server running there, on that port?
	4	fail:rdma_connect:1:113	cannot connect: No route to host; is rdma-server running there, on that port?
	4	fail:rdma_connect:1:13	cannot connect: Permission denied; is rdma-server running there, on that port?
	5	fail:rdma_connect:1:110	no answer to the connect request
	1	fail:rdma_connect:1:99	cannot connect: Cannot assign requested address; an earlier connection still holds the port
	1	fail:rdma_connect:1:12	cannot connect: Cannot allocate memory; is memory short here, or does a program listen there
	1	fail:rdma_connect:1:22	cannot connect: Invalid argument
	4	ESTABLISHED=REJECTED:28	connection rejected (status 28), no reason arrived: a program listens there, but
	4	ESTABLISHED=REJECTED:4	connection rejected (status 4), no reason arrived
	4	iwarp ESTABLISHED=REJECTED:-104	connection rejected (status -104), no reason arrived
	4	refuse:255	connection rejected (nobody listens); is rdma-server running there, on that port?
	4	iwarp refuse:255	connection rejected: nobody listens there, or a program that is no rdma-server
	4	refuse:1	version
	4	write refuse:2	mismatched modes
	4	refuse:3	the server refused: the client sends nothing, or more than
	4	iwarp refuse:4	out of resources for another session; try again later
	4	refuse:4 lacks:1	the server is busy: it has as many sessions as it takes; try again later
	4	refuse:4 lacks:2	the server refused: the server is out of memory for another session
	4	iwarp refuse:4 lacks:3	the server cannot store what it would receive
	7	version:1	does not fit: version 1
	7	version:3	does not fit: version 3
	4	version:1 refuse:1	different versions of the protocol
	4	iwarp version:1 refuse:1	different versions of the protocol
	1	ROUTE_RESOLVED+DEVICE_REMOVAL	removed
	1	sent-MR+DEVICE_REMOVAL	removed
	1	sent-MR+DISCONNECTED DISCONNECTED+DEVICE_REMOVAL	removed
	3	no-device	cannot find an RDMA device: No such device; is there an RDMA device
	3	fail:rdma_create_event_channel:1:19	connection manager: No such device; is there an RDMA device
	3	fail:rdma_create_event_channel:1:13	Permission denied; may this user open the files in /dev/infiniband?
	3	fail:rdma_create_event_channel:1:1	Operation not permitted; may this user open the files in /dev/infiniband?
	1	fail:rdma_create_event_channel:1:24	raise the limit ('ulimit -n')
	0	ADDR_RESOLVED+ADDR_CHANGE
	0	sent-MR+UNREACHABLE:-110
	0	received-DONE+UNREACHABLE:-110
	5	sent-MR+UNREACHABLE:-110 received-VERDICT!	nothing happened
	6	ESTABLISHED+REJECTED:28	went away
	6	ESTABLISHED+REJECTED:28 DISCONNECTED!	went away
	6	addresses:192.0.2.1,192.0.2.3 sent-MR+REJECTED:28	went away
	0	received-VERDICT+REJECTED:28
	143	addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal signal+REJECTED:28	interrupted before
	END
	outcomes server -1 <<-END
	5	ESTABLISHED=UNREACHABLE:-110	UNREACHABLE
	6	ESTABLISHED=CONNECT_ERROR:-5	CONNECT_ERROR
	1	ESTABLISHED+DEVICE_REMOVAL	removed
	END
	outcomes server <<-END
	0	version:1	refused: client and server speak different versions of the protocol
	0	iwarp version:1	refused: client and server speak different versions of the protocol
	0	version:3	refused: client and server speak different versions of the protocol
	END
}

@test "a neighbour that does not answer is asked again, within the timeout" {
	outcomes client -t 10 <<-END
	0	2*ADDR_RESOLVED=ADDR_ERROR:-110
	3	9*ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	END
}

# path SCRIPT [OPTION...]: a run of --check, with $port as PORT if that is set, with $address instead of one; sets $status and $output.
path() {
	local script=$1
	shift
	# shellcheck disable=SC2086 # a number, or none
	FAKE_VERBS=$script "$programs/rdma-client" "$@" --check ${address-192.0.2.1} ${port:-} \
		>"$BATS_TEST_TMPDIR/out" 2>&1 && status=0 || status=$?
	output=$(<"$BATS_TEST_TMPDIR/out")
	echo "$script $*: status $status, $output"
	[[ " $* " != *" --json "* ]] || expect_json <<<"$output"
}

# paths [OPTION...]: lines of standard input are exit status, script, and a pattern that stands in what --check prints.
paths() {
	local expected script text failed=0
	while IFS=$'\t' read -r expected script text; do
		path "$script" "$@"
		# shellcheck disable=SC2053 # a pattern
		[ "$status" -eq "$expected" ] && [[ $output == *$text* ]] && { [ "$status" -eq 0 ] || [[ $output != *Ready* ]]; } && continue
		echo "instead of status $expected, and '$text'"
		failed=1
	done
	[ "$failed" -eq 0 ]
}

@test "--check: a neighbour that does not answer is asked again, for the seconds of --timeout" {
	paths <<-END
	0	read
	0	2*ADDR_RESOLVED=ADDR_ERROR:-110
	3	ROUTE_RESOLVED=ROUTE_ERROR:-110	route     not resolved: Connection timed out
	END
	paths -t 1 <<<"3	ADDR_RESOLVED=ADDR_ERROR:-110"
	paths -t 9 <<-END
	3	5*ADDR_RESOLVED=ADDR_ERROR:-110	address   not resolved: Connection timed out
	0	4*ADDR_RESOLVED=ADDR_ERROR:-110
	END
	[ "$(calls rdma_resolve_addr)" -eq 5 ]
}

# found EXPECTED-STATUS SCRIPT [OPTION...]: that and no other is what --check prints, line for line: standard input.
found() {
	path "memory:9000000 $2" "${@:3}"
	[ "$status" -eq "$1" ]
	diff - <(echo "$output")
}

@test "--check: all that it prints of a path, line for line" {
	local port="" modest gid="GID 5 (::ffff:192.0.2.2, RoCE v2, lo)"
	local memory="8789 KiB may be locked: the rings of longer payloads are made to fit"
	local lossless="lossless  lo: type of service 0; its driver tells nothing of PFC and ECN"
	modest="for more, raise it ('ulimit -l', or memlock in /etc/security/limits.conf)"
	found 0 "" <<-END
		device    double0 port 1: RoCE, active, MTU 4096 of 4096 bytes
		name      '192.0.2.1' is 192.0.2.1
		address   resolved: from 192.0.2.2 by double0 port 1, $gid
		route     resolved, MTU of the path 4096 bytes
		$lossless
		memory    $memory
		  -> $modest
		Ready. Start 'rdma-server read' on the other host, then here:
		  rdma-client read 192.0.2.1 PORT
	END
	found 0 "iwarp mtu:3" <<-END
		device    double0 port 1: iWARP, active
		name      '192.0.2.1' is 192.0.2.1
		address   resolved: from 192.0.2.2 by double0 port 1
		route     resolved
		memory    $memory
		  -> $modest
		Ready. Start 'rdma-server read' on the other host, then here:
		  rdma-client read 192.0.2.1 PORT
	END
	found 3 "down mtu:1 addresses:192.0.2.1,192.0.2.3,192.0.2.5 2*ADDR_RESOLVED=ADDR_ERROR:-99" <<-END
		device    double0 port 1: RoCE, not active, MTU 256 of 4096 bytes
		  -> it carries nothing; plug the cable in, set the network interface up ('ip link'), or start the subnet manager of InfiniBand
		name      '192.0.2.1' is 192.0.2.1
		address   not resolved: Cannot assign requested address
		  -> give --bind an address of this host ('ip address')
		name      '192.0.2.1' is 192.0.2.3
		address   not resolved: Cannot assign requested address
		  -> give --bind an address of this host ('ip address')
		name      '192.0.2.1' is 192.0.2.5
		address   resolved: from 192.0.2.2 by double0 port 1, $gid
		route     resolved, MTU of the path 256 bytes
		$lossless
		memory    $memory
		  -> $modest
	END
}

# What Linux has of adapters is host-test's; here is none, and nothing is resolved.
@test "--check without ADDRESS: the devices, and what memory each can register; the exit status says what stops" {
	local address="" port="" memory="memory    8789 KiB may be locked: the rings of longer payloads are made to fit"
	[ -z "$(ls -A /sys/class/infiniband 2>/dev/null)" ] || skip "this machine has RDMA devices of its own"
	found 0 "" <<-END
		device    double0 port 1: RoCE, active, MTU 4096 of 4096 bytes
		$memory
		  -> for more, raise it ('ulimit -l', or memlock in /etc/security/limits.conf)
		Ready. Examine the path to another host next:
		  rdma-client --check ADDRESS
	END
	paths <<-END
	0	fail:getaddrinfo:1:1	Ready
	0	fail:rdma_create_id:1:12	Ready
	3	no-device	device    none?  -> *rdma link add rdma0 type rxe netdev eth0
	3	fail:rdma_get_devices:1:24	device    none: Too many open files
	3	down	device    double0 port 1: RoCE, not active
	3	no-gids	all of its GIDs are zero
	3	no-gids memory:8192	all of its GIDs are zero
	1	memory:8192	memory    12 KiB, which a session needs, cannot be registered
	1	fail:ibv_alloc_pd:1:12	memory    12 KiB, which a session needs, cannot be registered
	0	unbound memory:8388608	memory    may be locked without limit
	END
	path "down" --json
	[ "$status" -eq 3 ]
	[[ $output == *'"peer": null'*'"error": "device: double0 port 1'* ]]
}

# bats test_tags=memory
@test "--check: as many ports as a device can have" {
	local port=""
	path "ports:255"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^device    double0 port [0-9]*: RoCE, active' <<<"$output")" -eq 255 ]
}

# The smallest session has a page of messages and one for each ring; a limit that does not bind is none.
@test "--check: not ready where no session can register its memory: status 1; what binds is what is reported" {
	local port="" needs="memory    12 KiB, which a session needs, cannot be registered: Cannot allocate memory"
	local advice="  -> raise it ('ulimit -l', or memlock in /etc/security/limits.conf)"
	paths <<-END
	1	memory:0	$needs; 0 KiB may be locked*$advice
	1	memory:4096	$needs; 4 KiB may be locked*$advice
	1	memory:8192	$needs; 8 KiB may be locked*$advice
	0	memory:12288	memory    12 KiB may be locked: the rings of longer payloads are made to fit
	1	fail:ibv_alloc_pd:1:12	$needs
	0	unbound memory:8388608	memory    may be locked without limit
	END
	outcomes client <<-END
	1	memory:0	cannot register
	1	memory:4096	cannot register
	1	memory:8192	cannot register
	0	memory:12288
	END
	port=20000 path "memory:8192"
	[ "$status" -eq 1 ]
	[[ $output != *server* ]]
}

@test "--check --json: the error says why the status is not 0" {
	local port="" script
	for script in down fail:getaddrinfo:1:1 memory:8192 no-gids "ADDR_RESOLVED=ADDR_ERROR:-19" "fail:rdma_get_devices:1:24"; do
		path "$script" --json
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[2])
assert outcome["status"] == int(sys.argv[1]) != 0, outcome
findings = [finding["text"] for key in outcome if type(outcome[key]) is list for finding in outcome[key] if finding["status"] != "ok"]
assert any(text in outcome["error"] for text in findings), outcome' "$status" "$output"
	done
	path "" --json
	[[ $output == *'"error": null'* ]]
}

@test "--check: each call that fails has a finding, status 3, and advice; what could be better is advised" {
	local port="" few="  -> more open files have to be allowed: raise the limit ('ulimit -n')"
	paths -B 192.0.2.2 <<-END
	3	fail:getaddrinfo:1:1	name      '192.0.2.1' not resolved: Temporary failure in name resolution
	3	fail:getaddrinfo:1:24	name      '192.0.2.1' not resolved: Too many open files
	3	fail:getaddrinfo:2:1	address   not resolved: cannot connect from '192.0.2.2': Temporary failure in name resolution
	3	fail:rdma_create_id:1:12	address   not resolved: cannot use the connection manager: Cannot allocate memory
	3	fail:rdma_create_id:1:24	cannot use the connection manager: Too many open files*$few
	3	fail:ibv_query_device:1:5	device    double0: cannot be queried: Input/output error
	3	fail:ibv_query_port:1:5	device    double0 port 1: cannot be queried: Input/output error
	3	fail:rdma_get_devices:1:19	device    none*rdma link add rdma0 type rxe netdev eth0
	3	fail:rdma_get_devices:1:24	device    none: Too many open files*$few
	3	no-device	device    none
	0	mtu:3 memory:67108864	MTU 1024 of 4096 bytes?  -> larger packets are faster*65536 KiB may be locked: the rings of longer payloads are made to fit?Ready
	END
}

@test "--check --tos: the path has that type of service; over iWARP nobody asks for it" {
	local port=""
	paths --tos 0x68 <<-END
	0	read	lossless  lo: type of service 104; its driver tells nothing of PFC and ECN?memory
	0	iwarp	route     resolved?memory
	3	fail:rdma_set_option:1:12	address   not resolved: cannot set --tos: Cannot allocate memory
	END
	port=20000
	paths --tos 0x68 <<-END
	0	check payload:1048576	type of service 104;*Ready. All sizes arrived
	1	check fail:rdma_set_option:2:12	cannot set --tos: Cannot allocate memory
	END
}

# A GID may be of no network interface that is known; a link-local address names its own.
@test "--check: the GID is the one that the connection would use, with its type and network interface; without one, status 3" {
	local port=""
	paths <<-END
	0	read	from 192.0.2.2 by double0 port 1, GID 5 (::ffff:192.0.2.2, RoCE v2, lo)
	0	roce-v1	, GID 4 (::ffff:192.0.2.2, RoCE v1)?  -> RoCE v1 passes no router
	0	roce-v1 addresses:fe80::1%lo	, GID 5 (::ffff:192.0.2.2, RoCE v1, lo)
	3	no-gids	-> all of its GIDs are zero: 
	0	no-gids iwarp
	0	iwarp	by double0 port 1
	END
	[[ $output != *GID* ]]
}

# bats test_tags=memory
@test "--check with PORT: sessions until one fails, whose end is the exit status" {
	local port=20000
	paths -t 1 <<-END
	0	check payload:1048576	Ready. All sizes arrived in both directions, verified.
	0	check payload:1048576 iwarp coalesce	Ready. All sizes arrived in both directions, verified.
	0	check payload:1048576	rate      not measured: the server is of an older release, which cannot
	0	check payload:1048576 measures immediate	latency   a READ of 8 bytes takes *99th percentile of 1000)
	0	write check payload:1048576 measures immediate iwarp set:verdict.bytes=9000000	latency   a READ of 8 bytes takes *99th percentile of 1000)
	4	read	the server does not know --check with PORT
	4	tutorial	the server does not know --check with PORT
	4	check refuse:2	mismatched modes
	0	check payload:1048576 3*accept=busy from:300	Ready. All sizes arrived in both directions, verified.
	0	check payload:1048576 3*accept=busy lacks:1 from:300	Ready. All sizes arrived in both directions, verified.
	4	check refuse:4 from:900 until:1000	with 1 byte: the server refused: the server is out of resources
	4	check refuse:4 lacks:1 from:900 until:1000	with 1 byte: the server refused: the server is busy
	4	check refuse:4 lacks:3 until:99	with 1 byte: the server refused: the server cannot store what it would receive
	143	check 2*accept=busy REJECTED+signal until:99	memory
	5	check ESTABLISHED!	-> the host answers, but not its RDMA connection manager: open UDP port 4791
	5	check iwarp ESTABLISHED!	-> the host answers, but not this TCP port
	5	check received-VERDICT!	transfer  1 byte: client to server arrived, server to client verified: nothing
	5	check sent-MR!	-> not a byte passes in one direction at least
	6	check operation=12	transfer  1 byte: client to server not known, server to client not known: RDMA READ failed
	7	check corrupt-in	transfer  1 byte: client to server verified, server to client arrived: the contents are wrong
	143	check sent-MR+signal	interrupted
	143	check payload:1048576 DISCONNECTED+signal	transfer  1 byte: client to server verified, server to client verified
	1	check fail:rdma_create_event_channel:1:24	cannot open the RDMA connection manager: Too many open files
	1	check fail:rdma_create_id:2:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	1	check fail:rdma_create_id:3:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	END
}

@test "--check with PORT: a server in either mode, and how far each direction came" {
	local port=20000 transfer="?transfer  1 byte: client to server"
	paths -t 1 <<-END
	5	check operation!	$transfer arrived, server to client failed: nothing happened
	5	check received-DONE! received-VERDICT!	$transfer failed, server to client arrived: nothing happened
	5	check write operation!	$transfer failed, server to client arrived: nothing happened
	5	check write received-VERDICT!	$transfer arrived, server to client verified: nothing happened
	5	check write received-DONE! received-VERDICT!	$transfer arrived, server to client failed: nothing happened
	5	check write iwarp received-DONE! received-VERDICT!	$transfer not known, server to client not known: nothing happened
	END
	[[ $output == *$'\n'"server    192.0.2.1 port 20000: rdma-server write"$'\n'* ]]
}

# bats test_tags=memory
@test "--check with PORT: which sizes are tried, and all of them anew with the next address" {
	local port=20000 script sizes
	while IFS=$'\t' read -r script sizes; do
		path "check payload:1048576 $script" -t 1
		[ "$status" -eq 0 ]
		# shellcheck disable=SC2086 # a line each
		diff <(printf '%s bytes: client to server verified, server to client verified\n' $sizes | sed '1s/bytes/byte/') \
			<(sed -n 's/^transfer  //p' <<<"$output")
	done < <(tr -s '\t' <<-END
	mtu:0	1 65536 1048576
	mtu:3 addresses:192.0.2.1,192.0.2.3 ESTABLISHED!	1 1023 1024 1025 65536 1048576
	END
	)
	[[ $output == *"server    192.0.2.1 port 20000: with 1 byte: nothing happened"* ]]
	[[ $output == *$'\n'"server    192.0.2.3 port 20000: rdma-server read, GID ::ffff:192.0.2.3"$'\n'* ]]
}

# bats test_tags=memory
@test "--check with PORT: the server's device is named, and nothing in the name reaches a terminal" {
	local port=20000
	path $'check payload:1048576 device:peer\e[7m-with-a-long-name'
	[ "$status" -eq 0 ]
	[[ $output == *"rdma-server read, device peer\\x1b[7m-with-a, "* ]]
	path "check payload:1048576 iwarp device:peer0" --json
	[[ $output == *'"device": "peer0"'* ]]
	path "check payload:1048576" --json
	[[ $output == *'"device": null'* ]]
}

# One domain is for the memory, 7 sessions are of a size each, 5 over iWARP. That one is slow check-test says.
# bats test_tags=memory
@test "--check with PORT, --connections: each by its source port; one that fails is named, and is the exit status" {
	local port=20000 script number='[0-9]+\.[0-9]{3} Gbit/s'
	path "check payload:1048576 measures immediate" --connections 3
	[ "$status" -eq 0 ]
	[ "$(grep -E -c "^path      source port 499[0-9]{2}: client to server $number, server to client $number$" <<<"$output")" -eq 3 ]
	path "check payload:1048576 fail:ibv_alloc_pd:10:12" --connections 3 --duration 0
	[ "$status" -eq 1 ]
	[ "$(grep -c '^path      source port 499[0-9]*: verified in both directions$' <<<"$output")" -eq 2 ]
	grep -x 'path      source port not known: ibv_alloc_pd failed: Cannot allocate memory' <<<"$output"
	path "check payload:1048576 fail:rdma_create_id:11:24" --connections 3 --duration 0
	[ "$status" -eq 1 ]
	[ "$(grep -c '^path      source port 499[0-9]*: verified in both directions$' <<<"$output")" -eq 2 ]
	grep -x 'rdma-client: cannot create a connection identifier: Too many open files' <<<"$output"
	for script in "fail:rdma_connect:9:101" "iwarp fail:rdma_connect:7:101"; do
		path "check payload:1048576 $script" --connections 3 --duration 0 --json
		[ "$status" -eq 4 ]
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
failed, = [path for path in outcome["path"] if path["status"] == "failed"]
assert failed["text"].endswith(outcome["error"]), outcome' "$output"
	done
}

# bats test_tags=memory
@test "device events: those of the connection end it, others do not" {
	local type
	for type in 0 1; do # CQ_ERR QP_FATAL
		both <<<"1	sent-MR+async:$type	double0 reports: device event $type"
	done
	for type in 2 3; do # QP_REQ_ERR QP_ACCESS_ERR: what the peer asked for
		both <<<"7	sent-MR+async:$type	the peer sent RDMA device double0 a request that it cannot accept: device event $type"
	done
	for type in 4 9 10 17 18; do # COMM_EST PORT_ACTIVE PORT_ERR CLIENT_REREGISTER GID_CHANGE
		both <<<"0	sent-MR+async:$type"
	done
	outcomes client <<-END
	1	sent-MR+async:1 fail:ibv_get_async_event:1:4	device event 1
	1	sent-MR+async:1 fail:ibv_get_async_event:1:11	device event 1
	0	sent-MR+async:1 fail:ibv_get_async_event:1:5
	END
}

# The smallest pair includes nothing of this project. A server's client that sends no hello leaves the disconnecting to it,
# unless it is the tutorial's.
# bats test_tags=memory
@test "the smallest pair: both programs, both kinds of transport" {
	local role script
	for role in smallest-client smallest-server; do
		for script in "" iwarp coalesce "coalesce iwarp" "operation@300" "iwarp received-MR@5000" "received-DONE@5000" \
			"2*ESTABLISHED+UNREACHABLE:-110" tutorial "tutorial iwarp" "tutorial coalesce" "tutorial coalesce iwarp" \
			"tutorial DISCONNECTED@500"; do
			outcomes "$role" <<<"0	$script"
			[ "${output##*$'\n'}" = "remote buffer: text of the scripted peer" ]
		done
	done
	[ "${output%%$'\n'*}" = "listening on port 20000." ]
}

# Its last message has arrived, or the client would not have left.
@test "the smallest server does not wait for its own completion if the client leaves" {
	outcomes smallest-server <<-END
	0	tutorial sent-DONE@500
	0	tutorial iwarp sent-DONE@500
	END
}

@test "the smallest pair fails if its output is lost" {
	local arguments
	for arguments in "client 192.0.2.1 20000" server; do
		run sh -c "FAKE_VERBS='no-hello write abandons' $programs/smallest-$arguments >/dev/full"
		[ "$status" -eq 1 ]
		[[ $output == *"cannot write the output: No space left on device"* ]]
	done
}

# bats test_tags=slow
@test "every call of the smallest pair fails" {
	local role
	export FAKE_VERBS_PROGRAMS=$programs # a failure ends them, and with them what they have
	for role in smallest-client smallest-server; do
		tests/fake-verbs/faults "$role" "no-hello write" write
		tests/fake-verbs/faults "$role" "no-hello iwarp tutorial write" write
	done
}

# A failure ends it, and the kernel frees what it had.
# bats test_tags=slow
@test "the smallest pair ends with the reason, whatever does not come or comes wrong" {
	local lost="abandons until:30000"
	outcomes <<-END
	smallest-client	1	$lost ADDR_RESOLVED=ADDR_ERROR:-110	cannot resolve the address: Connection timed out
	smallest-client	1	$lost ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
	smallest-client	1	$lost ROUTE_RESOLVED=ROUTE_ERROR:-110	cannot resolve the route: Connection timed out
	smallest-client	1	$lost fail:getaddrinfo:1:12	cannot resolve the name: Cannot allocate memory
	smallest-client	1	$lost refuse:255	cannot connect: Connection refused
	smallest-client	1	$lost iwarp refuse:255	cannot connect: Connection refused
	smallest-client	1	$lost ESTABLISHED=UNREACHABLE:-110	cannot connect: Connection timed out
	smallest-client	1	$lost received-MR!	cannot use a message: Protocol error
	smallest-client	1	$lost received-MR! received-DONE!	cannot complete the exchange: Connection timed out
	smallest-client	1	$lost received-DONE!	cannot complete the exchange: Connection timed out
	smallest-client	1	$lost iwarp received-DONE!	cannot complete the exchange: Connection timed out
	smallest-client	1	$lost DISCONNECTED=DISCONNECTED:-110	cannot disconnect: Connection timed out
	smallest-client	1	$lost sent-MR=12	cannot complete a request: completion status 12
	smallest-client	1	$lost operation=10	cannot complete a request: completion status 10
	smallest-client	1	$lost received-MR+DISCONNECTED	cannot complete
	smallest-client	1	$lost iwarp received-MR+DISCONNECTED	cannot complete
	smallest-server	1	$lost ESTABLISHED=CONNECT_ERROR:-110	cannot accept the connection: Connection timed out
	smallest-server	1	$lost received-MR!	cannot complete the exchange: Connection timed out
	smallest-server	1	$lost received-DONE!	cannot complete the exchange: Connection timed out
	smallest-server	1	$lost sent-DONE!	cannot complete the exchange: Connection timed out
	smallest-server	1	$lost sent-MR=12	cannot complete a request: completion status 12
	smallest-server	1	$lost operation=10	cannot complete a request: completion status 10
	smallest-server	1	$lost received-MR+DISCONNECTED	cannot complete
	smallest-server	1	$lost iwarp received-MR+DISCONNECTED	cannot complete
	END
}

# Three clients, one after the other, and a device that goes and comes back twice.
@test "a device that goes and comes back under a server for all addresses: it serves again" {
	local step script="clients:3 2*leave+return return@5000 return@5000"
	for programs in $every_build; do
		counts served <<-END
		server	0	3	$script 2*DISCONNECTED+leave leave@100 leave@100
		server	0	3	$script 2*DISCONNECTED+leave
		server	0	3	$script 2*DISCONNECTED+leave iwarp leave@100
		server	0	3	$script 2*DISCONNECTED+leave write leave@2000 leave@700
		END
		for step in sent-MR "iwarp sent-MR" "ESTABLISHED" "write operation" received-DONE; do
			fake server "$script ${step% *} 2*${step##* }+leave"
			echo "$step: status $status, $(calls served) served: $stderr"
			[ "$status" -eq 0 ]
			[ "$(calls served)" -ge 1 ]
			[[ $stderr == *"RDMA device"*"rdma link"* ]]
		done
	done
}

@test "a device goes and is back before the server has seen either: nothing of the closed one is used" {
	for programs in $every_build; do
		outcomes server <<-END
		0	coalesce CONNECT_REQUEST+leave leave+return
		0	iwarp coalesce CONNECT_REQUEST+leave leave+return
		END
	done
}

@test "a device goes under several sessions at a time: each ends, the server goes on" {
	for programs in $every_build; do
		fake server "together clients:3 sent-MR+leave leave+return return@5000"
		echo "status $status, $stderr"
		[ "$status" -eq 0 ]
		[ "$(grep -c 'the RDMA device .*rdma link' <<<"$stderr")" -eq 3 ]
	done
}

# bats test_tags=memory
@test "the device of the address that a server is bound to goes: it ends when its sessions have, status 1, and says so" {
	outcomes server --bind 192.0.2.1 <<-END
	1	clients:2 DISCONNECTED+leave leave@100 by-itself	cannot listen any more on an address of --bind '192.0.2.1': its RDMA device was removed
	1	clients:2 sent-MR+leave by-itself	cannot listen any more on an address of --bind '192.0.2.1': its RDMA device was removed
	END
}

# Of the servers the last one is idle.
# bats test_tags=memory
@test "signals end a session in an orderly way" {
	outcomes <<-END
	client	143	ADDR_RESOLVED+signal	interrupted
	client	143	ROUTE_RESOLVED+signal	interrupted
	client	143	ESTABLISHED+signal	interrupted
	client	143	sent-MR+signal	interrupted
	client	130	sent-MR+signal:2	interrupted
	client	129	sent-MR+signal:1	interrupted
	client	0	DISCONNECTED+signal
	client	0	received-VERDICT+signal DISCONNECTED!
	client	143	connect-signal:15	interrupted
	client	130	connect-signal:2	interrupted
	client	5	connect-signal:14	no answer to the connect request
	server -1	143	sent-MR+signal	interrupted
	server -1	130	sent-MR+signal:2	interrupted
	server -1	143	iwarp received-MR+signal	interrupted
	server -1	0	DISCONNECTED+signal
	server	0	DISCONNECTED+signal:2 by-itself
	END
}

# Over iWARP: before the call the signals are let in, and in it the kernel sleeps.
# bats test_tags=memory
@test "a signal that comes just before rdma_connect(3) sleeps ends that soon; of several the first counts, not the alarm" {
	outcomes client -t 10 <<-END
	143	connect-early:15 until:1100	interrupted
	130	connect-early:2 until:1100	interrupted
	143	connect-early:15 connect-signal:2	interrupted
	130	connect-early:2 connect-signal:15	interrupted
	5	connect-early:14 until:1100	no answer to the connect request
	143	connect-early:14 connect-signal:15	interrupted
	END
}

@test "an interrupted client does not connect when the route is resolved after all" {
	fake client "ADDR_RESOLVED+signal flush@100" -v
	[ "$status" -eq 143 ]
	[[ $stderr == *"EVENT_INTERRUPTED"* && $stderr != *"rdma_connect"* && $output != *"route resolved"* ]]
	fake client "addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal ESTABLISHED@500" -v
	[ "$status" -eq 143 ]
	said 1 rdma_resolve_addr
}

@test "a signal ends a program at once while a name, or the next address of --check, is resolved" {
	local port=20000
	outcomes <<-END
	client	143	signal:getaddrinfo:1:15
	client -B 192.0.2.2	130	signal:getaddrinfo:2:2
	server -B 192.0.2.1	143	signal:getaddrinfo:1:15
	END
	path "check addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15" -t 1
	[ "$status" -eq 143 ]
	[ "$(grep -c '^address' <<<"$output")" -eq 1 ]
}

@test "nohup(1): a signal that is ignored stays so" {
	local mode
	for mode in "sent-MR+signal:1" "ROUTE_RESOLVED+signal:1"; do
		FAKE_VERBS="$mode read" nohup "$programs/rdma-client" read 192.0.2.1 20000 </dev/null >"$BATS_TEST_TMPDIR/out" 2>&1
		grep -q '^remote buffer: text of the scripted peer' "$BATS_TEST_TMPDIR/out"
	done
}

# bats test_tags=memory
@test "one signal ends all sessions of a server, each in words" {
	local number
	for number in 1 2 15; do
		fake server "together clients:3 3*received-MR! ESTABLISHED+signal:$number until:500"
		[ "$status" -eq 0 ]
		said 3 'interrupted before the session was complete'
	done
}

# lines_of NUMBER: what a server has printed about that session.
lines_of() {
	sed -n "s/^\[$1\] //p" <<<"$output"
}

@test "sessions at a time have their numbers in front of each line, sessions one after the other none" {
	local number
	fake server "together clients:3"
	[ "$status" -eq 0 ]
	for number in 2 3; do
		diff <(transcript server read "text of the scripted peer" 20000 | tail -n +2) <(lines_of "$number")
	done
	diff <(transcript server read "text of the scripted peer" 20000) <(grep -v '^\[' <<<"$output")
	fake server "together clients:3 3*received-MR!"
	[ "$(grep -c '^\[[23]\] rdma-server: \|^rdma-server: \[[23]\] ' <<<"$stderr")" -eq 2 ]
	fake server "clients:3"
	[ "$status" -eq 0 ]
	[[ $output != *"["* ]]
}

# Not there are EADDRNOTAVAIL, EAFNOSUPPORT and ENODEV. With EADDRINUSE, or what the kernel reports for a wildcard's, another
# port is tried.
@test "a server listens on every address that there is, IPv4 and IPv6, on the same port" {
	counts rdma_listen <<-END
	server -1	0	2	read
	server -1	0	1	fail:rdma_bind_addr:2+:99
	server -1	0	1	fail:rdma_bind_addr:2+:97
	server -1	0	1	fail:rdma_bind_addr:2+:19
	server -1	0	3	fail:rdma_bind_addr:2:98
	server -1	0	3	fail:rdma_bind_addr:2:99
	END
	counts rdma_bind_addr <<<"server	1	20	fail:rdma_bind_addr:1+:98"
	outcomes <<-END
	server -1	3	fail:rdma_bind_addr:1+:99	give --bind an address of a network interface
	server -1	3	fail:rdma_bind_addr:1+:97	give --bind an address of a network interface
	server -1	3	fail:rdma_bind_addr:1+:19	give --bind an address of a network interface
	server -p 20000	1	fail:rdma_bind_addr:2:98	port 20000: another program does; choose another --port
	END
}

# As above; and a program has room for so many addresses, and no more.
@test "--bind of a server: a name with several addresses, one of which is taken, or not there" {
	local several=addresses:192.0.2.1,fd00::1,192.0.2.3
	counts rdma_listen <<-END
	server -1 -B name	0	3	$several
	server -1 -B name -p 4000	0	2	$several fail:rdma_bind_addr:3+:99
	server -1 -B name -p 4000	0	2	$several fail:rdma_bind_addr:3+:97
	server -1 -B name -p 4000	0	2	$several fail:rdma_bind_addr:3+:19
	server -1 -B name	0	5	$several fail:rdma_bind_addr:3:98
	server -1 -B name	0	16	addresses:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
	END
	outcomes <<-END
	server -B name	3	$several fail:rdma_bind_addr:1+:99	on name port any: 
	server -B name	3	$several fail:rdma_bind_addr:1+:97	on name port any: 
	server -B name	3	$several fail:rdma_bind_addr:1+:19	on name port any: 
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:98	cannot listen on name port 4000: another program does
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:99	cannot listen on name port 4000: another program does
	server -B name -p 4000	1	$several fail:rdma_listen:2:12	cannot listen on name port 4000: Cannot allocate memory
	END
}

# next_tried TIMES STATUS SCRIPT [OPTION...]: a client with two addresses reports one outcome, and whether it tries the second.
next_tried() {
	fake client "addresses:192.0.2.1,fd00::1 $3" -J "${@:4}"
	echo "$*: status $status, $output, $stderr"
	[ "$status" -eq "$2" ]
	said "$1" "trying the next address of '192.0.2.1'"
	[[ $output != *$'\n'* && $output == *"\"status\": $2,"* ]]
	[ "$2" -ne 0 ] || [[ $output == *'"verified": true'* ]]
}

# bats test_tags=memory
@test "a client tries the next address of a name until a server of this project answers" {
	next_tried 0 0 ""
	next_tried 1 0 "ADDR_RESOLVED=ADDR_ERROR:-19"
	next_tried 1 3 "2*ADDR_RESOLVED=ADDR_ERROR:-19"
	next_tried 1 0 "ROUTE_RESOLVED!"
	next_tried 1 0 "ESTABLISHED!"
	next_tried 1 4 "refuse:255"
	next_tried 0 4 "refuse:2"
	next_tried 0 6 "operation=12"
	next_tried 0 143 "ADDR_RESOLVED+signal"
	next_tried 1 0 "ADDR_RESOLVED=ADDR_ERROR:-19" -B name
}

# The first address is of no use, so that each call is made of the last one, too. An output that is lost is told by the exit
# status alone.
# bats test_tags=slow
@test "whichever call fails, a client of a name with two addresses prints one object, with the failure in words" {
	local script="addresses:192.0.2.1,fd00::1 ADDR_RESOLVED=ADDR_ERROR:-19" function count number runs=0 failed=0
	fake client "$script" -J
	[ "$status" -eq 0 ]
	cp "$FAKE_VERBS_RECORD" "$BATS_TEST_TMPDIR/calls"
	while read -r function count; do
		[ "$function" != served ] || continue
		for ((number = 1; number <= count; number++)); do
			((number > 6 && number <= count - 6)) && continue
			fake client "$script fail:$function:$number:12" -J
			runs=$((runs + 1))
			[[ $output == "{ "*"}" && $output != *$'\n'* && $output != *'"error": ""'* ]] &&
				[[ $output == *"\"status\": $status,"* || $function = fclose ]] && continue
			failed=$((failed + 1))
			echo "fail:$function:$number:12: status $status, '$output', $stderr"
		done
	done <"$BATS_TEST_TMPDIR/calls"
	[ "$failed" -eq 0 ]
	[ "$runs" -gt 100 ]
}

# without_descriptor REDIRECTION PROGRAM [ARGUMENT...]: one that is started so; sets $status.
without_descriptor() {
	FAKE_VERBS='' sh -c "exec \"\$@\" $1" sh "$programs/$2" -t 1 read "${@:3}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
}

@test "without standard input, output or error: only what cannot be printed is a failure" {
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

# unread: a pipe of a page that is open for reading, but nobody reads it; sets $pipe, and $unread to what holds it open.
unread() {
	pipe=$BATS_TEST_TMPDIR/pipe
	mkfifo "$pipe"
	exec {unread}<>"$pipe"
	python3 -c 'import fcntl, sys; fcntl.fcntl(int(sys.argv[1]), fcntl.F_SETPIPE_SZ, 4096)' "$unread"
}

# unheard STREAM OPTION...: a server whose standard output (1) or error (2) nobody reads, with 100 clients, one after the
# other, and then SIGTERM; sets $status and $served, and $other to the file that has the other stream. The library ends
# what waits for --timeout.
unheard() {
	local -x FAKE_VERBS="clients:100 $script"
	local command=("$programs/rdma-server" -t 1000 read "${@:2}")
	other=$BATS_TEST_TMPDIR/other status=0
	if [ "$1" -eq 1 ]; then
		"${command[@]}" >"$pipe" 2>"$other" || status=$?
	else
		"${command[@]}" >"$other" 2>"$pipe" || status=$?
	fi
	served=$(calls served)
}

# bats test_tags=slow
@test "nobody reads standard output, or error: sessions succeed, SIGTERM ends the server, lines are lost with a word" {
	local programs=${every_build#* } script
	unread
	for script in "" together; do
		unheard 1
		[ "$status" -eq 1 ]
		[ "$served" -eq 100 ]
		grep -q 'the last [0-9]* lines are lost: nobody read them in time' "$other"
		unheard 2 --verbose
		[ "$status" -eq 1 ]
		[ "$served" -eq 100 ]
		[ "$(grep -c 'remote buffer: text of the scripted peer' "$other")" -eq 100 ]
	done
}

# over: the client has disconnected; it waits for the reader of its standard output.
over() {
	grep -q rdma_disconnect "$BATS_TEST_TMPDIR/err"
}

# taken: the client has taken the signal that it was sent; two that wait for it are one.
taken() {
	grep -q '^ShdPnd:.0*$' "/proc/$client/status"
}

@test "nobody reads the end of what a client prints: --timeout, a signal or a second one ends it" {
	local signals start
	unread
	head -c 4096 /dev/zero >&"$unread"
	for signals in 0 1 2; do
		: >"$BATS_TEST_TMPDIR/err"
		start=$(milliseconds)
		FAKE_VERBS='' "$programs/rdma-client" -v -t $((signals ? 100 : 1)) read 192.0.2.1 1 \
			>"$pipe" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
		client=$!
		await over
		[ "$signals" -lt 1 ] || kill -TERM "$client"
		[ "$signals" -lt 2 ] || { await taken && kill -TERM "$client"; }
		status=0
		wait "$client" || status=$?
		client=
		within 2 "$start" "$signals signals"
		[ "$status" -eq $((signals < 2 ? 1 : 143)) ]
		[ "$signals" -eq 2 ] || grep -q 'the last 8 lines are lost' "$BATS_TEST_TMPDIR/err"
	done
}

# The clock of the fake begins a second after the epoch.
@test "--json: where a server listens, then each session, with its number, its time and both ends" {
	local host
	host=$(hostname)
	fake server "clients:2" -J
	[ "$status" -eq 0 ]
	python3 - "$output" "$host" <<-'END'
	import json, sys
	listening, first, second = map(json.loads, sys.argv[1].splitlines())
	assert listening["kind"] == "listening" and listening["port"] == 20000 and listening["host"] == sys.argv[2]
	assert listening["time"] == "1970-01-01T00:00:01.000Z" <= first["time"] < second["time"] < "1970-01-01T00:01", second
	assert (first["session"], second["session"]) == (1, 2)
	assert (first["peer"], first["peer_port"], first["path_mtu"]) == ("127.0.0.1", 40000, 4096), first
	END
}

@test "--json is UTF-8, whatever the name of a file is" {
	fake client "" -J -f $'no-\xff-such-\xed\xa0\x80-\u20ac\xc3'
	iconv -f UTF-8 -t UTF-8 <<<"$output"
	[[ $output == *"cannot read 'no-\\\\xff-such-\\\\xed\\\\xa0\\\\x80-€\\\\xc3'"* ]]
}

# bats test_tags=memory
@test "a long name leaves room for the reason and for the advice: it is shown without its middle" {
	local long shown missing="x//file': No such file or directory" taken="addresses:192.0.2.2 fail:rdma_bind_addr:1"
	printf -v long 'x/%.0s' {1..600}
	shown="${long:0:62}...${long: -62}"
	outcomes <<-END
	client -J -f $long	1	read	rdma-client: cannot read '$shown': No such file or directory
	client -o $long/file	1	read	$missing
	server -1 -o $long/file	0	lacks:3	$missing
	client -o $long/file	1	unknown	$missing
	client -o $long/file	1	write unknown	$missing
	client -B $long	3	read	rdma-client: cannot resolve --bind '$shown': 
	server -B $long	3	read	rdma-server: cannot resolve --bind '$shown': 
	client -B $long	3	addresses:192.0.2.2 ADDR_RESOLVED=ADDR_ERROR:-19 fail:rdma_resolve_addr:1:19	from --bind '$shown': No such device; is that an address of this host
	server -B $long -p $(printf '%0140d' 1)	1	$taken:98	: another program does; choose another --port
	server -B $long	3	$taken:19	: No such device; give --bind an address of a network interface that has an RDMA device ('rdma link')
	END
	[[ $stderr == *"listen on $shown port any"* ]]
}

# values KEY...: of the last object in $output, with blanks between.
values() {
	python3 -c 'import json, sys
outcome = json.loads(sys.argv[1].splitlines()[-1])
print(*(outcome[key] for key in sys.argv[2:]))' "$output" "$@"
}

# bats test_tags=memory
@test "passes that repeat through a ring of this side's that is shorter than the payload" {
	outcomes client -n 3 <<<$'0\tmemory:100000 payload:300000\n7\tmemory:100000 payload:300000 corrupt-in\tthe contents are wrong'
	outcomes client -n 3 -s 300000 <<<$'0\twrite memory:100000' # a damaged first pass is written over
}

# timed SCRIPT OPTION...: a client with --duration 1; its operation ended then, and with a whole pass of $pass bytes.
timed() {
	fake client "$1" -J --duration 1 "${@:2}"
	[ "$status" -eq 0 ] || { echo "client '$*'"; return 1; }
	python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
assert 1 <= outcome["seconds"] < 1.2, outcome
assert outcome["operations"] > 20 and outcome["bytes"] == outcome["operations"] * int(sys.argv[2]), outcome' \
		"$output" "$pass"
}

@test "--duration: passes that repeat, and a WRITE of a stream, end with a pass when the time is up" {
	local pass=1024
	timed ""
	timed "iwarp"
	timed "write"
	timed "tutorial"
	pass=10000 timed "write ring:4096" -s 10000
	pass=30000 timed "memory:25000 payload:30000"
	pass=30000 timed "write memory:25000" -s 30000
}

@test "--duration: a stream that is read ends when its source says so" {
	fake client "ring:4096 payload:10000" -J --duration 1
	[ "$status" -eq 0 ]
	[ "$(values operations bytes verified_bytes)" = "3 30000 30000" ] # the peer's source
	fake client "" -J --duration 1 --verify-all
	[ "$status" -eq 0 ]
	[ "$(values operations verified_bytes)" = "3 3072" ]
	outcomes client -s 10000 <<-END
		0	passes:0 seconds:1
		0	write passes:0 seconds:1 every-pass
	END
	outcomes server -1 -s 10000 --duration 1 <<-END
		0	passes:0 seconds:2
		0	passes:0 seconds:0 every-pass memory:50000
	END
}

# Who sends it cannot read it again. What the operation of either side carries counts, and no pipe that goes the other way.
@test "a pipe is sent once: who is to send it again, or to receive it again, refuses in words" {
	local once="a pipe can be sent once, and --iters or --duration asks for it again"
	outcomes <<-END
	client -n 5	4	unknown	$once
	client -n 5	0	write unknown
	client --duration 1	4	unknown	$once
	client	4	write unknown passes:5	$once
	client	4	write unknown passes:0 seconds:1	$once
	client	0	unknown passes:5
	client	4	refuse:5	the server refused: $once
	server -1 -n 5	0	unknown	refused: $once
	server -1 -n 5	0	write unknown
	server -1	0	write unknown passes:5	refused: $once
	server -1 -n 5 -s 1	0	one-way write passes:1
	END
	fake server "clients:1 passes:5" -1 -f - < <(echo short)
	[ "$status" -eq 0 ]
	[[ $stderr == *"refused: $once"* ]]
	[ "$(calls served)" -eq 0 ]
	fake server "clients:2 passes:5" -f - < <(echo short) # which has a copy
	[ "$status" -eq 0 ]
	[ "$(calls served)" -eq 2 ]
	fake client "write passes:5" -f - < <(echo short)
	[ "$status" -eq 0 ]
	fake client "passes:5" -f - < <(echo short)
	[ "$status" -eq 4 ]
	[[ $stderr == *"port 20000: $once"* ]]
}

@test "--json of a server: a line for each session, behind that of where it listens" {
	local lines
	fake server "clients:3 fail:ibv_alloc_pd:2:12" -J -n 3
	[ "$status" -eq 0 ]
	mapfile -t lines <<<"$output"
	[ "${#lines[@]}" -eq 4 ]
	output=${lines[1]}
	[ "$(values role operations bytes received_bytes verified status error)" = "server 3 3072 1024 True 0 None" ]
	output=${lines[2]}
	[ "$(values status error)" = "1 ibv_alloc_pd failed: Cannot allocate memory" ]
	fake server version:3 -J
	[ "$(values status error)" = "4 refused: client and server speak different versions of the protocol; use one release on both hosts" ]
}

@test "--json: what was measured, in bits as well, and how much was verified" {
	fake client "write every-pass passes:3 payload:1000 operation@10" -J -s 100 -n 5 --depth 4
	[ "$status" -eq 0 ]
	[ "$(values bytes operations request_bytes depth verified verified_bytes)" = "500 5 100 4 True 3000" ]
	python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
rate = outcome["bytes"] / outcome["seconds"]
assert abs(outcome["bytes_per_second"] / rate - 1) < 1e-6 and abs(outcome["bits_per_second"] / rate - 8) < 1e-6' "$output"
	[ "$(values role operation transport device latency_us received_bytes)" = "client write RoCE double0 None 1000" ]
	fake client "iwarp" -J --depth 1
	[ "$(values operation transport path_mtu received_bytes)" = "read iWARP None 1024" ]
	[[ $output == *'"latency_us": { "min": '* ]]
	fake client "write tutorial" -J
	[ "$(values status verified verified_bytes)" = "0 False 0" ]
	fake client "write corrupt-in" -J
	[ "$(values status verified verified_bytes)" = "7 False 0" ]
}

# Simulated time: of 40 passes the first three take 0.7 s each, the others a little: one ends in the first second, one in
# the next, and what follows is an interval that is short.
@test "--interval: one after the other, each with its bytes and errors, and all together are the operation" {
	local -x FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	local script word
	mkdir -p "$FAKE_VERBS_DEVICE/ports/1/hw_counters"
	echo 7 >"$FAKE_VERBS_DEVICE/ports/1/hw_counters/duplicate_request"
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
		assert 2.1 < intervals[2]["end"] < 3 and all(i["errors_counted"] == {} for i in intervals), intervals
		assert abs(intervals[2]["bits_per_second"] - 8 * intervals[2]["bytes"] / (intervals[2]["end"] - 2)) < 1
		END
		fake server "$script peer-operation@10 operation@2500" -1 --interval 2 -n 40 -t 5 -s 10000
		[ "$status" -eq 0 ]
		[ "$(grep -cE '^[0-9.]+ to [0-9.]+ s: [0-9]+ bytes, ' <<<"$output")" -eq 2 ]
	done
	fake client "" -J --interval 1 --duration 3 -s 10000 # no line for the moment behind the last second
	[ "$(grep -c '"kind": "interval"' <<<"$output")" -eq 3 ]
	fake server "one-way write" -1 --interval 1 -s 1 # and has no operation
	[[ $status -eq 0 && $output != *" to "*" s: "* ]]
}

# Simulated time: of 200 READs of 5000 bytes three take a second each, or one does. How they are printed is in report-test.
@test "--report: amounts, rates and percentiles are those of what happened" {
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

@test "the counters of the port are read before a session and behind it, for all that reports them" {
	local -x FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	local port=20000
	mkdir -p "$FAKE_VERBS_DEVICE/ports/1/hw_counters"
	echo 7 >"$FAKE_VERBS_DEVICE/ports/1/hw_counters/duplicate_request"
	fake client "" --report
	[[ $output == *"no errors counted by double0"* ]]
	fake client "" -J
	[[ $output == *'"errors_counted": { }'* ]]
	path "check payload:1048576"
	[[ $output == *"counters  no errors counted by this host's device meanwhile"* ]]
	path "check payload:1048576 set:verdict.errors=2"
	[[ $output == *"counters  errors counted: 0 here, 7 there"$'\n'* ]]
	rm -r "$FAKE_VERBS_DEVICE"
	fake client "" -J
	[[ $output == *'"errors_counted": null'* ]]
}

@test "each side tells how many errors its port has counted, if it counts, or if the peer wants to know" {
	local -x FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	mkdir -p "$FAKE_VERBS_DEVICE/ports/1/hw_counters"
	echo 7 >"$FAKE_VERBS_DEVICE/ports/1/hw_counters/duplicate_request"
	outcomes <<-END
	client	0	uncounted
	client	0	counts
	client --report	0	write counts
	server -1	0	uncounted
	server -1	0	counts
	server -1	0	write iwarp counts
	END
	fake client "set:verdict.errors=1" --report
	[[ $output == *$'\n'"no errors counted by double0, nor by the peer's device"* ]]
	fake client "set:verdict.errors=0" --report
	[[ $output != *"peer's device"* ]]
	fake client "set:verdict.errors=18446744073709551615" --report
	[[ $output == *"no errors counted by double0"$'\n'"errors counted: 0 here, 18446744073709551614 there"* ]]
	fake client "set:verdict.errors=121" -J
	[[ $output == *'"errors_counted_by_peer": 120'* ]]
	rm -r "$FAKE_VERBS_DEVICE"
	outcomes client --report <<<"0	uncounted"
}

# drawn ROLE SCRIPT ARGUMENT...: a program on a terminal; prints what it draws there but for the rates, the first two of it,
# and fails unless the last one is taken away again.
drawn() {
	local text
	text=$(FAKE_VERBS=$2 TERM=xterm NO_COLOR='' script -qec "$programs/rdma-$1 -t 10 ${*:3}" /dev/null)
	[[ $text != *left* || ${text##*left$'\e[K'} == $'\r\e[K'* ]] || return 1
	tr '\r' '\n' <<<"$text" | sed -n 's/, [^,]*\(, .* left\)\x1b\[K$/\1/p' | uniq | head -n 2 | paste -s -d ' '
}

@test "progress is drawn on a terminal, of the operation, or the peer's, of one session alone, and is gone in the end" {
	local -x TERM=xterm ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
	local late="request:1000 99*peer-operation@1200" mode
	fake client "2*operation@1500" -t 10 --depth 1 -n 2 # without a terminal
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	for mode in read write; do
		[ "$(drawn client "$mode 2*operation@1500" --depth 1 -n 2 "$mode" 192.0.2.1 1)" = "1.0 KiB of 2.0 KiB, 2 s left" ]
		[ "$(drawn client "$mode 2*operation@1500" -v --depth 1 -n 2 "$mode" 192.0.2.1 1)" = "" ]
		[ "$(drawn server "$mode together clients:2 4*operation@1500" --depth 1 -n 2 "$mode")" = "" ]
	done
	[ "$(drawn server "one-way memory:20000 $late" -1 -s 30000 read)" = \
		"3.9 KiB of 29.3 KiB, 8 s left 8.0 KiB of 29.3 KiB, 4 s left" ]
	[ "$(drawn server "write one-way payload:30000 ring:3000 $late" -1 write)" = \
		"2.9 KiB of 29.3 KiB, 9 s left 5.9 KiB of 29.3 KiB, 6 s left" ]
}

# Of what is worse than slow that counts. A server that goes on reports it.
@test "--min-rate: a slower operation has exit status 8, and its contents are verified all the same" {
	outcomes <<-END
	client --min-rate 8K	0	operation@1000
	client --min-rate 9K	7	corrupt-in operation@1000	contents are wrong
	server -1 --min-rate 90G	8	operation@1000 write	slower than --min-rate
	server --min-rate 90G	0	operation@1000 write	slower than --min-rate
	server -1 --min-rate 1	8	one-way write	with the client's --one-way this side has no operation
	client -J --min-rate 9K	8	operation@1000	slower than --min-rate: 8.
	END
	[[ $stderr == *"e-06 Gbit/s instead of 9e-06"* ]]
	[ "$(values status verified)" = "8 True" ]
}

@test "--bind of a client: addresses of both families, and those that it cannot have" {
	outcomes <<-END
	client -B 192.0.2.2	0	read
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:99	from --bind '192.0.2.3': Cannot assign requested address
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:19	from --bind '192.0.2.3': No such device
	client -J -B fd00::2	3	read	--bind 'fd00::2' is no IPv4 address, as the one to connect to is
	client -J -B 192.0.2.300	3	read	cannot resolve --bind '192.0.2.300': 
	END
	[ "$(values status)" = 3 ]
}

# Over RoCE the client decides, over iWARP that is the driver's affair; without the option it is the path's.
@test "--tos is set before an address is resolved, on listeners and before a client is accepted" {
	local tos role script
	while IFS=$'\t' read -r tos role script; do
		outcomes <<<"$role -J	0	$script	disconnected."
		[ "$(values tos)" = "$tos" ]
	done <<-END
	104	client --tos 104	read
	0	client	read
	None	client --tos 104	iwarp
	72	server -1 --tos 104	tos:72
	END
	outcomes <<-END
	client -v --tos 8	0	read	type of service 8
	client --tos 8	1	fail:rdma_set_option:1:12	cannot set --tos: Cannot allocate memory
	server -1 --tos 8	1	fail:rdma_set_option:1:12	Cannot allocate memory
	server -1 --tos 8	0	fail:rdma_set_option:4:12	cannot set --tos: Cannot allocate memory
	END
}

@test "several clients at a time, and one too many" {
	outcomes <<-END
	server -1	0	together clients:2 lacks:1	refused: the server is out of resources for another session; try again later
	server	0	together clients:3
	END
	[ "$(grep -c 'remote buffer: text of the scripted peer' <<<"$output")" -eq 3 ]
}

# field KEY KIND [KEY KIND...]: of the JSON objects of a kind in $output, with blanks between.
field() {
	python3 -c 'import json, sys
outcomes = [json.loads(line) for line in sys.stdin]
print(*(outcome.get(key) for key, kind in zip(sys.argv[1::2], sys.argv[2::2]) for outcome in outcomes if outcome["kind"] == kind))' \
		"$@" <<<"$output"
}

@test "several connections of a client: each is a whole session, and the worst decides" {
	local expected statuses succeeded options script found
	while IFS=$'\t' read -r expected statuses succeeded options script; do
		# shellcheck disable=SC2086 # several options
		fake client "$script" --json --connections 4 $options
		found="$status $(field status session status sum succeeded sum)"
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

@test "several connections of a client: what comes behind the end of one changes its reason no more" {
	fake client "read received-MR+DISCONNECTED:0 received-MR+async:3 async@300 received-VERDICT@600" --connections 2
	expect 6 "the peer went away"
	[[ $stderr != *"a request that it cannot accept"* ]]
}

@test "several connections of a client: numbers, source ports, the sum, the slowest and the fastest" {
	fake client "2*operation@100 write 5*sent-MR@1" --connections 3 --report
	[ "$status" -eq 0 ]
	[ "$(grep -c 'remote buffer: text of the scripted peer' <<<"$output")" -eq 3 ]
	[ "$(grep -c '^\[[123]\] ' <<<"$output")" -eq "$(grep -vc -e '^3 of 3 sessions' -e '^slowest' <<<"$output")" ]
	[ "$(sed -n 's/^\[\(.\)\] source port \([0-9]*\), queue pair 0x.*, good$/\1 \2/p' <<<"$output")" = \
		"$(printf '%s\n' "1 49972" "2 49975" "3 49974")" ]
	grep -x '3 of 3 sessions succeeded: 3072 bytes in 0.[0-9]* s, 0.[0-9]* Gbit/s' <<<"$output"
	grep '^slowest: \[2\] source port 49975, 0.000 Gbit/s; fastest: \[3\] source port 49974, ' <<<"$output"
}

# bats test_tags=memory
@test "a client whose session does not come about has the others" {
	outcomes client --connections 3 -J <<-END
	1	read fail:rdma_create_id:2:24	cannot create a connection identifier: Too many open files
	1	write fail:calloc:2:12	cannot allocate another connection
	END
	[ "$(field succeeded sum)" = 2 ]
	[ "$(field error sum)" = "2 of 3 sessions succeeded" ]
	fake client "read fail:rdma_create_id:1+:24" --connections 3 -J
	[ "$status $(field succeeded sum status session)" = "1 0 1" ]
}

# Over iWARP the call waits; the first one does so for all of --timeout.
@test "several connections of a client: a call that waits does not add up" {
	fake client "iwarp write coalesce connect-early:14 until:2500" --connections 100
	[ "$status" -eq 5 ]
	said 100 "no answer to the connect request"
}

# What the client reads, of which it takes its advice. Of two clients the other one is served, if there is enough for that.
# bats test_tags=memory
@test "a server that is out of something says of what" {
	local rejected script text
	while IFS=$'\t' read -r rejected script text; do
		outcomes server <<<"0	clients:2 $script	$text"
		[ "$(calls served rdma_reject)" = "$((2 - rejected)) $rejected" ]
	done <<-END
	1	lacks:2 fail:calloc:2:12	cannot allocate another connection
	1	lacks:2 fail:ibv_reg_mr:1:12	cannot register 2496 bytes of memory
	1	lacks:4 fail:ibv_alloc_pd:1:12	ibv_alloc_pd failed
	1	lacks:4 fail:rdma_create_qp:1:24	rdma_create_qp failed: Too many open files
	2	lacks:2 fail:ibv_reg_mr:2+:12	cannot register 1024 bytes of memory
	1	lacks:4 fail:pthread_create:3:11	cannot start a thread for the session: Resource temporarily unavailable
	2	lacks:2 memory:4096	it would exceed the locked-memory limit of 4 KiB
	END
	outcomes server -o "$BATS_TEST_TMPDIR/none/file" \
		<<<"0	clients:2 lacks:3	cannot store 1024 bytes in '$BATS_TEST_TMPDIR/none/file': No such file or directory"
	[ "$(calls rdma_reject)" -eq 2 ]
}

# Two sessions stand still, from 0 and from 4000 ms on. Of two more clients one comes just before the end of the first session,
# and one just after that.
@test "of several sessions each ends at its own time" {
	local clients="clients:4 together CONNECT_REQUEST@4000 CONNECT_REQUEST@9900 CONNECT_REQUEST@10200"
	fake server "$clients 2*received-MR! from:14000 until:14200" --max-sessions 2 -t 10
	[ "$status" -eq 0 ]
	[ "$(calls served rdma_reject)" = "1 1" ]
	said 2 'nothing happened for the time of --timeout'
}

# Two sessions stand still until --timeout; of two more clients one comes meanwhile, and one afterwards.
@test "more clients than --max-sessions: refused in words, and served once a session has ended" {
	outcomes server --max-sessions 3 <<-END
	0	clients:3 together
	0	clients:7
	END
	fake server "clients:4 together 2*received-MR! CONNECT_REQUEST@5000 lacks:1" --max-sessions 2
	[ "$status" -eq 0 ]
	[ "$(calls served rdma_reject)" = "1 1" ]
	said 1 'refused: 2 sessions are open, as many as --max-sessions allows'
	said 2 'nothing happened for the time of --timeout'
	[ "$(grep -c 'remote buffer: text of the scripted peer' <<<"$output")" -eq 1 ]
}

# Sessions are over after --timeout, and the threads that store for them are not.
# bats test_tags=memory
@test "threads that a disk holds up: no more than 32" {
	local clients="clients:34" hung
	printf -v hung ' fsync!%.0s' {1..32}
	fake server "$clients${hung% *}" -o "$BATS_TEST_TMPDIR/stored"
	[ "$status" -eq 0 ]
	[ "$(calls served)" -eq 3 ]
	fake server "$clients$hung lacks:4" -o "$BATS_TEST_TMPDIR/stored"
	[ "$status" -eq 0 ]
	[ "$(calls rdma_reject)" -eq 2 ]
	said 32 'storing it did not move for the time of --timeout'
	said 2 'refused: 32 threads of sessions that are over still wait for a disk'
}

# As above, with memory: two sessions have three pages each.
@test "the memory that all sessions may register is spent: refused in words, and served once a session has ended" {
	local script text
	while IFS=$'\t' read -r script text; do
		fake server "clients:4 together 2*received-MR! CONNECT_REQUEST@5000 lacks:2 $script"
		[ "$status" -eq 0 ]
		[ "$(calls served rdma_reject)" = "1 1" ]
		said 1 "cannot register $text" # a quarter of the machine's
		said 2 'nothing happened for the time of --timeout'
	done <<-END
	machine:131072	1024 bytes of memory: 3 sessions have 32 KiB, and all may have 32 KiB, a quarter
	iwarp write machine:114688 payload:50000	1024 bytes of memory: 3 sessions have 28 KiB, and all may have 28 KiB, a quarter
	machine:98304	2496 bytes of memory: 3 sessions have 24 KiB, and all may have 24 KiB, a quarter
	END
}

# The adapter counts whole pages, and takes no more than that.
# bats test_tags=memory
@test "long rings of the first clients leave memory for 64 at a time" {
	outcomes server -t 10 <<<"0	clients:64 together payload:100000 machine:$((4 * 2097152)) memory:2097152"
	[ "$(calls served)" -eq 64 ]
}

# Besides main: two of the console's.
@test "a session has one thread, and a helper for each file that may have to be waited for" {
	outcomes server <<<"0	clients:20 together"
	[ "$(calls served pthread_create)" = "20 $((2 + 20))" ]
	truncate -s 9000000 "$BATS_TEST_TMPDIR/long"
	outcomes server -f "$BATS_TEST_TMPDIR/long" -o "$BATS_TEST_TMPDIR/stored" <<<"0	clients:5 together"
	[ "$(calls served pthread_create)" = "5 $((2 + 5 * 3))" ]
}

# bats test_tags=memory
@test "what an event costs does not depend on the number of sessions, and probes of silent peers get rarer" {
	fake server "clients:201 together 200*received-MR!" -t 10
	[ "$status" -eq 0 ]
	said 200 'nothing happened for the time of --timeout'
	[ "$(grep -c 'remote buffer: text of the scripted peer' <<<"$output")" -eq 1 ]
	# each after 0.25, 0.75, 1.75, 3.75, 6.25 and 8.75 s, and what the other session sends
	[ "$(calls ibv_post_send)" -eq $((200 * 6 + 4)) ]
	fake server "received-MR@3000 received-DONE@9000" -1 -t 20
	[ "$status" -eq 0 ]
	# after 0.25, 0.75 and 1.75 s, and when the session has moved after 0.25, 0.75, 1.75, 3.75 and 7.75 s
	[ "$(calls ibv_post_send)" -eq $((3 + 5 + 4)) ]
}

@test "what becomes due earlier is not forgotten" {
	outcomes server -1 -t 100 <<-END
	0	until:2100 iwarp sent-VERDICT>received-VERDICT received-VERDICT+async:1 flush@90000
	6	until:2100 received-DONE+DISCONNECTED received-VERDICT! flush@90000	peer went away
	END
	outcomes client -t 100 <<<"0	until:2100 flush@90000"
}

# bats test_tags=memory
@test "a session that gets no more completion events ends at once, and no other does" {
	fake server "until:10100 clients:4 together 3*received-MR! fail:ibv_get_cq_event:1:5" -t 10
	[ "$status" -eq 0 ]
	said 1 'cannot get completion events: Input/output error; is the RDMA device gone'
	said 3 'nothing happened for the time of --timeout'
}

# The exit status that a completion status calls for (ibv_poll_cq(3)).
exit_status_of() { # ROLE-OF-WORK STATUS
	case $2 in
	9 | 10) echo 4 ;; # REM_INV_REQ_ERR REM_ACCESS_ERR
	11) echo 6 ;; # REM_OP_ERR
	12 | 13 | 16 | 20) echo 6 ;; # RETRY_EXC_ERR RNR_RETRY_EXC_ERR REM_ABORT_ERR RESP_TIMEOUT_ERR
	5) echo 6 ;; # WR_FLUSH_ERR
	1 | 2) [[ $1 == received* ]] && echo 7 || echo 1 ;; # LOC_LEN_ERR, and Soft-RoCE's LOC_QP_OP_ERR
	*) echo 1 ;;
	esac
}

# A verdict that has arrived would make the session a success.
# bats test_tags=memory
@test "every error status, and some of them on every kind of work request" {
	local work code also codes
	for work in sent-MR operation sent-DONE sent-VERDICT received-MR received-DONE received-VERDICT; do
		codes="1 4 5 10 12"
		[ $work != operation ] || codes=$(seq 23)
		for code in $codes; do
			[ $work = sent-VERDICT ] && also="received-VERDICT!" || also=
			printf '%s\t%s\t%s\n' "$(exit_status_of $work "$code")" "$work=$code $also" "rdma-"
		done
	done >"$BATS_TEST_TMPDIR/table"
	both <"$BATS_TEST_TMPDIR/table"
}

# LOC_LEN_ERR, what Soft-RoCE makes of it, and soft-iWARP's way to report that the connection has broken.
@test "a failed completion says whose, of what, and which; what a peer of another protocol sends is called that first" {
	local code other="the peer sent something that is no message of this protocol: receive failed"
	for code in 1 2; do
		outcomes <<-END
		client	7	received-MR=$code	192.0.2.1 port 20000: $other
		client	7	received-DONE=$code	$other
		client	1	sent-MR=$code	port 20000: MSG_MR failed
		server -1	7	received-MR=$code	port 40000: $other
		END
	done
	outcomes client <<-END
	1	received-MR=4	192.0.2.1 port 20000: receive failed
	6	operation=12	192.0.2.1 port 20000: RDMA READ failed: completion status 12 (status 12, vendor error 0x5a)
	6	iwarp sent-MR=2	peer went away
	1	iwarp sent-MR=4	MSG_MR failed
	7	iwarp received-MR=2	no message of this protocol
	END
}

# bats test_tags=slow
@test "no data race: everything at once, and one after the other" {
	local script i
	programs=build/fake-verbs/thread
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
	port=20000 path "check payload:1048576 measures immediate" --connections 3
	[ "$status" -eq 0 ]
	for script in "write" "iwarp"; do # with workers in both directions
		outcomes client -s 500000 <<<"0	$script payload:500000 memory:300000 ring:40000"
		outcomes server -s 500000 <<<"0	$script payload:500000 memory:900000 ring:40000 together clients:2"
	done
}

# bats test_tags=slow
@test "valgrind finds nothing" {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	programs=build/fake-verbs/none
	local memcheck=(valgrind -q --error-exitcode=98 --leak-check=full)
	FAKE_VERBS=iwarp "${memcheck[@]}" "$programs/rdma-client" -t 1 read 192.0.2.1 20000
	FAKE_VERBS="together clients:2" "${memcheck[@]}" "$programs/rdma-server" -t 1 read
}
