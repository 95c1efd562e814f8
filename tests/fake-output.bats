#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): standard output and error, JSON objects, signals.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

@test "--verbose prints verbs and states on standard error; standard output never shows a key or a memory address" {
	outcomes client -v <<<"0	read	RDMA READ of 1024 bytes	PHASE_EXCHANGING, LOCAL_MR_POSTED	!> rkey	!> 0x"
	diff <(transcript client read "text of the scripted peer") - <<<"$output"
}

@test "a signal ends each session cleanly, with the right exit status and reason" {
	use address
	outcomes <<-END
	client	143	ADDR_RESOLVED+signal	interrupted
	client	143	ROUTE_RESOLVED+signal	interrupted
	client	143	ESTABLISHED+signal	interrupted
	client	0	received-VERDICT+signal DISCONNECTED!
	both	143	sent-MR+signal	interrupted
	both	130	sent-MR+signal:2	interrupted
	client	129	sent-MR+signal:1	interrupted
	one-off	143	iwarp received-MR+signal	interrupted
	both	0	DISCONNECTED+signal
	server	0	DISCONNECTED+signal:2 by-itself
	one-off	143	clients:0
	# a signal ends all sessions of a server, each with its reason
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:1 until:500	3x interrupted before the session was complete
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:2 until:500	3x interrupted before the session was complete
	server	0	together clients:3 3*received-MR! ESTABLISHED+signal:15 until:500	3x interrupted before the session was complete
	# over iWARP rdma_connect(3) sleeps, and signals may interrupt it: the first signal other than SIGALRM decides;
	# SIGALRM alone is the timeout
	client	143	connect-signal:15	interrupted
	client	130	connect-signal:2	interrupted
	client	5	connect-signal:14	no answer to the connect request
	client -t 10	143	connect-early:15 until:1100	interrupted
	client -t 10	130	connect-early:2 until:1100	interrupted
	client -t 10	143	connect-early:15 connect-signal:2	interrupted
	client -t 10	130	connect-early:2 connect-signal:15	interrupted
	client -t 10	5	connect-early:14 until:1100	no answer to the connect request
	client -t 10	143	connect-early:14 connect-signal:15	interrupted
	# an interrupted client does not connect when the route resolves late, and does not try another address
	client -v	143	ADDR_RESOLVED+signal flush@100	interrupted	0x rdma_connect	!> route resolved
	client -v	143	addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal ESTABLISHED@500	1x rdma_resolve_addr
	END
}

@test "a signal ends a program at once while a name, or the next address of --check, is resolved" {
	outcomes <<-END
	client	143	signal:getaddrinfo:1:15
	client -B 192.0.2.2	130	signal:getaddrinfo:2:2
	server -B 192.0.2.1	143	signal:getaddrinfo:1:15
	check 192.0.2.1 20000	143	addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15	> address  	!> address  *address  
	END
}

@test "a signal that ends --check --json at once while it resolves leaves one object, with the findings and the status" {
	local interrupted='"error": "interrupted before the session was complete" }'
	outcomes <<-END
	check -J 192.0.2.1	143	signal:getaddrinfo:1:15	> "status": 143, $interrupted	!> "name"
	check -J 192.0.2.1 20000	130	signal:rdma_resolve_addr:1:2	> "name": *"status": 130, $interrupted	!> "kind"*"kind"
	check -J 192.0.2.1	129	signal:rdma_resolve_route:1:1	> "address": *"status": 129, $interrupted
	check -J 192.0.2.1 20000	143	addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15	> "status": 143, $interrupted	!> "kind"*"kind"
	END
	unread # no reader can delay the end
	head -c 4096 /dev/zero >&"$unread"
	status=0
	FAKE_VERBS=signal:getaddrinfo:1:15 timeout "$LIMIT" "$programs/rdma-client" --check -J 192.0.2.1 >"$pipe" || status=$?
	[ "$status" -eq 143 ]
}

