#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Payloads of any size, through rings of bounded memory: files and pipes, little memory, slow and full disks, slow wires.
# Files lie in $LAB/share, where hosts may write. Small limits on locked memory make short rings: long streams of few bytes.
# Scripts in single quotes are expanded on the hosts.
# shellcheck shell=bash disable=SC2016,SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set and use the variables

load helpers

: "${PROGRAMS:?}" # set by helpers.bash

setup_file() {
	prepare_hosts a b
}

setup() {
	folder=$(mktemp -d "$LAB/share/streams.XXXXXX")
}

# shell_client SCRIPT ARGUMENT...: a shell on host b, whose $CLIENT is the program; sets $status and $stderr.
shell_client() {
	on b env CLIENT="$PROGRAMS/rdma-client" sh -c "$1" - "${@:2}"
}

# server_ends STATUS [TEXT]: by itself, and says so.
server_ends() {
	wait_server
	[ "$status" -eq "$1" ] || { echo "server: exit status $status instead of $1"; return 1; }
	[ -z "${2:-}" ] || grep -q -e "$2" "$server_err"
}

# both_arrived: what either side has stored is what the other one sent.
both_arrived() {
	cmp "$folder/there" "$folder/arrived-there" && cmp "$folder/back" "$folder/arrived-back"
}

