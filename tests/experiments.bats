#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The experiments of the lessons ("Try this") between two hosts: change a lesson's source as its README says, run it, and
# compare the result with the README. The name of a row begins with the lesson and the number of the experiment.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set the variables

load helpers

# changed LESSON FILE SCRIPT [SUFFIX]: compile a copy of the lesson's file that the sed script has changed; print the path of
# the program, which ends with SUFFIX. $alarm, if set, replaces the 30 s after which the program ends.
changed() {
	local source=$top/tests/lessons/$1/$2.c folder=$LAB/share/$BATS_TEST_NUMBER
	mkdir -p "$folder"
	sed -E "$3" "$source" >"$folder/$2.c"
	! cmp -s "$source" "$folder/$2.c" || { echo "sed '$3' changes nothing in $1/$2.c" >&2 && return 1; }
	sed -i "s/alarm(30)/alarm(${alarm:-30})/" "$folder/$2.c"
	cc -O2 -w -pthread "$folder/$2.c" -o "$folder/$2${4:-}" -lrdmacm -libverbs || return
	echo "$folder/$2${4:-}"
}

# session SERVER CLIENT: run SERVER on host a, and CLIENT with address and port on host b. Sets $server_status, $server_said
# and $status, $said of the client.
session() {
	start_command sh -c "exec 2>&1; exec $1"
	on b sh -c "{ $2 192.0.2.1 $port; } 2>&1"
	said=$output client_status=$status
	await_end server
	server_status=$status status=$client_status server_said=$(<"$server_out")
	printf '%s\n' "server $server_status: $server_said" "client $status: $said"
}

# told: print the text of the experiment of this row in the lesson's README, in one line.
told() {
	local lesson=${BATS_TEST_DESCRIPTION%% *} number=${BATS_TEST_DESCRIPTION#* }
	awk -v number="${number%%:*}" '/^## / { inside = $0 == "## Try this" }
		inside && /^[0-9]+\. / { here = $0 ~ "^" number "\\. " }
		inside && here' "$top/tests/lessons/$lesson/README.md" | tr -s ' \n' ' '
}

# says OUTPUT TEXT: fail unless OUTPUT has TEXT, and the README has it in the experiment.
says() {
	[[ $1 == *"$2"* ]] || { echo "the program does not say: $2" && return 1; }
	[[ $(told) == *"$2"* ]] || { echo "the README does not say: $2" && return 1; }
}

# lost_connection: the client over soft-iWARP reported that its connection has ended. It learns that from a request that fails,
# or it cannot post the next one.
lost_connection() {
	[[ $said == *"cannot complete "* || $said == *"cannot post "*": Transport endpoint is not connected"* ]]
}

# needs_roce REASON: skip the row over soft-iWARP.
needs_roce() {
	[ "$LAB_TRANSPORT" != siw ] || skip "$1"
}

@test "every experiment has a row in this file" {
	local page lesson number
	for page in "$top"/tests/lessons/*/README.md; do
		lesson=${page%/*} lesson=${lesson##*/}
		while read -r number; do
			grep -q "^@test \"$lesson $number: " "$BATS_TEST_FILENAME" || { echo "no row for $lesson $number" && return 1; }
		done < <(sed -n '/^## Try this/,/^## In/s/^\([0-9]*\)\. .*/\1/p' "$page")
	done
}

# pair LESSON SERVER_SCRIPT CLIENT_SCRIPT [ARGUMENT...]: run server.c and client.c of the lesson, or both sides of its one
# program, each changed by its sed script unless that is empty.
pair() {
	local folder=$LESSONS/$1 files=(server client) programs=() side
	[ -e "$folder/server" ] || files=("${1#*-}" "${1#*-}")
	programs=("$folder/${files[0]}" "$folder/${files[1]}")
	for side in 0 1; do
		[ -z "${*:side+2:1}" ] || programs[side]=$(changed "$1" "${files[side]}" "${*:side+2:1}" "-$side")
	done
	session "${programs[0]}" "${client_input:-}${programs[1]}"
}

