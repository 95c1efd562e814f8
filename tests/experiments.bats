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

# needs_roce REASON: skip the row over soft-iWARP.
needs_roce() {
	[ "$LAB_TRANSPORT" != siw ] || skip "$1"
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
	lists 's/ibv_req_notify_cq\((cq|source), 1\)/ibv_req_notify_cq(\1, 0)/' ''
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
	[ "$LAB_TRANSPORT" = rxe ] || [ "$status" -eq 0 ]
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
