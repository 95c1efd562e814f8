#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Run each lesson between two hosts with the commands of its README; lessons 3 and 4 also over IPv6, and with our
# programs and the tutorial's.
# shellcheck shell=bash disable=SC2154 # bats and helpers.bash set the variables

load helpers

# transcripts LESSON: print the blocks below "Run it" that have a command of a host, each after a line "block".
transcripts() {
	awk '/^## / { here = $0 == "## Run it" }
		!here || !/^    / { inside = 0; next }
		/^    host [AB]\$ / && !inside { inside = 1; print "block" }
		inside { print substr($0, 5) }' "$top/tests/lessons/$1/README.md"
}

# transcript LESSON: print the block for this transport. If a lesson has two, the second one is for iWARP.
transcript() {
	transcripts "$1" | awk -v siw="$([ "$LAB_TRANSPORT" != siw ] || echo 1)" '
		/^block$/ { if (++number > 1 && siw) text = ""; next }
		number == 1 || siw { text = text $0 "\n" }
		END { printf "%s", text }'
}

# expected HOST: print the output of HOST in the transcript $shown, without the commands.
expected() {
	awk -v host="host $1\$" '/^host [AB]\$ / { here = index($0, host) == 1; next } here' <<<"$shown" | shape
}

# typed HOST NUMBER: print the command of HOST with this number in the transcript $shown, with the address and port of
# this session.
typed() {
	local line
	line=$(sed -n "s/^host $1\\$ //p" <<<"$shown" | sed -n "$2p")
	line=${line//ADDRESS/192.0.2.1}
	echo "${line//PORT/${port:-1}}"
}

# shape: copy standard input, and replace what differs between runs and hosts: ports, device names, GIDs, limit events, the
# size of an SRQ.
shape() {
	sed -E 's/^(listening on port )[0-9]+/\1N/; s/^\S+(: .*(adapter|NIC), node GUID ).*/NAME\1GUID/; s/(GID 0 is ).*/\1GID/
		s/[1-9][0-9]*( limit events)/N\1/; s/^(room for )[0-9]+/\1N/'
}

# lesson NAME: run the commands of the lesson's README, and compare the output of both hosts with it. $signal, if set,
# ends a server that goes on after its clients. $ready, if set, matches the line that two processes of host A print
# when they are ready; their lines may come in any order.
lesson() {
	local shown folder_of=$LESSONS/$1 number=1 printed='' host
	shown=$(transcript "$1")
	[ "$shown" ]
	if ! grep -Eq "${ready:-^listening on port}" <<<"$shown"; then
		for host in A B; do
			[ "$(typed "$host" 1)" ] || continue
			on "${host,}" sh -c "cd $folder_of && { $(typed "$host" 1); } 2>&1"
			expect 0
			diff <(expected "$host") <(shape <<<"$output")
		done
		return
	fi
	start server a sh -c "exec 2>&1; cd $folder_of || exit; exec $(typed A 1)"
	if [ "${ready:-}" ]; then wait_for_line "$server_out" "$ready" "$server" 2; else await_port server; fi
	while [ "$(typed B "$number")" ]; do
		on b sh -c "cd $folder_of && { $(typed B "$number"); } 2>&1"
		expect 0
		printed+=$output$'\n'
		number=$((number + 1))
	done
	[ "$number" -gt 1 ]
	[ -z "${signal:-}" ] || kill -s "$signal" "$server"
	expect_end server 0
	if [ "${ready:-}" ]; then
		diff <(expected A | sort) <(shape <"$server_out" | sort)
	else
		diff <(expected A) <(shape <"$server_out")
	fi
	diff <(expected B) <(shape <<<"${printed%$'\n'}")
}

# exchange SERVER_TEXT CLIENT_TEXT SERVER... -- CLIENT...: check that both programs succeed and print each other's text.
exchange() {
	local server_text=$1 client_text=$2 server_command=()
	shift 2
	while [ "$1" != -- ]; do
		server_command+=("$1")
		shift
	done
	start_command "${server_command[@]}"
	on b "${@:2}" "${address:-192.0.2.1}" "$port"
	expect 0
	[ -z "$stderr" ]
	grep -qx "remote buffer: $server_text" <<<"$output"
	expect_end server 0
	[ -z "$stderr" ]
	grep -qx "remote buffer: $client_text" "$server_out"
}

# interoperates MODE LESSON TEXT: run each side of the lesson with our programs, and with tests/peer as the tutorial's
# program. The lesson's sides send TEXT and their role.
interoperates() {
	local mode=$1 lesson=$LESSONS/$2 text=$3
	exchange "of rdma-server" "$text client" "$PROGRAMS/rdma-server" -1 -t "$LIMIT" -m "of rdma-server" "$mode" -- "$lesson"
	exchange "$text server" "of rdma-client" "$lesson" -- \
		"$PROGRAMS/rdma-client" -t "$LIMIT" -m "of rdma-client" "$mode"
	exchange "message from legacy side" "$text client" "$PEER" server "$mode" -- "$lesson"
	exchange "$text server" "message from legacy side" "$lesson" -- "$PEER" client "$mode"
}

@test "every lesson has a test in this file" {
	local folder
	for folder in "$top"/tests/lessons/*/; do
		folder=${folder%/}
		grep -q "^	lesson ${folder##*/}\$" "$BATS_TEST_FILENAME" || { echo "no row runs ${folder##*/}" && return 1; }
	done
}

@test "each lesson that resolves a name reports why it cannot" {
	local program
	for program in 02-send/client 03-write/write 04-read/read 05-requests/client 06-events/client 07-stream/stream \
		09-srq/client 10-datagram/client; do
		on b "$LESSONS/$program" 192.0.2.1 no-such-service
		expect 1
		[ "$stderr" = "${program#*/}: cannot resolve the name: Servname not supported for ai_socktype" ]
	done
}

# bats test_tags=slow
@test "the server of a lesson ends with the reason if librdmacm does not find the device of a request" {
	local lesson served=(02-send 05-requests 06-events 12-lists)
	[ "$LAB_TRANSPORT" = siw ] || served+=(10-datagram) # iWARP has no datagrams
	for lesson in "${served[@]}"; do
		start_command env LD_PRELOAD="$top/build/preload/unfound.so" UNFOUND=1 "$LESSONS/$lesson/server"
		on b "$LESSONS/$lesson/client" 192.0.2.1 "$port"
		expect 1
		expect_end server 1 "server: cannot find the device of the "
	done
}

# bats test_tags=slow
@test "01-devices prints what its README shows" {
	lesson 01-devices
}

# bats test_tags=slow
@test "02-send prints what its README shows" {
	lesson 02-send
}

@test "03-write prints what its README shows" {
	lesson 03-write
}

# bats test_tags=slow
@test "03-write works over IPv6" {
	address=fd00::1
	exchange "written by the server" "written by the client" "$LESSONS/03-write/write" :: -- "$LESSONS/03-write/write"
}

# bats test_tags=slow
@test "03-write works with rdma-server, rdma-client and the tutorial's programs" {
	interoperates write 03-write/write "written by the"
}

@test "04-read prints what its README shows" {
	lesson 04-read
}

# bats test_tags=slow
@test "04-read works over IPv6" {
	address=fd00::1
	exchange "memory of the server" "memory of the client" "$LESSONS/04-read/read" :: -- "$LESSONS/04-read/read"
}

# bats test_tags=slow
@test "04-read works with rdma-server, rdma-client and the tutorial's programs" {
	interoperates read 04-read/read "memory of the"
}

# bats test_tags=slow
@test "05-requests prints what its README shows" {
	lesson 05-requests
}

# bats test_tags=slow
@test "06-events prints what its README shows" {
	lesson 06-events
}

# bats test_tags=slow
@test "07-stream prints what its README shows" {
	lesson 07-stream
}

# bats test_tags=slow
@test "08-server prints what its README shows" {
	signal=TERM
	lesson 08-server
}

# bats test_tags=slow
@test "09-srq prints what its README shows" {
	lesson 09-srq
}

# bats test_tags=slow
@test "10-datagram prints what its README shows" {
	lesson 10-datagram
}

# bats test_tags=slow
@test "11-by-hand prints what its README shows" {
	lesson 11-by-hand
}

# bats test_tags=slow
@test "12-lists prints what its README shows" {
	lesson 12-lists
}

# bats test_tags=slow
@test "13-multicast prints what its README shows" {
	ready=^joined
	lesson 13-multicast
}
