#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): several sessions at a time: --connections, and the resources of a server.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

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
	outcomes server -t 10 -s 300000 <<-END
	0	clients:64 together payload:300000 memory:8388608 limited	served=64
	0	clients:64 together payload:300000 memory:8388608 siw	served=64
	END
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

# First row: each silent session gets keepalives after 0.25, 0.75, 1.75, 3.75, 6.25 and 8.75 s; the good session posts 4
# requests. Second row: keepalives after 0.25, 0.75 and 1.75 s; from the progress on, after 0.25, 0.75, 1.75, 3.75 and
# 7.75 s.
@test "silent peers get keepalives less and less often, with 200 sessions as with one" {
	use address
	local still="no progress for"
	outcomes <<-END
	server -t 10	0	clients:201 together 200*received-MR!	200x $still	served=1	ibv_post_send=$((200 * 6 + 4))
	one-off -t 20	0	received-MR@3000 received-DONE@9000	ibv_post_send=$((3 + 5 + 4))
	END
}

# bats test_tags=slow
@test "ThreadSanitizer finds no data race in a client, in a server of two clients and in --check with --connections" {
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
