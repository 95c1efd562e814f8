#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): payloads longer than a ring: files, pipes, patterns, --output, and helpers.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

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
	# one ring of this length leaves less than a page for the other
	every -s 61440	0	payload:61440 memory:65536
	every -s 9000 -n 5	0	ring:1000 payload:50 passes:7
	client --one-way -s 30000	0	[iwarp] write one-way ring:700
	one-off -s 30000	0	[iwarp] one-way ring:700
	# the peer reports its last produced bytes by MSG_DONE alone, without a MSG_WINDOW
	client --one-way	0	one-way payload:9100 ring:3000 DONE-first received-DONE@100
	both -s 100	0	[iwarp] payload:9100 ring:3000 DONE-first received-DONE@100
	# the peer stores slowly after MSG_DONE: after its own verdict the program waits, and confirms the peer's MSG_WINDOWs
	every -s 100000	0	stores:1000
	every -s 10000	0	ring:3000 stores:20000
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
	client -s 500000	0	payload:500000 memory:300000 limited fail:ibv_dereg_mr:1+:16	cannot deregister 147456 bytes of memory: Device or resource busy; they stay locked until this program ends
	server -s 500000	0	write clients:2 payload:500000 memory:900000 limited fail:ibv_dereg_mr:1+:16	bytes of memory: Device or resource busy
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
	outcomes both <<<"4	gives-up:7	the peer could not receive, verify or store this side's payload; see its messages"
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
	local reads="cannot start to read the outgoing payload" starts="cannot start a thread for the session"
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

# A pass of 9,000,000 bytes takes 35 calls of pread(2). It is longer than this side's ring, and fits into the peer's.
@test "streams: the sender reports a file that changes between two passes" {
	use address
	local file=$BATS_TEST_TMPDIR/file
	truncate -s 9000000 "$file"
	outcomes both -f "$file" -n 2 <<-END
	0	[iwarp] write ring:9000000
	1	[iwarp] write ring:9000000 changes:36	cannot read '$file': it changed while it was sent; try again when it no longer changes
	1	write ring:9000000 changes:70	cannot read '$file': it changed while it was sent
	END
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
	local warning="rdma-server: cannot store payloads in '$none': No such file or directory; mend this, or a session whose client sends a payload will fail"
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
	every -t 10 -f $file	5	pread! from:10000 until:13700	: the source of the outgoing payload delivered no data for most of the 10 s of --timeout
	every -t 10 -o $stored	5	fsync! unknown from:11000 until:14700	: received everything, but storing it made no progress for most of the 10 s of --timeout
	every -t 10 -o $stored	5	payload:1700000 memory:300000 fdatasync! from:10000 until:14000	: storing the incoming payload made no progress for
	every -t 10 -o $stored	5	statvfs! from:11000 until:14700	: received everything, but storing it made no progress for most of the 10 s of --timeout
	every -t 10 -o $stored	5	statvfs! payload:1700000 memory:300000 from:10000 until:14000	: storing the incoming payload made no progress for
	END
	[ ! -e "$stored" ]
}
