#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): sessions that end well, and what a peer or a driver may say in them.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

@test "both programs print the expected transcripts and exit with 0, for each operation and transport" {
	use address
	local leaks=yes
	happy_path
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
	one-off	143	tutorial	refused: the client is no program of this project, so its mode is not known; start the server
	END
	fake one-off "write" -n 5 -f - < <(echo piped)
	[[ $stderr == *"a pipe can be sent only once, but --iters or --duration of a side repeats it"* ]]
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

# For each type of message, some wrong numbers and wrong moments; transfer-test and protocol-test have the other rules.
@test "a peer's impossible numbers or unexpected messages end the session with a reason" {
	use address
	outcomes <<-END
	both	7	set:mr.produced=+1	the peer's memory region has fewer bytes than are ready: it has 1024 bytes, of which MSG_MR reports 1025 as ready
	both	7	set:mr.address=0	the peer's memory region has address 0
	both	7	set:mr.address=0xfffffffffffffc01	the peer's memory region goes beyond the last address: it has 1024 bytes from address 0xfffffffffffffc01 on
	both	7	set:mr.length=0	the peer's memory region has 0 bytes, but this session needs at least 1
	both	7	tutorial set:mr.length=1023	the peer's memory region has 1023 bytes, but this session needs at least 1024
	both	7	lie:mr-twice	contents are wrong
	both	7	write lie:window-first	the peer's MSG_WINDOW arrived out of turn
	both	7	lie:done-first	contents are wrong
	both	7	set:done.digest=+1	contents are wrong
	both	7	write set:done.bytes=+1	the peer sent MSG_DONE with a wrong length of its payload
	both	7	lie:verdict-good	contents are wrong
	both	7	write set:verdict.status=7	contents are wrong
	# a bad verdict is valid after both MSG_MRs, once, and from a peer with a hello; any other bad verdict violates
	# the protocol
	both	4	lie:verdict-bad	the peer gave up
	both	7	lie:verdict-bad-first	or the peer violated the protocol	!> gave up
	both	7	tutorial lie:verdict-bad	or the peer violated the protocol	!> gave up
	both	7	lie:verdict-twice	or the peer violated the protocol	!> gave up
	both -s 20000	7	payload:30000 ring:3000 set:window.consumed=+100000	the peer's MSG_WINDOW reports more consumed bytes than were produced
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
	client -s 100	4	tutorial write	the peer is no program of this project
	server -s 100	0	tutorial	the peer is no program of this project
	client --one-way	4	tutorial write	the peer is no program of this project
	client -o $stored	4	tutorial write	the peer is no program of this project, so its payload cannot be verified
	server -o $stored	0	tutorial	the peer is no program of this project, so its payload cannot be verified
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