# works: both sides of the last session ended with status 0.
works() {
	[ "$status $server_status" = "0 0" ]
}

# link_is_back: restore the link of host a, its IPv6 address, and the device, which does not survive the loss of its link
# during a session.
link_is_back() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run a sh -c 'ip link set eth0 up
		ip address replace fd00::1/64 dev eth0 nodad
		rdma link del rdma0
		rdma link add rdma0 type "$1" netdev eth0' - "$LAB_TRANSPORT"
}

# ---- 01-devices ----

# bats test_tags=slow
@test "01-devices 1: a region for remote writes alone is refused" {
	on a "$(changed 01-devices devices 's/IBV_ACCESS_LOCAL_WRITE \| (IBV_ACCESS_REMOTE_WRITE)/\1/')"
	expect 1
	says "$stderr" "cannot register memory: Invalid argument"
}

# bats test_tags=slow
@test "01-devices 2: a protection domain cannot be freed before its regions" {
	on a "$(changed 01-devices devices 's/^\tfor \(size_t i = REGIONS.*/\tcheck(ibv_dealloc_pd(pd), "free the protection domain");\n&/')"
	expect 1
	says "$stderr" "cannot free the protection domain: Device or resource busy"
}

# bats test_tags=slow
@test "01-devices 3: the port of an interface without link is down" {
	repair=link_is_back
	lab run a ip link set eth0 down
	on a "$LESSONS/01-devices/devices"
	expect 0
	says "$output" "port 1 is down"
	[[ $output == *"completion queues: with a channel, without a channel" ]]
}

# ---- 02-send ----

# bats test_tags=slow
@test "02-send 1: a SEND without a receive is repeated over RoCE, and ends the connection over iWARP" {
	alarm=10 pair 02-send '/^\tpost_receive\(\); \/\* before/d; s/^\tcheck\(rdma_accept.*/&\n\tsleep(1);\n\tpost_receive();/' ''
	# soft-iWARP may overlook the message until the receive is posted (rdma-common.c, send_keepalive())
	if [ "$LAB_TRANSPORT" = siw ] && [[ $said != *"pong 3" ]]; then
		lost_connection
		[[ $(told) == *"Work Request Flushed Error"* ]]
		[ "$server_status" -ne 0 ]
	else
		works
		[[ $said == *"pong 3" ]]
	fi
}

# bats test_tags=slow
@test "02-send 2: rnr_retry_count of the server limits the repetitions of the client" {
	needs_roce "iWARP does not repeat a SEND that finds no receive"
	alarm=10 pair 02-send '/^\tpost_receive\(\); \/\* before/d; s/^\tcheck\(rdma_accept.*/&\n\tsleep(1);\n\tpost_receive();/
		s/(rnr_retry_count = )7/\10/' ''
	says "$said" "RNR retry counter exceeded"
	[ "$server_status" -eq 142 ]
}

# bats test_tags=slow
@test "02-send 3: a message that is longer than its receive ends the connection" {
	pair 02-send 's/sizeof\(incoming\), incoming_mr/2, incoming_mr/' ''
	if [ "$LAB_TRANSPORT" = siw ]; then
		says "$server_said" "local length error"
	else
		says "$server_said" "local QP operation error"
	fi
	[ "$status" -ne 0 ]
}

# ---- 03-write ----

# wrong_key SCRIPT: run lesson 3 with a server that gives away a useless key.
wrong_key() {
	pair 03-write "$1" ''
	[ "$server_status" -ne 0 ]
	[ "$LAB_TRANSPORT" = siw ] || says "$said" "remote access error"
}

# bats test_tags=slow
@test "03-write 1: a region without IBV_ACCESS_REMOTE_WRITE is protected" {
	wrong_key 's/IBV_ACCESS_LOCAL_WRITE \| IBV_ACCESS_REMOTE_WRITE/IBV_ACCESS_LOCAL_WRITE/'
	[[ $(told) == *"the server fails, too"* ]]
}

