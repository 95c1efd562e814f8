#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): calls that fail, posts that are refused, and the end of a session in unusual orders.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

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
	1	no-cq	ibv_create_cq failed, and the driver gives no reason; perhaps the device has no completion queue left for this process: try fewer sessions at a time
	1	fail:ibv_poll_cq:1:5	ibv_poll_cq failed, and the driver gives no reason; see its messages ('dmesg')
	1	fail:ibv_poll_cq:1+:5	ibv_poll_cq failed
	1	fail:ibv_poll_cq:8+:5	ibv_poll_cq failed
	END
}

# After ENOMEM the event stays in the channel. After any other error no event arrives any more.
@test "an event for which memory is short arrives later; sessions without further events name the error" {
	use address
	local lost="cannot get an event of the connection manager"
	outcomes <<-END
	every	0	fail:rdma_get_cm_event:1:12	1x $lost: Cannot allocate memory; trying again
	every	0	fail:rdma_get_cm_event:2:12	1x $lost: Cannot allocate memory; trying again
	server	0	clients:3 fail:rdma_get_cm_event:4:12	1x $lost: Cannot allocate memory; trying again	served=3
	client	3	fail:rdma_get_cm_event:1+:12	1x $lost: Cannot allocate memory; trying again	not resolved within 1 s
	client	1	fail:rdma_get_cm_event:1:5	192.0.2.1 port 20000: $lost: Input/output error	2x $lost	0x unexpected
	client	1	ESTABLISHED+TIMEWAIT_EXIT received-MR@500 fail:rdma_get_cm_event:4:5	192.0.2.1 port 20000: $lost: Input/output error	2x $lost
	server	1	received-MR! clients:2 together fail:rdma_get_cm_event:3:5	127.0.0.1 port 40000: $lost: Input/output error	0x unexpected
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
	client	4	write set:verdict.status=1 abandons fail:ibv_post_send:4:22	the peer could not receive, verify or store this side's payload
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
	client	7	slow-events coalesce payload:30000 ring:3000 set:window.received=+32 received-WINDOW+DISCONNECTED	MSG_WINDOW confirms more MSG_WINDOWs
	one-off	7	slow-events coalesce write ring:100 set:window.received=+32 received-WINDOW+DISCONNECTED	MSG_WINDOW confirms more MSG_WINDOWs
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

@test "a known result stays the reported reason if a deadline or a signal then ends the session" {
	use address
	outcomes both <<-END
	7	corrupt-in sent-VERDICT!	contents are wrong
	7	write corrupt-in received-VERDICT! DISCONNECTED!	contents are wrong
	7	corrupt-in sent-VERDICT+signal	contents are wrong
	7	set:verdict.status=7 sent-VERDICT+signal	contents are wrong
	4	set:verdict.status=1 sent-VERDICT! DISCONNECTED!	or store this side's payload
	4	write set:verdict.status=1 received-VERDICT+signal	or store this side's payload
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

@test "a device event ends a session only if it concerns its queue pair or completion queue" {
	use address
	printf '1\tsent-MR+async:%d\tdouble0 reports: device event %d\n' 0 0 1 1 | outcomes both # CQ_ERR QP_FATAL
	# over iWARP an event of the queue pair means that the connection broke
	outcomes <<-END
	both	1	iwarp sent-MR+async:0	RDMA device double0 reports: device event 0; see the driver's messages ('dmesg')
	client	6	iwarp sent-MR+async:1 received-MR!	the peer left
	END
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
@test "valgrind finds no error in a client, and in a server of two clients" {
	use none
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	local memcheck=(valgrind -q --error-exitcode=98 --leak-check=full)
	FAKE_VERBS=iwarp "${memcheck[@]}" "$programs/rdma-client" -t 1 read 192.0.2.1 20000
	FAKE_VERBS="together clients:2" "${memcheck[@]}" "$programs/rdma-server" -t 1 read
}