# The kernel does not deliver a signal to process 1 if its action is the default one (pid_namespaces(7)). The rows
# first run in an ordinary process: the statuses must be the same.
@test "a signal ends process 1 of a container with the same exit status as an ordinary process" {
	use none
	local launcher=() rows
	rows=$(cat <<-END
		both	143	sent-MR+signal	interrupted
		both	130	sent-MR+signal:2	interrupted
		client	129	sent-MR+signal:1	interrupted
		client -J	143	ADDR_RESOLVED+signal	interrupted	> "status": 143
		client	143	connect-signal:15	interrupted
		one-off	143	clients:0
		server	0	DISCONNECTED+signal:2 by-itself
		# a signal ends the program at once: before a session, between two addresses, after an earlier signal
		client	143	signal:getaddrinfo:1:15
		server -B 192.0.2.1	130	signal:getaddrinfo:1:2
		client	129	signal:getaddrinfo:1:1
		check 192.0.2.1 20000	143	addresses:192.0.2.1,192.0.2.3 ESTABLISHED! signal:rdma_resolve_addr:3:15	> address
		client -t 10	130	sent-MR+signal signal:rdma_disconnect:1:2
	END
	)
	outcomes <<<"$rows"
	launcher=(unshare --pid --fork --kill-child)
	[ "$(id -u)" -eq 0 ] || launcher+=(--user --map-root-user)
	"${launcher[@]}" true || skip "this user may not create a PID namespace"
	outcomes <<<"$rows"
	mkfifo "$BATS_TEST_TMPDIR/fifo" # no process opens its other end
	# shellcheck disable=SC2016 # expanded by that shell; /proc is that of the outer namespace
	timeout -s KILL 100 "${launcher[@]}" bash -c 'read -r pid _ </proc/self/stat
		echo "$pid" >"$1" && exec "${@:2}"' - "$BATS_TEST_TMPDIR/pid" \
		"$programs/rdma-client" -f "$BATS_TEST_TMPDIR/fifo" write 192.0.2.1 20000 3>&- &
	await test -s "$BATS_TEST_TMPDIR/pid"
	while kill "$(<"$BATS_TEST_TMPDIR/pid")" 2>/dev/null; do sleep 0.05; done
	wait $! || status=$?
	[ "$status" -eq 143 ]
}

@test "SIGHUP stays ignored if the parent ignored it, as nohup(1) does" {
	use none
	local mode
	for mode in "sent-MR+signal:1" "ROUTE_RESOLVED+signal:1"; do
		FAKE_VERBS="$mode read" nohup "$programs/rdma-client" read 192.0.2.1 20000 </dev/null >"$BATS_TEST_TMPDIR/out" 2>&1
		grep -q '^remote buffer: text of the scripted peer' "$BATS_TEST_TMPDIR/out"
	done
}

# The first address does not resolve, so each call can fail with the last address, too.
# bats test_tags=slow
@test "with --json a client prints one object for a name with two addresses, whichever call fails" {
	faults client "addresses:192.0.2.1,fd00::1 ADDR_RESOLVED=ADDR_ERROR:-19" -J
}

# without_descriptor REDIRECTION PROGRAM [ARGUMENT...]: run the program with this redirection of its standard
# descriptors; sets $status.
without_descriptor() {
	use none
	FAKE_VERBS='' sh -c "exec \"\$@\" $1" sh "$programs/$2" -t 1 read "${@:3}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" && status=0 || status=$?
}