# bats test_tags=slow
@test "03-write 2: a wrong rkey opens no region" {
	pair 03-write 's/htole32\(incoming_mr->rkey\)/htole32(incoming_mr->rkey + 1)/' ''
	[ "$server_status" -ne 0 ]
	[[ $LAB_TRANSPORT = siw || $said == *"remote access error"* ]]
}

# bats test_tags=slow
@test "03-write 3: the output does not change if MSG_DONE waits for the WRITE" {
	local script='s/^\tsend_message\(SEND_DONE, MSG_DONE\);/\tawait(WRITE);\n&/'
	pair 03-write "$script" "$script"
	works
	[ "$said" = "remote buffer: written by the server" ]
}

# ---- 04-read ----

# bats test_tags=slow
@test "04-read 1: responder_resources 0 stops a READ over Soft-RoCE" {
	alarm=10 pair 04-read 's/(responder_resources = )1/\10/' ''
	if [ "$LAB_TRANSPORT" = siw ]; then
		works
	else
		says "$said" "Connection reset by peer"
		[ "$server_status" -eq 142 ]
	fi
}

# bats test_tags=slow
@test "04-read 2: a region without IBV_ACCESS_REMOTE_READ is protected over Soft-RoCE" {
	pair 04-read 's/SIZE, IBV_ACCESS_REMOTE_READ\)/SIZE, 0)/' ''
	if [ "$LAB_TRANSPORT" = siw ]; then
		works
	else
		says "$said" "remote access error"
	fi
}

# bats test_tags=slow
@test "04-read 3: without waiting for the READ the output is the same by luck" {
	pair 04-read '/^\tawait\(READ\);$/d' '/^\tawait\(READ\);$/d'
	works
	says "$(told)" "by luck"
}

# ---- 05-requests ----

# bats test_tags=slow
@test "05-requests 1: a comparison with another number swaps nothing" {
	needs_roce "soft-iWARP has no atomic operations"
	pair 05-requests '' 's/(compare_add = )200/\1201/'
	works
	says "$said" "fetch-and-add: 200"
}

# bats test_tags=slow
@test "05-requests 2: atomic operations need IBV_ACCESS_REMOTE_ATOMIC" {
	needs_roce "soft-iWARP has no atomic operations"
	alarm=10 pair 05-requests 's/access \|= IBV_ACCESS_REMOTE_ATOMIC/access |= 0/' ''
	says "$said" "cannot complete compare-and-swap: remote access error"
}

# bats test_tags=slow
@test "05-requests 3: a failure is reported although the request is not signaled" {
	alarm=10 pair 05-requests 's/alarm\(30\)/alarm(10)/' 's/IBV_SEND_INLINE \| //'
	says "$said" "cannot complete WRITE, WRITE, SEND: local QP operation error"
	[ "$LAB_TRANSPORT" = siw ] || [ "$server_status" -eq 142 ]
}

# ---- 06-events ----

# bats test_tags=slow
@test "06-events 1: a client that waits for input uses no processor time" {
	local used
	client_input='{ echo one; sleep 5; echo two; } | ' pair 06-events '' ''
	works
	[ "$said" = $'one\ntwo' ]
	start_command sh -c "exec $LESSONS/06-events/server"
	on b sh -c "{ sleep 6; } | $LESSONS/06-events/client 192.0.2.1 $port; times"
	expect 0
	used=$(tail -n 1 <<<"$output")
	[[ $used =~ ^0m([0-9])\..*" 0m"([0-9])\. ]]
	[ $((BASH_REMATCH[1] + BASH_REMATCH[2])) -lt 3 ]
}

# bats test_tags=slow
@test "06-events 2: the server prints events of its device, and goes on over Soft-RoCE" {
	repair=link_is_back
	start_command "$LESSONS/06-events/server"
	start client b sh -c "exec 2>&1; { echo one; while ! [ -e /tmp/link-is-back ]; do sleep 0.1; done; echo two; } | $LESSONS/06-events/client 192.0.2.1 $port"
	wait_for_line "$client_out" '^one' "$client"
	lab run a sh -c 'ip link set eth0 down; ip link set eth0 up'
	lab run b touch /tmp/link-is-back
	await_end client
	lab run b rm /tmp/link-is-back
	await_end server
	[ "$LAB_TRANSPORT" = rxe ] || return 0
	says "$(<"$server_out")" "port error"
	says "$(<"$server_out")" "port active"
	[ "$(<"$client_out")" = $'one\ntwo' ]
}