# exchange MODE LENGTH-THERE LENGTH-HERE: random files, from the client to the server and back.
exchange() {
	random_file there "$2"
	random_file back "$3"
	start_server -1 -f "$folder/back" -o "$folder/arrived-there" "$1"
	client -f "$folder/there" -o "$folder/arrived-back" "$1" 192.0.2.1 "$port"
	expect 0
	server_ends 0
	both_arrived
	[ "$(count "$folder")" -eq 4 ] # nothing temporary is left
	rm "$folder"/*
}

# exchange_each MODE LENGTH...: files of each length, short ones against long ones, which go there and back by turns. Of
# each the one side is who operates in one mode, the other side in the other.
exchange_each() {
	local mode=$1 lengths=("${@:2}") number short long
	for ((number = 0; 2 * number < ${#lengths[@]}; number++)); do
		short=${lengths[number]} long=${lengths[-1 - number]}
		if [ $((number % 2)) -eq 0 ]; then exchange "$mode" "$short" "$long"; else exchange "$mode" "$long" "$short"; fi
	done
}

# ---- Lengths ----

# A terminated text, a page, a work request (1 MiB), a quarter of a ring, a ring (8 MiB): one less and one more, too.
LENGTHS="1 1023 1024 1025 4096 1048575 1048576 1048577 2097151 2097152 2097153 8388607 8388608 8388609"

# Soft-iWARP, of which nothing here depends on the length, gets each second one.
FEWER="1 1024 4096 1048576 2097151 2097153 8388608"
[ "$LAB_TRANSPORT" = siw ] || FEWER=$LENGTHS

@test "files of any length arrive byte for byte, both ways: read" {
	# shellcheck disable=SC2086 # several
	exchange_each read $FEWER
}

@test "files of any length arrive byte for byte, both ways: write" {
	# shellcheck disable=SC2086 # several
	exchange_each write $FEWER
}

# peak_below KIB: of resident memory, by the last line of standard input, as in /proc/PID/status.
peak_below() {
	local peak
	peak=$(sed -n '$s/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p')
	echo "peak of resident memory: $peak KiB"
	[ "$peak" -le "$1" ]
}

# With one of the two files whole in memory, beside the other's ring, it would be more. The memory of the hosts is faster
# than what they share with this machine.
# bats test_tags=roce
@test "16 MiB both ways take less than 24 MiB of memory on each side" {
	local mode
	random_file there 16777216
	for mode in read write; do
		start_server -t "$LIMIT" -f "$folder/there" -o /run/arrived "$mode"
		shell_client '"$CLIENT" -t "$1" -f "$2/there" -o /run/arrived "$3" 192.0.2.1 "$4" &
			while grep VmHWM "/proc/$!/status"; do sleep 0.1; done >"$2/memory"
			wait "$!" && cmp "$2/there" /run/arrived && rm /run/arrived' \
			"$LIMIT" "$folder" "$mode" "$port"
		expect 0
		peak_below 24576 <"$folder/memory"
		wait_for_line "$server_out" "peer disconnected" "$server"
		lab run a sh -c 'grep VmHWM "/proc/$(pidof rdma-server)/status" >"$1/memory" &&
			cmp "$1/there" /run/arrived && rm /run/arrived' - "$folder"
		peak_below 24576 <"$folder/memory"
		stop_server
		expect 0
	done
}

# bats test_tags=roce
@test "a sparse file that grows while it is sent arrives as it was at the beginning" {
	local length=25165824 mode
	truncate -s "$length" "$folder/there"
	printf end | dd of="$folder/there" bs=1 seek=$((length - 3)) conv=notrunc status=none
	cp --sparse=always "$folder/there" "$folder/expected"
	for mode in read write; do
		start_server -1 -t "$LIMIT" -o "$folder/arrived" "$mode"
		start_client -v -t "$LIMIT" -f "$folder/there" "$mode" 192.0.2.1 "$port"
		wait_for_line "$client_err" MSG_WINDOW "$client"
		echo more >>"$folder/there"
		wait_client
		expect 0
		server_ends 0
		cmp "$folder/expected" "$folder/arrived"
		truncate -s "$length" "$folder/there"
	done
}

# bats test_tags=roce
@test "a file that becomes shorter while it is sent: both sides say so, nothing is stored" {
	local mode
	for mode in read write; do
		truncate -s 256M "$folder/there"
		start_server -1 -t "$LIMIT" -o "$folder/arrived" "$mode"
		start_client -v -t "$LIMIT" -f "$folder/there" "$mode" 192.0.2.1 "$port"
		wait_for_line "$client_err" MSG_WINDOW "$client"
		truncate -s 9000000 "$folder/there"
		wait_client
		expect 1 "cannot read '$folder/there': it was cut short"
		server_ends 4 "the peer gave up: it could not read what it sends"
		[ "$(count "$folder")" -eq 1 ]
	done
}

# ---- Pipes ----

@test "pipes that are longer than a ring, both ways" {
	local mode
	random_file there 8500000
	random_file back 9000001
	for mode in read write; do
		start_command sh -c 'cat "$1/back" | "$2" -1 -f - -o "$1/arrived-there" "$3"' - "$folder" \
			"$PROGRAMS/rdma-server" "$mode"
		shell_client 'cat "$1/there" | "$CLIENT" -f - -o - "$2" 192.0.2.1 "$3" >"$1/arrived-back"' \
			"$folder" "$mode" "$port"
		expect 0
		server_ends 0
		both_arrived
		rm "$folder"/arrived-*
	done
}

# bats test_tags=roce
@test "a server of several clients keeps a copy of its pipe" {
	local number
	random_file back 8500000
	start_command sh -c 'mkfifo /run/pipe && { cat "$1" >/run/pipe & } && exec "$2" -f - read </run/pipe' - \
		"$folder/back" "$PROGRAMS/rdma-server"
	for number in 1 2; do
		client --one-way -o "$folder/arrived$number" read 192.0.2.1 "$port"
		expect 0
		cmp "$folder/back" "$folder/arrived$number"
	done
	stop_server
	lab run a rm /run/pipe
}

# The second line is written when the first has arrived.
@test "a trickling pipe is sent as it comes" {
	local mode
	for mode in read write; do
		start_quiet_server -1 -t "$LIMIT" -o - "$mode"
		{ await grep -q first "$server_out" && touch "$folder/$mode"; } 3>&- &
		shell_client '{
				echo first
				until [ -e "$1/$2" ]; do sleep 0.05; done
				echo second
			} | "$CLIENT" -t "$3" -f - "$2" 192.0.2.1 "$4"' "$folder" "$mode" "$LIMIT" "$port"
		expect 0
		server_ends 0
		[ "$(<"$server_out")" = $'first\nsecond' ]
	done
}

@test "an empty pipe is refused before anything is connected" {
	shell_client ': | "$CLIENT" -f - read 192.0.2.1 1'
	expect 1 "it is empty; a payload has one byte at least"
	on a sh -c ': | "$1" -f - read' - "$PROGRAMS/rdma-server"
	expect 1 "it is empty; a payload has one byte at least"
}

@test "a pipe that is silent for --timeout ends the session on both sides, in words" {
	local mode
	for mode in read write; do
		start_server -1 -t "$LIMIT" -o "$folder/arrived" "$mode"
		shell_client 'mkfifo /run/pipe && exec 3<>/run/pipe && echo beginning >&3 || exit
			"$CLIENT" -t 5 -f - "$1" 192.0.2.1 "$2" </run/pipe
			status=$? && rm /run/pipe && exit "$status"' "$mode" "$port"
		expect 5 "nothing more came of what this side sends for the time of --timeout"
		server_ends 4 "the peer gave up: it could not read what it sends"
		[ ! -e "$folder/arrived" ]
	done
}

@test "tar on both ends" {
	mkdir "$folder/from" "$folder/to"
	cp -r "$top/tests/unit" "$top/tests/peer" "$folder/from"
	background a "$BATS_TEST_TMPDIR/tar" "$BATS_TEST_TMPDIR/server.err" \
		sh -c '"$1" -1 -o - write | tar x -C "$2"' - "$PROGRAMS/rdma-server" "$folder/to"
	server=$! server_err=$BATS_TEST_TMPDIR/server.err
	await_port "$server_err" "$server"
	shell_client 'tar c -C "$1" . | "$CLIENT" --one-way -f - write 192.0.2.1 "$2"' "$folder/from" "$port"
	expect 0
	server_ends 0
	diff -r "$folder/from" "$folder/to"
}

# ---- Little memory ----

@test "each side may lock as much as it may: 64 KiB, 1 MiB, 8 MiB, all" {
	local mode there here
	random_file there 300000
	random_file back 200000
	while read -r mode there here; do
		limited_server "-l $there" -1 -f "$folder/back" -o "$folder/arrived-there" "$mode"
		limited_client "-l $here" -f "$folder/there" -o "$folder/arrived-back" "$mode" 192.0.2.1 "$port"
		expect 0
		[ -z "$stderr" ]
		server_ends 0
		both_arrived
		rm "$folder"/arrived-*
	done <<-END
	read 64 unlimited
	write 64 unlimited
	read unlimited 64
	write unlimited 64
	read 64 64
	write 1024 64
	read 8192 1024
	END
}

# It runs the hosts' copies: the project's own folder may be below one that is not for everybody, either.
@test "an ordinary user, who may lock 8 MiB, sends a file of 10 MB" {
	local -a ordinary=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all)
	ordinary+=(sh -c 'ulimit -l 8192 && exec "$@"' sh)
	random_file there 10000000
	lab run b cp "$folder/there" /run/there # $folder is not for everybody
	start_command "${ordinary[@]}" "/run/programs$PROGRAMS/rdma-server" -o /tmp/arrived write
	on b "${ordinary[@]}" "/run/programs$PROGRAMS/rdma-client" -f /run/there write 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	wait_for_line "$server_out" "peer disconnected" "$server"
	stop_server
	[ ! -s "$server_err" ]
	lab run a cmp "$folder/there" /tmp/arrived
	lab run b rm /run/there
	lab run a rm /tmp/arrived
}

# With about 45 sessions at a time ibv_create_cq(3) begins to fail over soft-iWARP, and says no errno; and a connect request
# that is not answered in ten seconds is given up there.
@test "64 clients at a time (8 over soft-iWARP), with little memory for all of them" {
	local clients=64
	[ "$LAB_TRANSPORT" != siw ] || clients=8
	random_file there 100000
	limited_server "-l $((32 * clients))" -t "$LIMIT" read
	shell_client 'for number in $(seq "$4"); do
			"$CLIENT" -t "$1" -f "$2" read 192.0.2.1 "$3" &
			clients="$clients $!"
		done
		for client in $clients; do wait "$client" || exit 1; done' "$LIMIT" "$folder/there" "$port" "$clients"
	expect 0
	[ -z "$stderr" ]
	wait_for_line "$server_out" "peer disconnected" "$server" "$clients"
	stop_server
	expect 0
	[ "$(grep -c 'peer disconnected' "$server_out")" -eq "$clients" ]
	[ ! -s "$server_err" ]
}

# ---- Repeated operations ----

@test "--iters and --verify-all, shorter and longer than a ring, one or many work requests at a time" {
	local mode options size stores there
	for mode in read write; do
		stores=() there=(-o "$folder/there")
		[ "$mode" = write ] || { stores=("${there[@]}") && there=(); }
		limited_server "-l 64" "${there[@]}" -s 30000 "$mode"
		while read -r size options; do
			# shellcheck disable=SC2086 # several options
			client -J "${stores[@]}" -s "$size" $options "$mode" 192.0.2.1 "$port"
			expect 0
			[ "$(json verified received_bytes)" = $'True\n30000' ]
			[[ $options != *-n* ]] || [ "$(json operations)" -eq 5 ]
			[ "$mode" = write ] || size=30000
			[ "$(stat -c %s "$folder/there")" -eq "$size" ] # of all passes the first
		done <<-END
		3000 -n 5
		3000 -n 5 --verify-all
		40000 -n 5
		40000 -n 5 --verify-all --depth 1
		40000 --depth 65536
		END
		stop_server
		expect 0
	done
}

# ---- Disks that are full, or gone ----

# cannot_store MODE PLACE LIMIT REASON: the client or, in write mode, the server stores a stream without end there.
cannot_store() {
	if [ "$1" = write ]; then
		limited_server "$3" -1 -t "$LIMIT" -o "$2" write
		client --one-way -t "$LIMIT" -f /dev/zero write 192.0.2.1 "$port"
		expect 4 "the peer gave up: it could not read what it sends, or keep what it receives"
		server_ends 1 "cannot store in '$2': $4"
	else
		start_server -1 -t "$LIMIT" -f /dev/zero read
		limited_client "$3" --one-way -t "$LIMIT" -o "$2" read 192.0.2.1 "$port"
		expect 1 "cannot store in '$2': $4"
		server_ends 4 "the peer gave up: it could not read what it sends, or keep what it receives"
	fi
}

# bats test_tags=roce
@test "the disk is full, or the file too long, in the middle of a stream: both sides say so, nothing is left" {
	local mode host
	for mode in read write; do
		host=a
		[ "$mode" = write ] || host=b
		lab run "$host" sh -c 'mkdir -p /run/small && mount -t tmpfs -o size=2m tmpfs /run/small'
		cannot_store "$mode" /run/small/file "-f unlimited" "No space left on device"
		[ -z "$(lab run "$host" ls -A /run/small)" ]
		lab run "$host" umount /run/small
		cannot_store "$mode" "$folder/arrived" "-f 4096" "File too large"
		cannot_store "$mode" /dev/full "-f unlimited" "No space left on device"
		[ "$(count "$folder")" -eq 0 ]
	done
}

# start_source SCRIPT: a client that sends what a pipe has, 4 MiB, then as many once the script has ended, whose $2 is
# $folder.
start_source() {
	client_err=$BATS_TEST_TMPDIR/client.err
	background b /dev/null "$client_err" sh -c '{ head -c 4M /dev/zero; '"$1"'; head -c 4M /dev/zero; } |
			"$1" -t "$3" -f - write 192.0.2.1 "$4"' - "$PROGRAMS/rdma-client" "$folder" "$LIMIT" "$port"
	client=$!
}

# has_files FOLDER COUNT
has_files() {
	[ "$(count "$1")" -eq "$2" ]
}

# bats test_tags=roce
@test "the folder goes in the middle of a stream: both sides say so" {
	mkdir "$folder/to"
	start_server -1 -t "$LIMIT" -o "$folder/to/file" write
	start_source 'while [ -e "$2/to" ]; do sleep 0.05; done'
	await has_files "$folder/to" 1 # one that is being written; the folder knows no file without a name
	rm -r "$folder/to"
	wait_client
	expect 4 "the peer received the payload and could not store it"
	server_ends 1 "all is received and verified, but cannot be stored in '$folder/to/file': No such file or directory"
	[ "$(count "$folder")" -eq 0 ]
}

# On a file system with O_TMPFILE: the folders of this machine are shared without.
@test "a receiver that is killed in the middle of a stream leaves no file" {
	lab run a mkdir /run/to
	start_server -1 -t "$LIMIT" -o /run/to/file write
	start_source 'until [ -e "$2/over" ]; do sleep 0.1; done'
	await lab run a sh -c 'ls -l "/proc/$(pidof rdma-server)/fd" | grep "/run/to/.*(deleted)"'
	stop_server KILL
	touch "$folder/over"
	wait_client
	[ "$status" -eq 6 ] || [ "$status" -eq 4 ] # an operation may be refused first
	lab run a rmdir /run/to                    # begins when nothing is left of the server
}

# It is longer than what both rings take, so that its end is far when the receiver gives up.
# bats test_tags=roce
@test "a stream of unknown length may not pass --max-size" {
	local mode
	for mode in read write; do
		start_server -1 -t "$LIMIT" --max-size 1M -o "$folder/arrived" "$mode"
		shell_client 'head -c 40000000 /dev/zero | "$CLIENT" -t "$1" -f - "$2" 192.0.2.1 "$3"' "$LIMIT" "$mode" "$port"
		expect 4 "the peer gave up"
		server_ends 4 "the peer sends more than the 1048576 bytes that --max-size allows here"
		[ "$(count "$folder")" -eq 0 ]
	done
}

# ---- What is slow, but moves ----

# read_slowly HOST PIPE FILE COUNT BYTES PAUSE: so many pieces of so many bytes, one every PAUSE seconds.
read_slowly() {
	lab run "$1" sh -c 'exec <"$1" >"$2"; for piece in $(seq "$3"); do head -c "$4"; sleep "$5"; done' - "${@:2}" 3>&- &
}

# The server's ring is as long as the payload, the client's is shorter: either way most is stored behind MSG_DONE.
@test "readers on both sides that take longer than --timeout" {
	local start
	random_file there 1400000
	mkfifo "$folder/pipe-a" "$folder/pipe-b"
	start_server -1 -t 5 -f "$folder/there" -o "$folder/pipe-a" write
	read_slowly a "$folder/pipe-a" "$folder/arrived-a" 14 100000 0.5
	read_slowly b "$folder/pipe-b" "$folder/arrived-b" 14 100000 0.5
	start=$(milliseconds)
	limited_client "-l 2560" -t 5 -f "$folder/there" -o "$folder/pipe-b" write 192.0.2.1 "$port"
	within 8 "$start" "slow readers" 6
	expect 0
	server_ends 0
	await cmp -s "$folder/there" "$folder/arrived-a"
	await cmp -s "$folder/there" "$folder/arrived-b"
}

# The sender has said all that it had to say, its verdict too; it confirms some fifty MSG_WINDOW that come behind that.
@test "a reader on one side, to whom the other has nothing more to send" {
	local start
	random_file there 4200000
	mkfifo "$folder/pipe-a"
	start_server -1 -t 2 -o "$folder/pipe-a" write
	read_slowly a "$folder/pipe-a" "$folder/arrived-a" 60 70000 0.25
	start=$(milliseconds)
	client --one-way -t 2 -f "$folder/there" write 192.0.2.1 "$port"
	within 18 "$start" "slow reader" 13
	expect 0
	server_ends 0
	await cmp -s "$folder/there" "$folder/arrived-a"
}

# mount_slowly: the disk of 1 MB/s, on host a; it has no O_TMPFILE.
mount_slowly() {
	lab run a mkdir /run/disk
	repair=unmount_slowly
	lab run a mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none slow /run/disk
}

# unmount_slowly: waits until what the disk has begun to write is written.
unmount_slowly() {
	lab run -w "$LIMIT" a umount /run/disk
	lab run a rmdir /run/disk
}

# The ring takes most of it at once: that it is kept, bit by bit, is then all that the sender hears of.
# bats test_tags=roce
@test "a disk of 1 MB/s, and a file that takes longer than --timeout" {
	local start
	mount_slowly
	random_file there 9000000
	start_server -1 -t 5 -o /run/disk/arrived write
	start=$(milliseconds)
	client --one-way -t 5 -f "$folder/there" write 192.0.2.1 "$port"
	within 10 "$start" "slow disk" 8
	expect 0
	server_ends 0
	lab run a sh -c 'cmp "$1" /run/disk/arrived && rm /run/disk/arrived' - "$folder/there"
}

# Of a file system without O_TMPFILE. The server's thread that stores is in write(2) when the session ends, and the server.
# bats test_tags=roce
@test "what a slow disk has of a stream whose sender is killed is removed before the receiver ends" {
	mount_slowly
	start_server -1 -t "$LIMIT" -o /run/disk/arrived write
	start_client --one-way -v -t "$LIMIT" -f /dev/zero write 192.0.2.1 "$port"
	wait_for_line "$client_err" 'received MSG_WINDOW' "$client" 3
	kill -s KILL "$client"
	wait_client
	wait_server
	[[ $status =~ ^[46]$ ]]
	[ -z "$(lab run a ls -A /run/disk)" ]
}

@test "a wire of 2 Mbit/s, and a transfer that takes longer than --timeout" {
	local start
	repair="lab disturb"
	random_file there 1600000
	start_server -1 -t 5 -f "$folder/there" -o "$folder/arrived-there" read
	lab disturb rate 2mbit
	start=$(milliseconds)
	client -t 5 -f "$folder/there" -o "$folder/arrived-back" read 192.0.2.1 "$port"
	within 7 "$start" "slow wire" 6
	expect 0
	server_ends 0
	cmp "$folder/there" "$folder/arrived-there"
	cmp "$folder/there" "$folder/arrived-back"
}

# ---- What breaks in the middle of a stream ----

# in_the_middle: a stream from host b to host a, which stores it, is under way; both sides run.
in_the_middle() {
	start_server -1 -t 10 -o "$folder/arrived" write
	start_client --one-way -v -t 10 -f /dev/zero write 192.0.2.1 "$port"
	wait_for_line "$client_err" 'received MSG_WINDOW' "$client" 3
}

# gives_up STATUS: that of a side whose peer is gone, in words; the last megabytes may be refused, or unanswered.
gives_up() {
	[[ $1 =~ ^[56]$ ]] || { echo "exit status $1"; return 1; }
}

# Each time a host has to boot: over soft-iWARP one does in faults.bats.
# bats test_tags=roce
@test "the receiving host loses power in the middle of a stream" {
	in_the_middle
	repair="power_on a"
	lab off a
	wait_client
	gives_up "$status"
	wait_server
}

# bats test_tags=roce
@test "the sending host loses power in the middle of a stream: nothing is left" {
	in_the_middle
	repair="power_on b"
	lab off b
	wait_server
	gives_up "$status"
	[ "$(count "$folder")" -eq 0 ]
	wait_client
}

@test "the network dies in the middle of a stream: both sides say so, nothing is left" {
	in_the_middle
	repair="lab link b up"
	lab link b down
	wait_client
	gives_up "$status"
	wait_server
	gives_up "$status"
	[ "$(count "$folder")" -eq 0 ]
}

# Through rings of a few pages, so that what is late or comes again is always some that all the rest waits for.
@test "a stream over a network that loses and reorders packets" {
	local mode
	random_file there 100000
	random_file back 70000
	repair="lab disturb"
	lab disturb loss 2% delay 1ms reorder 75%
	for mode in read write; do
		limited_server "-l 64" -1 -t "$LIMIT" -f "$folder/back" -o "$folder/arrived-there" "$mode"
		client -t "$LIMIT" -f "$folder/there" -o "$folder/arrived-back" "$mode" 192.0.2.1 "$port"
		expect 0
		server_ends 0
		both_arrived
		rm "$folder"/arrived-*
	done
}
