#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Payloads of any size, through rings of bounded memory: files and pipes, little memory, slow disks and wires, lost packets.
# The files are in $LAB/share, where hosts may write. Small limits on locked memory make short rings, so that few bytes make
# a long stream. Scripts in single quotes are expanded on the hosts.
# shellcheck shell=bash disable=SC2016,SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set and use the variables

load helpers

setup() {
	folder=$(mktemp -d "$LAB/share/streams.XXXXXX")
}

# shell_client SCRIPT ARGUMENT...: run a shell on host b, in which $CLIENT is rdma-client; sets $status and $stderr.
shell_client() {
	on b env CLIENT="$PROGRAMS/rdma-client" sh -c "$1" - "${@:2}"
}

# both_arrived: check that each side has stored exactly the bytes that the other side sent.
both_arrived() {
	cmp "$folder/there" "$folder/arrived-there" && cmp "$folder/back" "$folder/arrived-back"
}

# exchange MODE LENGTH-THERE LENGTH-BACK [LIMIT-THERE [LIMIT-HERE]]: exchange random files of these lengths, from the
# client to the server and back. The server may lock LIMIT-THERE KiB of memory, the client LIMIT-HERE (default: no limit).
exchange() {
	random_file there "$2"
	random_file back "$3"
	start_command "${LIMITED[@]}" "${4:-unlimited}" "$PROGRAMS/rdma-server" -1 -t "$LIMIT" \
		-f "$folder/back" -o "$folder/arrived-there" "$1"
	on b "${LIMITED[@]}" "${5:-unlimited}" "$PROGRAMS/rdma-client" -t "$LIMIT" \
		-f "$folder/there" -o "$folder/arrived-back" "$1" 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	expect_end server 0
	both_arrived
	[ "$(count "$folder")" -eq 4 ] # no temporary file is left
	rm "$folder"/*
}

# ---- Lengths ----

# Lengths around 1 KiB (the tutorial's payload), 1 MiB (a work request), 2 MiB (a quarter of a ring) and 8 MiB (a ring);
# a short file in one direction with a long one in the other.
@test "files shorter and longer than a ring arrive byte for byte, in both directions" {
	exchange read 1 8388609
	exchange write 1025 8388608
	exchange read 2097153 1048575
	exchange write 1048577 2097151
}

# peak_below KIB: check the peak of resident memory in the last line of standard input, a line of /proc/PID/status.
peak_below() {
	local peak
	peak=$(sed -n '$s/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p')
	echo "peak of resident memory: $peak KiB"
	[ "$peak" -le "$1" ]
}

# A side that kept one complete file in memory, next to the ring of the other file, would need more. The stored files
# are in the hosts' memory, which is faster than the share.
# bats test_tags=roce,slow
@test "16 MiB in both directions take at most 24 MiB of memory on each side" {
	random_file there 16777216
	start_server -t "$LIMIT" -f "$folder/there" -o /run/arrived write
	shell_client '"$CLIENT" -t "$1" -f "$2/there" -o /run/arrived write 192.0.2.1 "$3" &
		while grep VmHWM "/proc/$!/status"; do sleep 0.1; done >"$2/memory"
		wait "$!" && cmp "$2/there" /run/arrived && rm /run/arrived' "$LIMIT" "$folder" "$port"
	expect 0
	peak_below 24576 <"$folder/memory"
	wait_for_line "$server_out" "peer disconnected" "$server"
	lab run a sh -c 'grep VmHWM "/proc/$(pidof rdma-server)/status" >"$1/memory" &&
		cmp "$1/there" /run/arrived && rm /run/arrived' - "$folder"
	peak_below 24576 <"$folder/memory"
	stop_server
}

# ---- Pipes ----

@test "pipes longer than a ring arrive in both directions; with '--output -' standard output gets only the payload" {
	random_file there 8500000
	random_file back 9000001
	start_command sh -c 'cat "$1/back" | "$2" -1 -f - -o "$1/arrived-there" read' - "$folder" "$PROGRAMS/rdma-server"
	shell_client 'cat "$1/there" | "$CLIENT" -f - -o - read 192.0.2.1 "$2" >"$1/arrived-back"' "$folder" "$port"
	expect 0 "remote buffer: "
	expect_end server 0
	both_arrived
}

# The sender writes the second line to the pipe after the first line has arrived.
# bats test_tags=roce
@test "a trickling pipe is sent without delay" {
	start_server -1 -t "$LIMIT" -o - write
	{ await grep -q first "$server_out" && touch "$folder/arrived"; } 3>&- &
	shell_client '{
			echo first
			until [ -e "$1/arrived" ]; do sleep 0.05; done
			echo second
		} | "$CLIENT" -t "$2" -f - write 192.0.2.1 "$3"' "$folder" "$LIMIT" "$port"
	expect 0
	expect_end server 0
	[ "$(<"$server_out")" = $'first\nsecond' ]
}

# ---- Little memory ----

@test "transfers work with only 64 KiB of lockable memory on one side or on both" {
	exchange read 300000 200000 64 unlimited
	exchange write 300000 200000 1024 64
	exchange read 300000 200000 64 64
}

# The user runs the hosts' copies of the programs, because other users may not enter the project's folder or $folder.
@test "an ordinary user with a limit of 8 MiB of locked memory sends a file of 10 MB" {
	local -a ordinary=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all)
	ordinary+=(sh -c 'ulimit -l 8192 && exec "$@"' sh)
	random_file there 10000000
	lab run b cp "$folder/there" /run/there
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

# ---- Files that a killed receiver leaves ----

# "lab run" waits until the killed server has ended.
@test "a receiver that is killed in the middle of a stream leaves at most a private temporary file" {
	lab run a mkdir /run/to
	start_server -1 -t "$LIMIT" -o /run/to/file write
	start client b sh -c '{ head -c 4M /dev/zero; until [ -e "$2/over" ]; do sleep 0.1; done; head -c 4M /dev/zero; } |
			"$1" -t "$3" -f - write 192.0.2.1 "$4"' - "$PROGRAMS/rdma-client" "$folder" "$LIMIT" "$port"
	await lab run a sh -c 'test -s /run/to/rdma-payload-*'
	end server
	touch "$folder/over"
	expect_end client "4|6" # 4: an operation was rejected before the disconnection arrived
	[ "$(lab run a find /run/to -type f -printf '%f %m\n')" = "$(lab run a sh -c 'cd /run/to && echo rdma-payload-* 600')" ]
	lab run a rm -r /run/to
}

# ---- Slow disks and pipes ----

# mount_slowly: mount the disk of 1 MB/s on host a.
mount_slowly() {
	lab run a mkdir /run/disk
	repair=unmount_slowly
	lab run a mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none slow /run/disk
}

# unmount_slowly: unmount that disk once it has finished its pending writes.
unmount_slowly() {
	lab run -w "$LIMIT" a umount /run/disk
	lab run a rmdir /run/disk
}

# fake-streams.bats has a slow disk and a short --timeout, in simulated time: on a busy host this disk may be slower than any
# short --timeout.
# bats test_tags=roce
@test "a file is stored completely on a disk of 1 MB/s" {
	mount_slowly
	random_file there 4000000
	start_server -1 -t "$LIMIT" -o /run/disk/arrived write
	client --one-way -t "$LIMIT" -f "$folder/there" write 192.0.2.1 "$port"
	expect 0
	expect_end server 0
	lab run a sh -c 'cmp "$1" /run/disk/arrived && rm /run/disk/arrived' - "$folder/there"
}

# The server's helper is still in write(2) when the session and the server end.
# bats test_tags=roce
@test "if the sender is killed, the receiver removes the incomplete file from a slow disk before it exits" {
	mount_slowly
	start_server -1 -t "$LIMIT" -o /run/disk/arrived write
	start_client --one-way -v -t "$LIMIT" -f /dev/zero write 192.0.2.1 "$port"
	wait_for_line "$client_err" 'received MSG_WINDOW' "$client" 3
	end client
	expect_end server "4|6"
	[ -z "$(lab run a ls -A /run/disk)" ]
}

# bats test_tags=slow,roce
@test "a transfer over a wire of 2 Mbit/s succeeds" {
	local start
	repair="lab disturb"
	random_file there 1600000
	start_server -1 -t "$LIMIT" -f "$folder/there" -o "$folder/arrived-there" read
	lab disturb rate 2mbit
	start=$(milliseconds)
	client -t "$LIMIT" -f "$folder/there" -o "$folder/arrived-back" read 192.0.2.1 "$port"
	within 7 "$start" "slow wire" 6
	expect 0
	expect_end server 0
	cmp "$folder/there" "$folder/arrived-there"
	cmp "$folder/there" "$folder/arrived-back"
}

# ---- Files that are replaced ----

# store STATUS MESSAGE COMMAND...: let a client, started by COMMAND, store under /run/shared/file; check how it ends.
store() {
	on b "${@:3}" "$PROGRAMS/rdma-client" -o /run/shared/file read 192.0.2.1 "$port"
	expect "$1" "$2"
}

# In the container, as in the project's image, this user has the id that also stands for all users that are not mapped.
@test "--output replaces a file only if its own user may write to it, and keeps the mode, also in a rootless container" {
	local -a container=(unshare --user --map-user=65534 --map-group=65534)
	local -a incapable=(setpriv --inh-caps=-all --bounding-set=-all)
	lab run b mkdir -m 1777 /run/shared
	start_server read
	store 0 "" "${container[@]}"
	lab run b chmod 664 /run/shared/file
	store 0 "" "${container[@]}"
	[ "$(lab run b stat -c %a /run/shared/file)" = 664 ]
	lab run b chmod 400 /run/shared/file
	store 1 "in '/run/shared/file': Permission denied" "${incapable[@]}"
	lab run b chmod 666 /run/shared/file
	lab run b chown 7 /run/shared/file
	store 1 "cannot store the incoming payload in '/run/shared/file': another user owns this file, pipe, device or symbolic link" "${incapable[@]}"
	store 1 "another user owns this file" env
	store 1 "another user owns this file" "${container[@]}"
	[ "$(lab run b ls -A /run/shared)" = file ]
	lab run b rm -r /run/shared
}

@test "if a one-off server cannot open --output in the middle of a transfer, both sides report it, and the server ends" {
	start_server -1 -o /run/none/file write
	client --one-way -s 20M write 192.0.2.1 "$port"
	expect 4 "the peer gave up"
	expect_end server 1 "cannot store the incoming payload in '/run/none/file': No such file or directory"
}

# ---- Packets lost on the way ----

# The server's rings have only a few pages, so a late or retransmitted packet soon holds back all other data.
# bats test_tags=slow
@test "a stream arrives over a network that loses and reorders packets" {
	repair="lab disturb"
	lab disturb loss 2% delay 1ms reorder 75%
	exchange read 50000 35000 64
	exchange write 50000 35000 64
}

# Both sides use the default --timeout. The second server has a small ring, because its wait begins when the data in it
# has arrived, the client's before.
# bats test_tags=slow
@test "with equal --timeout on both sides, the side with a silent pipe or a stalled reader still reports the reason" {
	start_server -1 -o /run/arrived write
	# shellcheck disable=SC2016 # expanded on the host
	on b bash -c '"$0" --one-way -f <(head -c 300000 /dev/zero; exec sleep 30) write 192.0.2.1 "$1"' "$PROGRAMS/rdma-client" "$port"
	expect 5 "the source of the outgoing payload delivered no data"
	expect_end server 4 "the peer gave up"
	# shellcheck disable=SC2016
	start_command bash -c 'mkfifo /run/unread; sleep 30 </run/unread & exec "$@" -1 -o /run/unread write' - \
		"${LIMITED[@]}" 64 "$PROGRAMS/rdma-server"
	client --one-way -s 20M write 192.0.2.1 "$port"
	expect 4 "the peer gave up"
	expect_end server 5 "storing the incoming payload made no progress"
}