# bats test_tags=slow
@test "06-events 3: a queue that is armed after it was polled misses a completion" {
	alarm=10 client_input='seq 5000 | ' pair 06-events '/^\tcheck\(ibv_req_notify_cq\(source/d
		s/^\tcheck\(count < 0 \? EIO.*/\tsleep(1);\n\tcheck(ibv_req_notify_cq(source, 0), "arm the completion queue");\n&/' \
		's/alarm\(30\)/alarm(12)/'
	[ "$server_status" -eq 142 ]
	[ "$status" -ne 0 ]
}

# bats test_tags=slow
@test "06-events 4: a child process does not disturb the adapter" {
	local show='fprintf(stderr, "fork: %d of %d\\n", ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);'
	client_input="printf 'one\ntwo\n' | " pair 06-events '' \
		"s/^\tconnect_to.*/&\n\t$show\n\tif (fork() == 0) {\n\t\tsleep(5);\n\t\t_exit(0);\n\t}/"
	works
	[[ $said == *$'one\ntwo'* ]]
	[[ $said == *"fork: 2 of 2"* ]]
}

# ---- 07-stream ----

# bats test_tags=slow
@test "07-stream 1: without answers the sender stops, and a side gives up after 10 s" {
	client_input='seq 20000 | ' pair 07-stream '/^\t\tsend_length\(length\);$/{
			N
			/while/!b
			s/^[^\n]*\n//
		}' ''
	says "$said$server_said" "Connection timed out"
	[ "$status" -ne 0 ]
	[ "$server_status" -ne 0 ]
}

# bats test_tags=slow
@test "07-stream 2: a sender that ignores answers overwrites slots, or runs out of room" {
	local sum
	sum=$(seq 200000 | cksum)
	client_input='seq 200000 | ' pair 07-stream '' 's/sent >= SLOTS\)/0)/'
	echo "sent $sum"
	[[ $said != *"Unknown error"* ]]
	[ "$status $server_status" != "0 0" ] || [ "$(sed -n '1!p' <<<"$server_said" | cksum)" != "$sum" ]
}

# bats test_tags=slow
@test "07-stream 3: a stopped receiver stops the sender, until it continues" {
	start server a sh -c "echo \$\$ >/tmp/receiver; exec $LESSONS/07-stream/stream >/tmp/received"
	await_port server
	start client b sh -c "head -c 20M /dev/zero | $LESSONS/07-stream/stream 192.0.2.1 $port"
	# shellcheck disable=SC2016 # expanded on the host
	lab run a sh -c 'until [ -s /tmp/received ]; do sleep 0.05; done; kill -s STOP "$(cat /tmp/receiver)"; sleep 3
		kill -s CONT "$(cat /tmp/receiver)"'
	expect_end client 0
	expect_end server 0
	[ "$(lab run a sh -c 'stat -c %s /tmp/received; rm /tmp/received')" -eq 20971520 ]
}

# ---- 08-server ----

# beside CALL: start lesson 8 and a client that makes CALL instead of its first SEND; run a good client meanwhile. End the
# server when it has served both. The second client must not wait for the first.
beside() {
	local first
	first=$(changed 03-write write "s/^\\tmessages\\[work\\].type = .*/&\\n\\tif (work == SEND_MR)\\n\\t\\t$1;/")
	start_command "$LESSONS/08-server/server"
	start client b "$first" 192.0.2.1 "$port"
	on b "$LESSONS/03-write/write" 192.0.2.1 "$port"
	expect 0
	wait_for_line "$server_out" "^a client failed" "$server"
	lab run b pkill -CONT -f "${first##*/}" || true
	await_end client
	kill -s TERM "$server"
	expect_end server 0
	grep -qx "remote buffer: written by the client" "$server_out"
}