@test "a closed standard input or standard error is no failure; a closed or full standard output is" {
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

# unread: make a pipe of one page without a reader; sets $pipe to its path, $unread to the descriptor that keeps it
# open.
unread() {
	pipe=$BATS_TEST_TMPDIR/pipe
	mkfifo "$pipe"
	exec {unread}<>"$pipe"
	python3 -c 'import fcntl, sys; fcntl.fcntl(int(sys.argv[1]), fcntl.F_SETPIPE_SZ, 4096)' "$unread"
}

# A server has 100 clients, one after the other or all at once, then gets SIGTERM. The waits of the program are
# simulated, and take no time.
# bats test_tags=slow
@test "with unread standard output or error, sessions succeed, SIGTERM ends the server, and lost lines are counted" {
	use thread
	local script read=$BATS_TEST_TMPDIR/read
	unread
	for script in "clients:100" "clients:100 together"; do
		status=0
		FAKE_VERBS=$script "$programs/rdma-server" -t 1000 read >"$pipe" 2>"$read" || status=$?
		[ "$status $(calls served)" = "1 100" ]
		grep -q 'the output was not read in time: its last [0-9]* lines are lost' "$read"
		status=0
		FAKE_VERBS=$script "$programs/rdma-server" -t 1000 read --verbose >"$read" 2>"$pipe" || status=$?
		[ "$status $(calls served)" = "1 100" ]
		[ "$(grep -c 'remote buffer: text of the scripted peer' "$read")" -eq 100 ]
	done
}

# has_disconnected: return true if the client has disconnected; it then waits for the reader of its standard output.
has_disconnected() {
	grep -q rdma_disconnect "$BATS_TEST_TMPDIR/err"
}

# no_signal_is_pending: return true if the client has received the first signal. The kernel would merge a second signal
# with a pending one.
no_signal_is_pending() {
	grep -q '^ShdPnd:.0*$' "/proc/$client/status"
}

@test "a client whose output is not read ends with status 1 after --timeout or a signal, with 143 after a second signal" {
	use none
	local signals start
	unread
	head -c 4096 /dev/zero >&"$unread"
	for signals in 0 1 2; do
		: >"$BATS_TEST_TMPDIR/err"
		start=$(milliseconds)
		FAKE_VERBS='' "$programs/rdma-client" -v -t $((signals ? 100 : 1)) read 192.0.2.1 1 \
			>"$pipe" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
		client=$!
		await has_disconnected
		[ "$signals" -lt 1 ] || kill -TERM "$client"
		[ "$signals" -lt 2 ] || { await no_signal_is_pending && kill -TERM "$client"; }
		status=0
		wait "$client" || status=$?
		client=
		within 2 "$start" "$signals signals"
		[ "$status" -eq $((signals < 2 ? 1 : 143)) ]
		[ "$signals" -eq 2 ] || grep -q 'its last 8 lines are lost' "$BATS_TEST_TMPDIR/err"
	done
}

# The simulated clock starts at one second after the epoch.
@test "--json prints where a server listens, then each session with number, time, peer and failure" {
	outcomes server -J -n 3 <<<"0	clients:3 fail:ibv_alloc_pd:2:12	ibv_alloc_pd failed"
	python3 - "$output" "$(hostname)" <<-'END'
	import json, sys
	listening, first, second, third = map(json.loads, sys.argv[1].splitlines())
	assert listening["kind"] == "listening" and listening["port"] == 20000 and listening["host"] == sys.argv[2]
	assert listening["time"] == "1970-01-01T00:00:01.000Z" <= first["time"] <= second["time"] < third["time"] < "1970-01-01T00:01", third
	assert (first["session"], second["session"]) == (1, 2)
	assert (first["peer"], first["peer_port"], first["path_mtu"]) == ("127.0.0.1", 40000, 4096), first
	keys = "role", "operations", "bytes", "received_bytes", "verified", "status", "error"
	assert [first[key] for key in keys] == ["server", 3, 3072, 1024, True, 0, None], first
	assert (second["status"], second["error"]) == (1, "ibv_alloc_pd failed: Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter"), second
	END
	outcomes server -J <<<'0	version:2	refused	> "status": 4,*"error": "refused: client and server speak different versions of the protocol; use'
}

@test "--json prints measurements, in bits as well, and the verified bytes" {
	outcomes client -J -s 100 -n 5 --depth 4 <<<$'0\twrite passes:3 payload:1000 operation@10\tdisconnected.'
	[ "$(values role operation transport device bytes operations request_bytes depth received_bytes verified verified_bytes latency_us)" = \
		"client write RoCE double0 500 5 100 4 1000 True 1000 None" ]
	python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
rate = outcome["bytes"] / outcome["seconds"]
assert abs(outcome["bytes_per_second"] / rate - 1) < 1e-6 and abs(outcome["bits_per_second"] / rate - 8) < 1e-6' "$output"
	outcomes client -J --depth 1 <<<$'0\tiwarp\tdisconnected.\t> "latency_us": { "min": '
	[ "$(values operation transport path_mtu received_bytes)" = "read iWARP None 1024" ]
}

@test "--json: verified is null for the side of a one-way session that receives no payload" {
	outcomes <<-END
	client -J --one-way	0	[iwarp] write one-way	disconnected.	> "verified": null,
	client -J --one-way	7	write one-way corrupt-out	contents are wrong	> "verified": null,
	client -J --one-way	5	write one-way received-VERDICT!	no progress	> "verified": null,
	client -J --one-way	0	one-way	disconnected.	> "verified": true,
	client -J --one-way	7	one-way corrupt-in	contents are wrong	> "verified": false,
	one-off -J	0	one-way	disconnected.	> "verified": null,
	one-off -J	0	write one-way	disconnected.	> "verified": true,
	END
}

@test "messages omit the middle of a long name, so that reason and advice fit" {
	use address
	local long shown missing="x//file': No such file or directory" taken="addresses:192.0.2.2 fail:rdma_bind_addr:1"
	printf -v long 'x/%.0s' {1..600}
	shown="${long:0:62}...${long: -62}"
	outcomes <<-END
	client -J -f $long	1	read	rdma-client: cannot read '$shown': No such file or directory
	client -o $long/file	1	read	$missing
	one-off -o $long/file	1	read	2x $missing
	client -o $long/file	1	unknown	$missing
	client -o $long/file	1	write unknown	$missing
	client -B $long	3	read	rdma-client: cannot resolve --bind '$shown': 
	server -B $long	3	read	rdma-server: cannot resolve --bind '$shown': 
	client -B $long	3	addresses:192.0.2.2 fail:rdma_resolve_addr:1:19	--bind '$shown' as the source: No such device; give --bind an address of this host
	server -B $long -p $(printf '%0140d' 1)	1	$taken:98	: the port is in use; choose another --port
	server -B $long	3	$taken:19	listen on $shown, any port: No such device; give --bind an address of a network interface that has an RDMA device ('rdma link')
	END
}