# bats test_tags=slow
@test "08-server 1: a client that stops delays no other client, and loses its connection after 10 s" {
	beside 'raise(19)'
	says "$stderr" "cannot receive a message: Connection timed out"
}

# bats test_tags=slow
@test "08-server 2: a killed client is noticed at once" {
	beside 'raise(9)'
	says "$stderr" "Connection reset by peer"
}

# bats test_tags=slow
@test "08-server 3: a domain cannot be freed before its regions" {
	start_command "$(changed 08-server server '/^\tgood\(c->pd \? ibv_dealloc/d
		s/^static void destroy\(.*/&/
		/^static void destroy/,/^}/s/^\tif \(c->id->qp\)/\tgood(c->pd ? ibv_dealloc_pd(c->pd) : 0, "free a protection domain");\n&/')"
	on b "$LESSONS/03-write/write" 192.0.2.1 "$port"
	kill -s TERM "$server"
	await_end server
	says "$stderr" "cannot free a protection domain: Device or resource busy"
}

# ---- 09-srq ----

# srq SCRIPT: run lesson 9 with two clients, and a server that this sed script has changed.
srq() {
	start_command sh -c "exec 2>&1; exec $(changed 09-srq server "$1")"
	on b sh -c "$LESSONS/09-srq/client 192.0.2.1 $port & $LESSONS/09-srq/client 192.0.2.1 $port; wait"
	await_end server
	server_said=$(<"$server_out")
	echo "$server_said"
}

# bats test_tags=slow
@test "09-srq 1: without the limit no event comes, and the reserve does the work" {
	srq '/^\tarm_limit\(\); +\/\* step 3/d'
	says "$server_said" "0 limit events"
	[[ $server_said == *"80 messages of 2 clients"* ]]
}

# bats test_tags=slow
@test "09-srq 2: an event disarms the limit" {
	srq '/^\tarm_limit\(\);$/d'
	says "$server_said" "1 limit events"
}

# bats test_tags=slow
@test "09-srq 3: an empty SRQ blocks the clients over RoCE, and ends a connection over iWARP" {
	alarm=10 srq '/^\tlimits\+\+;/{n;d}; s/posted <= CLIENTS/false/'
	[[ $server_said != *"80 messages of 2 clients"* ]]
	[ "$LAB_TRANSPORT" = siw ] || [ "$status" -eq 142 ]
}

# ---- 10-datagram ----

NO_UD="iWARP has no datagrams"

# bats test_tags=slow
@test "10-datagram 1: with a receive for each datagram all are answered" {
	needs_roce "$NO_UD"
	pair 10-datagram 's/(define RECEIVES +)4/\16/' ''
	works
	says "$(told)" "every datagram is answered"
	[[ $said == *"0 without an answer" ]]
}

# bats test_tags=slow
@test "10-datagram 2: datagrams with another QKEY are dropped" {
	needs_roce "$NO_UD"
	pair 10-datagram 's/alarm\(30\)/alarm(20)/' 's/remote->qkey \}/remote->qkey + 1 }/'
	[ "$status" -eq 0 ]
	[[ $said == *"6 datagrams sent"*"6 without an answer" ]]
	[ "$server_status" -eq 142 ]
}

# bats test_tags=slow
@test "10-datagram 3: the header needs 40 bytes of each receive" {
	needs_roce "$NO_UD"
	pair 10-datagram 's/sizeof\(incoming\[i\]\),$/40,/' ''
	says "$server_said" "cannot complete a request: local QP operation error"
}

# ---- 11-by-hand ----

BY_CM="iWARP connects queue pairs by its connection manager alone"

# by_hand SERVER_SCRIPT CLIENT_SCRIPT: run lesson 11, changed by these sed scripts unless they are empty.
by_hand() {
	local server=$LESSONS/11-by-hand/by-hand client=$LESSONS/11-by-hand/by-hand
	[ -z "$1" ] || server=$(changed 11-by-hand by-hand "$1" -a)
	[ -z "$2" ] || client=$(changed 11-by-hand by-hand "$2" -b)
	session "$server" "$client"
}

UC='s/(type = )IBV_QPT_RC/\1IBV_QPT_UC/'

# bats test_tags=slow
@test "11-by-hand 1: UC works with fewer attributes, and refuses those of RC and READ" {
	needs_roce "$BY_CM"
	by_hand "$UC" "$UC"
	[ "$status $server_status" = "0 0" ]
	[[ $server_said == *"1 messages received, 0 receives flushed, 1 written" ]]
	by_hand "$UC" "$UC; 0,/if \(type == IBV_QPT_RC\)/s///"
	says "$said" "cannot move the queue pair to RTR: Invalid argument"
	by_hand "$UC" "$UC; s/IBV_WR_RDMA_WRITE/IBV_WR_RDMA_READ/"
	says "$said" "cannot complete a request: local QP operation error"
}

# bats test_tags=slow
@test "11-by-hand 2: on a lossy wire RC delivers all messages, UC loses some" {
	needs_roce "$BY_CM"
	local many='s/(define ROUNDS +)1/\1200/'
	repair="lab disturb"
	lab disturb loss 5%
	by_hand "$many" "$many"
	[ "$status $server_status" = "0 0" ]
	says "$server_said" "200 messages received"
	by_hand "$many; $UC" "$many; $UC"
	[ "$status $server_status" = "0 0" ]
	[[ $server_said =~ ([0-9]+)" messages received, "([0-9]+)" receives flushed" ]]
	[ "${BASH_REMATCH[1]}" -gt 100 ] && [ "${BASH_REMATCH[1]}" -lt 200 ]
	[ $((BASH_REMATCH[1] + BASH_REMATCH[2])) -eq 200 ]
}

# bats test_tags=slow
@test "11-by-hand 3: with a wrong PSN nothing arrives over RC, and everything over UC" {
	needs_roce "$BY_CM"
	by_hand 's/(rq_psn = be32toh\(peer.psn\))/\1 - 1/' ''
	says "$said" "transport retry counter exceeded"
	by_hand 's/(rq_psn = be32toh\(peer.psn\))/\1 + 100000/' ''
	[[ $server_said != *"1 messages received"* ]]
	by_hand "$UC; s/(rq_psn = be32toh\(peer.psn\))/\1 - 1/" "$UC"
	[[ $server_said == *"1 messages received, 0 receives flushed, 1 written" ]]
}

# bats test_tags=slow
@test "11-by-hand 4: a GID index of the other family, or without a GID, is refused" {
	needs_roce "$BY_CM"
	by_hand '' 's/(define GID_INDEX +)1/\12/'
	says "$said" "cannot move the queue pair to RTR: Invalid argument"
	by_hand '' 's/(define GID_INDEX +)1/\19/'
	says "$said" "cannot move the queue pair to RTR: No data available"
}

# bats test_tags=slow
@test "11-by-hand 5: a timeout below the delay of the wire uses up the retries" {
	needs_roce "$BY_CM"
	repair="lab disturb"
	lab disturb delay 50ms
	by_hand '' 's/(define TIMEOUT +)14/\11/'
	says "$said" "transport retry counter exceeded"
	by_hand '' ''
	[ "$status $server_status" = "0 0" ]
}

# ---- 12-lists ----

# lists SERVER_SCRIPT CLIENT_SCRIPT: run lesson 12, changed by these sed scripts unless they are empty.
lists() {
	local server=$LESSONS/12-lists/server client=$LESSONS/12-lists/client
	[ -z "$1" ] || server=$(changed 12-lists server "$1")
	[ -z "$2" ] || client=$(changed 12-lists client "$2")
	session "$server" "$client"
}

# bats test_tags=slow
@test "12-lists 1: the pieces of sender and receiver need not match, but the message must fit" {
	lists '' 's/(request = \{ .*sg_list = )list/\1(struct ibv_sge[]){{ (uintptr_t)\&memory, sizeof(memory), mr->lkey }}/
		s/num_sge = PIECES/num_sge = 1/'
	[ "$status $server_status" = "0 0" ]
	[ "$(grep -c '^24 bytes: message [1-4] fetched$' <<<"$server_said")" -eq 4 ]
	alarm=10 lists 's/(define PIECES +)3/\12/' ''
	[ "$server_status" -ne 0 ]
	[[ $server_said != *"bytes:"* ]]
}

# bats test_tags=slow
@test "12-lists 2: a queue that is armed for every completion wakes the server before the last message" {
	lists 's/ibv_req_notify_cq\((cq|source), 1\)/ibv_req_notify_cq(\1, 0)/' 's/^\tawait\(number\);/&\n\tusleep(200000);/'
	[ "$status $server_status" = "0 0" ]
	[ "$(grep -c '^24 bytes: message [1-4] fetched$' <<<"$server_said")" -eq 4 ]
	says "$server_said" awake
	[ "$LAB_TRANSPORT" = siw ] || [ "$(grep -c awake <<<"$server_said")" -gt 1 ]
}

# bats test_tags=slow
@test "12-lists 3: an overrun completion queue loses completions, and the device reports it" {
	alarm=10 lists 's/ibv_resize_cq\(cq, MESSAGES\)/0/' 's/alarm\(30\)/alarm(10)/'
	says "$server_said" "the completion queue has 1 entries"
	says "$server_said" "device event: CQ error"
	[[ $server_said != *"message 4"* ]]
	# over soft-iWARP the client may succeed, fail, or wait until its alarm
	[ "$LAB_TRANSPORT" = siw ] || [ "$status" -eq 142 ]
}

# bats test_tags=slow
@test "12-lists 4: a fenced SEND follows the READ" {
	changed 12-lists client 's/(fence = )false/\1true/'
	skip "a fenced SEND may never be sent over Soft-RoCE and soft-iWARP (Linux 6.1)"
}

# ---- 13-multicast ----

# multicast RECEIVER_SCRIPT SENDER_SCRIPT: run lesson 13 with one receiver, changed by these sed scripts unless they are empty.
multicast() {
	local receiver=$LESSONS/13-multicast/multicast sender=$LESSONS/13-multicast/multicast
	needs_roce "iWARP has no datagrams"
	alarm=15
	[ -z "$1" ] || receiver=$(changed 13-multicast multicast "$1" -a)
	[ -z "$2" ] || sender=$(changed 13-multicast multicast "$2" -b)
	start server a sh -c "exec 2>&1; exec $receiver 192.0.2.1"
	wait_for_line "$server_out" '^joined' "$server"
	on b sh -c "$sender 192.0.2.1 5 2>&1"
	said=$output client_status=$status
	await_end server
	server_status=$status status=$client_status server_said=$(<"$server_out")
}

# bats test_tags=slow
@test "13-multicast 1: a receiver in another group gets nothing" {
	multicast 's/(define GROUP +"233.252.0.)1/\12/' ''
	[ "$server_status" -eq 142 ]
	[ "$server_said" = "joined 233.252.0.2" ]
	[ "$status" -eq 0 ]
	[ "$(grep -c ' from ' <<<"$said")" -eq 1 ]
}

# bats test_tags=slow
@test "13-multicast 2: ibv_init_ah_from_wc() refuses a datagram to the group" {
	local path='ibv_init_ah_from_wc(id->verbs, id->port_num, \&wc, \&memory.incoming[wc.wr_id].header, \&path)'
	multicast "s/^\tsend_number\(ntohl/\tcheck($path, \"find the path to the sender\");\n&/" ''
	says "$server_said" "Invalid argument"
}

# bats test_tags=slow
@test "13-multicast 3: a datagram with another QKEY is dropped" {
	multicast 's/alarm\(30\)/alarm(15)/' 's/joined.qkey\)/joined.qkey + 1)/'
	[ "$status" -eq 0 ]
	[ "$said" = "joined 233.252.0.1" ]
	[ "$server_status" -eq 142 ]
}
