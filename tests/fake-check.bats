#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): `rdma-client --check`: its findings, requests, sessions and exit statuses.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

@test "--check: address resolution that times out is repeated until --timeout" {
	outcomes <<-END
	check -t 5 192.0.2.1	0	2*ADDR_RESOLVED=ADDR_ERROR:-110
	check -t 5 192.0.2.1	3	ROUTE_RESOLVED=ROUTE_ERROR:-110	> route       not resolved: Connection timed out
	check -t 1 192.0.2.1	3	ADDR_RESOLVED=ADDR_ERROR:-110
	check -t 9 192.0.2.1	3	5*ADDR_RESOLVED=ADDR_ERROR:-110	> address     not resolved: Connection timed out
	check -t 9 192.0.2.1	0	4*ADDR_RESOLVED=ADDR_ERROR:-110	rdma_resolve_addr=6
	END
}

# The fake kernel answers no netlink queries: reach-test has the causes that need answers, causes.bats those of a real
# path.
@test "--check ADDRESS: a request to an unused port shows whether the address answers" {
	local unknown="the connect request to 192.0.2.1 failed, and no rule of rdma-pair(7) explains it"
	outcomes check 192.0.2.1 <<-END
	0	read	> reach       192.0.2.1 answers connect requests*Ready	rdma_connect=1	sendto=1
	0	iwarp	> reach       192.0.2.1 answers TCP*Ready	rdma_connect=1	sendto=0
	# a program answers at each unused port: --check tries all four, and counts the last rejection as the answer
	0	answers-everywhere refuse:2	> answers connect requests (port 47896)*Ready	rdma_connect=4
	4	unused:28	> reach       192.0.2.1 rejects the request (reason 28, consumer defined), and no UDP packet comes back to 192.0.2.2; one of: *; the program on port 47893 listens on another address *?B3?	!> Ready	sendto=5
	4	unused:4	> reach       192.0.2.1 rejects the request with reason 4 (timeout) (B6)	!> Ready
	0	ESTABLISHED+signal ROUTE_RESOLVED+ADDR_CHANGE	> Ready
	5	unused:0	> Not ready: $unknown; next: run 'rdma-client --check 192.0.2.2' on 192.0.2.1
	5	unused:0	> reach       $unknown?  -> run 'rdma-client --check 192.0.2.2' on 192.0.2.1	!> Ready
	0	addresses:192.0.2.1,192.0.2.3	> Ready	rdma_connect=1
	4	unused:4 addresses:192.0.2.1,192.0.2.3 fail:rdma_resolve_addr:3:101	> address     not resolved*reach       192.0.2.1 rejects the request with reason 4	!> reach       the connect request to 192.0.2.3
	5	addresses:192.0.2.1,192.0.2.3 unused:0	> name        '192.0.2.1' is 192.0.2.3*reach       the connect request to 192.0.2.3 failed	rdma_connect=2
	130	ROUTE_RESOLVED+signal:2	!> reach
	130	ROUTE_RESOLVED+signal:2 unused:0	!> reach
	3	fail:sendto:1:1	> reach       this host forbids packets to UDP port 4791 of 192.0.2.1 (EPERM); one of: *?C5??  -> see 'nft list ruleset'	!> Ready	rdma_connect=0
	3	fail:sendto:1:105	> reach       this host cannot send to UDP port 4791 of 192.0.2.1: ENOBUFS; one of: *?C5?	rdma_connect=0
	0	iwarp fail:sendto:1:1	> Ready
	1	fail:rdma_create_qp:1:13	> reach       the connect request failed: rdma_create_qp failed: Permission denied	!> Ready
	1	fail:rdma_create_id:5:12	rdma-client: cannot create a connection identifier: Cannot allocate memory	!> Ready	rdma_connect=0
	END
	outcomes check --json 192.0.2.1 <<-END
	0	read	> "reach": ? { "status": "ok"*"rule": null, "evidence": { "address": "192.0.2.1"*"request": "8"*"causes": ? ? }
	4	unused:28	> "rule": "B3"*"udp_other": "silent"*"error": "reach: 192.0.2.1 rejects the request
	END
}

@test "--check with PORT: a request to an unused port distinguishes a stopped program from a broken path" {
	outcomes check --duration 0 192.0.2.1 20000 <<-END
	4	refuse:255	> reach       192.0.2.1 answers, but no program listens on port 20000 of the device that has 192.0.2.1; one of: *--bind? ?B1??  -> start rdma-server on 192.0.2.1, and	!> Ready	rdma_connect=1
	# the cause replaces the general advice of the session
	5	2*ESTABLISHED!	> session of 1 byte: no progress for 1 s (--timeout)?reach *Not ready: 192.0.2.1 answers connect requests, but the program on port 20000 does not (C2); next: see 'rdma resource	!> check that the peer
	4	refuse:255	> Not ready: 192.0.2.1 answers, but no program listens on port 20000 of the device that has 192.0.2.1; next: start rdma-server on 192.0.2.1, and use the port that it prints	!> check that rdma-server	!> next: *cm_id
	5	2*ESTABLISHED!	> reach       192.0.2.1 answers connect requests, but the program on port 20000 does not ?C2?	!> firewall	rdma_connect=3
	5	iwarp 2*ESTABLISHED!	> reach       192.0.2.1 answers TCP, but nothing answers on port 20000; one of: *?C2?
	# the second request to the port is answered, or rejected
	5	ESTABLISHED!	> reach       192.0.2.1 did not answer a request to port 20000, and has answered the next one; one of: *?C15??  -> run this again	!> ?C2?	rdma_connect=3
	5	iwarp ESTABLISHED!	> has answered the next one; one of: *?C15?
	5	ESTABLISHED! unused:0	> reach       the connect request to 192.0.2.1 failed, and no rule	!> ?C2?
	130	ESTABLISHED! signal:rdma_connect:2:2	!> reach	rdma_connect=2
	4	ESTABLISHED=REJECTED:10 ESTABLISHED=REJECTED:10 refuse:255	> ?B1?
	0	read	!> reach
	4	write refuse:9	!> reach
	END
	# a class is named only if it is silent twice, and another class is answered in between
	outcomes check --tos 104 192.0.2.1 20000 <<-END
	5	ESTABLISHED! unused:0	> no rule of	rdma_connect=3
	5	2*ESTABLISHED! unused!	> ?C2?	!> but none with	rdma_connect=5
	5	ESTABLISHED! unused!	> ?C15?	!> but none with	rdma_connect=5
	END
	outcomes check --tos 104 192.0.2.1 <<-END
	5	unused!	> did not answer a request to port 47893, and has answered the next one; one of: *?C15?	!> but none with	rdma_connect=3
	END
}

# found STATUS SCRIPT [ADDRESS]: check that --check exits with STATUS and prints exactly the lines of standard input.
found() {
	fake check "memory:9000000 $2" "${@:3}"
	[ "$status" -eq "$1" ]
	[ -z "$stderr" ]
	diff - <(echo "$output")
}

@test "--check prints its findings about a path line by line" {
	local gid="GID 5 (::ffff:192.0.2.2, RoCE v2, lo)"
	local memory="8789 KiB may be locked: longer payloads are transferred in pieces"
	local congestion="congestion  lo: type of service 0; the driver does not report PFC or ECN"
	found 0 "" 192.0.2.1 <<-END
		device      double0 port 1: RoCE, active, MTU 4096 bytes (maximum 4096)
		name        '192.0.2.1' is 192.0.2.1
		address     resolved: source 192.0.2.2, device double0 port 1, $gid
		route       resolved, MTU of the path 4096 bytes
		$congestion
		memory      $memory
		reach       192.0.2.1 answers connect requests (port 47893): packets pass in both directions
		Ready. If no rdma-server runs on 192.0.2.1 yet, start one. Go on here with the PORT that it prints:
		  rdma-client --check 192.0.2.1 PORT
	END
	found 0 "iwarp mtu:3" 192.0.2.1 <<-END
		device      double0 port 1: iWARP, active
		name        '192.0.2.1' is 192.0.2.1
		address     resolved: source 192.0.2.2, device double0 port 1
		route       resolved
		memory      $memory
		reach       192.0.2.1 answers TCP (port 47893), possibly without iWARP
		Ready. If no rdma-server runs on 192.0.2.1 yet, start one. Go on here with the PORT that it prints:
		  rdma-client --check 192.0.2.1 PORT
	END
	found 3 "down mtu:1 addresses:192.0.2.1,192.0.2.3,192.0.2.5 2*ADDR_RESOLVED=ADDR_ERROR:-99" 192.0.2.1 <<-END
		device      double0 port 1: RoCE, not active, MTU 256 bytes (maximum 4096: raise the MTU of hosts and switches for faster transfers)
		name        '192.0.2.1' is 192.0.2.1
		address     not resolved: Cannot assign requested address
		  -> check that the host is up, and that the route leads over a network interface with an RDMA device ('ip route get', 'rdma link')
		name        '192.0.2.1' is 192.0.2.3
		address     not resolved: Cannot assign requested address
		  -> check that the host is up, and that the route leads over a network interface with an RDMA device ('ip route get', 'rdma link')
		name        '192.0.2.1' is 192.0.2.5
		address     resolved: source 192.0.2.2, device double0 port 1, $gid
		route       resolved, MTU of the path 256 bytes
		$congestion
		memory      $memory
		reach       no port of an RDMA device of this host is active (L16)
		  -> plug in the cable, set the network interface up ('ip link set ... up'), or start the subnet manager of InfiniBand
		Not ready: no port of an RDMA device of this host is active (L16); next: plug in the cable, set the network interface up ('ip link set ... up'), or start the subnet manager of InfiniBand
	END
}

# host-test covers the findings from the adapter's files in sysfs; the host of this test has no such files.
@test "--check without ADDRESS prints the devices, and how much memory may be locked" {
	[ -z "$(ls -A /sys/class/infiniband 2>/dev/null)" ] || skip "this machine has RDMA devices of its own"
	found 0 "" <<-END
		device      double0 port 1: RoCE, active, MTU 4096 bytes (maximum 4096)
		memory      8789 KiB may be locked: longer payloads are transferred in pieces
		reach       addresses with an RDMA device: 192.0.2.2 (double0, lo)
		Ready. Examine the path to another host next:
		  rdma-client --check ADDRESS
	END
	outcomes check <<-END
	0	fail:getaddrinfo:1:1	> Ready
	0	fail:rdma_create_id:4:12	> Ready	rdma_create_id=3
	3	fail:rdma_create_id:1:12	> device      double0 port 1: RoCE, active*device      cannot find out which addresses of this host lead to an RDMA port: Cannot allocate memory
	3	no-device	> device      none?reach       this host, or this network namespace, has no RDMA device ?L1??  -> *$software
	3	fail:rdma_get_devices:1:24	> device      none: Too many open files
	3	down	> device      double0 port 1: RoCE, not active*?L16??  -> plug in the cable
	3	no-gids	> reach       no address of this network namespace leads to an active port of an RDMA device ?L17??  -> give its
	3	no-gids memory:8192	> reach       no address of this network namespace leads to an active port of an RDMA device ?L17??  -> give its
	3	[iwarp] elsewhere	> reach       no address of this network namespace leads to an active port of an RDMA device ?L17??  -> give its
	0	iwarp no-gids	> Ready
	1	memory:8192	> memory      cannot register the 12 KiB that a session needs
	0	unbound memory:8388608	> memory      may be locked without limit
	END
	outcomes check --json <<<'3	down	> "peer": null*"error": "reach: no port of an RDMA device'
}

@test "--check examines as many ports as a device can have" {
	use address
	outcomes check 192.0.2.1 <<<"0	ports:255"
	[ "$(grep -c '^device      double0 port [0-9]*: RoCE, active' <<<"$output")" -eq 255 ]
}

# The smallest session needs three pages: one for messages, one for each ring.
@test "--check and a session report a locked-memory limit that prevents registering memory, and exit with 1" {
	local needs="memory      cannot register the 12 KiB that a session needs: Cannot allocate memory"
	local advice="  -> raise the locked-memory limit ('ulimit -l', memlock in /etc/security/limits.conf, LimitMEMLOCK= of a systemd unit,*"
	outcomes check 192.0.2.1 <<-END
	1	memory:0	> $needs; 0 KiB may be locked*$advice
	1	memory:8192	> $needs; 8 KiB may be locked*$advice
	0	memory:12288	> memory      12 KiB may be locked: longer payloads are transferred in pieces
	1	fail:ibv_alloc_pd:1:12	> $needs
	END
	outcomes client <<-END
	1	memory:0 limited	it would exceed the locked-memory limit of 0 KiB; raise it ('ulimit -l'
	1	memory:4096 limited	it would exceed the locked-memory limit of 4 KiB; raise it ('ulimit -l'
	1	memory:8192 limited	it would exceed the locked-memory limit of 8 KiB; raise it ('ulimit -l'
	0	memory:12288 limited
	0	memory:12288
	END
	outcomes check 192.0.2.1 20000 <<<"1	memory:8192	!> server"
}

# The kernel reports EPERM for a limit of 0, ENOMEM for a larger limit and for missing memory; the rdma cgroup returns
# EAGAIN.
@test "a failure names the locked-memory limit as the cause if it is exceeded and applies, and as a possible cause if the driver may count it" {
	local bytes="cannot register 2496 bytes of memory" cgroup="Resource temporarily unavailable; either the rdma cgroup of this process"
	local short="Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter"
	local charged="$short, or the driver counts registered memory and queues against the locked-memory limit of"
	outcomes client <<-END
	1	memory:0	$bytes: $charged 0 KiB: raise it ('ulimit -l'	0x would exceed
	1	memory:8388608 unbound fail:ibv_reg_mr:1:12	$bytes: $short	0x locked-memory
	1	memory:8388608 limited fail:ibv_reg_mr:1:12	$bytes: $charged 8192 KiB	0x would exceed
	1	memory:8388608 limited fail:ibv_reg_mr:1:1	$bytes: Operation not permitted	0x locked-memory
	1	memory:0 limited fail:ibv_create_cq:1:1	ibv_create_cq failed: it would exceed the locked-memory limit of 0 KiB
	1	memory:8388608 unbound fail:ibv_create_cq:1:12	ibv_create_cq failed: $short	0x locked-memory
	1	memory:8388608 limited fail:ibv_create_cq:1:12	ibv_create_cq failed: $charged 8192 KiB
	1	memory:8388608 limited fail:rdma_create_qp:1+:12	rdma_create_qp failed: $charged 8192 KiB
	1	fail:ibv_alloc_pd:1:11	ibv_alloc_pd failed: $cgroup
	1	memory:8388608 limited fail:ibv_alloc_pd:1:12	ibv_alloc_pd failed: $short	0x locked-memory
	1	fail:ibv_create_cq:1:11	ibv_create_cq failed: $cgroup
	1	fail:rdma_create_qp:1:11	rdma_create_qp failed: $cgroup	rdma_create_qp=1
	1	fail:ibv_reg_mr:1:11	$bytes: $cgroup
	END
	bytes="memory      cannot register the 12 KiB that a session needs"
	outcomes check 192.0.2.1 <<-END
	1	memory:8388608 unbound fail:ibv_reg_mr:1:12	> $bytes: Cannot allocate memory?  -> memory is short on this host	!> may be locked
	1	memory:8388608 limited fail:ibv_reg_mr:1:12	> $bytes: Cannot allocate memory?  -> memory is short on this host	!> may be locked
	1	memory:0 limited fail:ibv_reg_mr:1:1	> $bytes: Operation not permitted; 0 KiB may be locked?  -> raise the locked-memory limit
	1	fail:ibv_reg_mr:1:11	> $bytes: Resource temporarily unavailable?  -> either the rdma cgroup of this process
	1	fail:ibv_alloc_pd:1:11	> $bytes: Resource temporarily unavailable?  -> either the rdma cgroup of this process
	# --check registers at most a quarter of the machine's memory
	0	memory:8388608 unbound machine:16777216	> memory      8192 KiB may be locked
	0	memory:8388608 unbound machine:67108864	> memory      may be locked without limit
	# without a route --check registers no memory
	3	memory:8388608 unbound ADDR_RESOLVED=ADDR_ERROR:-99	!> memory
	3	memory:8388608 limited ADDR_RESOLVED=ADDR_ERROR:-99	> memory      8192 KiB may be locked
	END
}

@test "--check --json: the error is the failed finding of 'reach', otherwise the first failed finding" {
	local script
	for script in down "down ADDR_RESOLVED=ADDR_ERROR:-99" fail:getaddrinfo:1:1 memory:8192 no-gids "ADDR_RESOLVED=ADDR_ERROR:-19" \
		"fail:rdma_get_devices:1:24" "fail:ibv_query_device:1:5"; do
		fake check "$script" --json 192.0.2.1
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[2])
assert outcome["status"] == int(sys.argv[1]) != 0, outcome
failed = [(step, one) for step in outcome if type(outcome[step]) is list for one in outcome[step] if one["status"] != "ok"]
step, first = next((one for one in failed if one[0] == "reach"), failed[0])
assert outcome["error"] == "; ".join([step + ": " + first["text"]] + ([first["advice"]] if first["advice"] else [])), outcome' "$status" "$output"
	done
	outcomes check --json 192.0.2.1 <<<'0	read	> "error": null'
}

@test "--check succeeds although it cannot free memory or a protection domain, and reports that" {
	outcomes check <<-END
	0	fail:ibv_dereg_mr:1:16	cannot deregister	cannot free a protection domain: Device or resource busy
	0	negative fail:ibv_dealloc_pd:1:16	cannot free a protection domain: Device or resource busy
	END
}

@test "--check reports failed calls as findings, and exits with 3" {
	local few="  -> raise the limit of open files ('ulimit -n')"
	outcomes check -B 192.0.2.2 192.0.2.1 <<-END
	3	fail:getaddrinfo:1:1	> name        '192.0.2.1' not resolved: Temporary failure in name resolution
	3	fail:getaddrinfo:1:24	> name        '192.0.2.1' not resolved: Too many open files
	3	fail:getaddrinfo:2:1	> address     not resolved: cannot connect from '192.0.2.2': Temporary failure in name resolution
	3	fail:getifaddrs:1:12	> device      cannot find out which addresses of this host lead to an RDMA port: Cannot allocate memory
	3	fail:rdma_create_id:1:13	> device      cannot find out which addresses of this host lead to an RDMA port: Permission denied
	3	fail:rdma_create_id:1:24	> lead to an RDMA port: Too many open files*$few
	3	fail:rdma_create_id:4:12	> address     not resolved: cannot use the connection manager: Cannot allocate memory	!> -> load the module
	3	fail:rdma_create_id:4:24	> cannot use the connection manager: Too many open files*$few
	3	fail:rdma_resolve_route:1:110	> route       not resolved: Connection timed out?  -> over InfiniBand, check that the subnet manager runs
	3	addresses:127.0.0.1	> route       not resolved: No such device?  -> $loopback
	3	iwarp addresses:127.0.0.1	> address     not resolved: Invalid argument?  -> $loopback
	3	fail:ibv_query_device:1+:5	> device      double0: cannot be queried: Input/output error
	3	fail:ibv_query_port:1+:5	> device      double0 port 1: cannot be queried: Input/output error
	3	ADDR_RESOLVED=ADDR_ERROR:-99	> address     not resolved: Cannot assign requested address?  -> give --bind an address of this host
	3	fail:rdma_get_devices:1:19	> device      none*$software
	3	fail:rdma_get_devices:1:24	> device      none: Too many open files*$few	!> ?L1?	!> ?L17?
	3	fail:rdma_get_devices:1:12	> device      none: Cannot allocate memory	!> ?L1?	!> ?L17?
	3	no-device	> device      none
	0	mtu:3 memory:67108864	> MTU 1024 bytes (maximum 4096: raise the MTU of hosts and switches for faster transfers)*65536 KiB may be locked: longer payloads are transferred in pieces?reach *Ready
	END
}

@test "--check --tos shows the type of service of a RoCE v2 path, or why it cannot be set" {
	outcomes check --tos 0x68 192.0.2.1 <<-END
	0	read	> congestion  lo: type of service 104; the driver does not report PFC or ECN?memory
	0	iwarp	> route       resolved?memory
	0	roce-v1 addresses:fe80::1%lo	> (::ffff:192.0.2.2, RoCE v1, lo)	!> congestion
	3	fail:rdma_set_option:1:12	> address     not resolved: cannot set --tos: Cannot allocate memory
	END
	outcomes check --tos 0x68 --duration 0 192.0.2.1 20000 <<-END
	0	read	> type of service 104;*Ready. All sizes arrived
	1	fail:rdma_set_option:2:12	> cannot set --tos: Cannot allocate memory
	END
}

# The network interface of a GID may be unknown. A link-local address names its interface.
@test "over RoCE --check names the GID, its type and any known interface; without a GID it exits with 3" {
	outcomes check 192.0.2.1 <<-END
	0	roce-v1	> , GID 4 (::ffff:192.0.2.2, RoCE v1); this GID is of RoCE v1, which routers do not forward?route	!> ->
	0	roce-v1 addresses:fe80::1%lo	> , GID 5 (::ffff:192.0.2.2, RoCE v1, lo)
	3	no-gids	> reach       no address of this network namespace leads to an active port of an RDMA device ?L17??  -> give its
	0	no-gids iwarp	> device double0 port 1	!> GID
	END
}

@test "--check with PORT runs sessions until one fails, and reports the reason and the result of each direction" {
	use address
	local ready="Ready. All sizes arrived in both directions, verified." transfer="?transfer    1 byte: client to server"
	local latency="latency     a READ of 8 bytes takes *99th percentile of 1000)" silent="no progress for"
	local mismatch="the server's acceptance does not match the request: it names operation ? and * bytes; use the same release on both hosts"
	outcomes check 192.0.2.1 20000 <<-END
	0	read	> $latency*$ready	!> server to client 0.000
	0	immediate iwarp set:verdict.bytes=9000000	> $latency
	4	tutorial	> the server does not support --check with PORT	!> : rdma-server
	7	wanted:0	> $mismatch
	7	wanted:2	> $mismatch
	7	payload:2	> $mismatch
	7	no-pattern	> $mismatch
	143	2*accept=busy REJECTED+signal until:99	> memory
	143	sent-MR+signal	> interrupted
	1	fail:rdma_create_event_channel:1:24	cannot open the RDMA connection manager: Too many open files
	1	fail:rdma_create_id:5:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	1	fail:rdma_create_id:6:12	rdma-client: cannot create a connection identifier: Cannot allocate memory
	5	2*operation!	> $transfer arrived, server to client failed: $silent
	5	operation!	> ?transfer    1 byte: client to server arrived, server to client not known: no progress for *each direction delivered this size in at least one of two sessions
	END
	outcomes check --duration 0 192.0.2.1 20000 <<<"0	3*accept=busy from:300	> $ready"
}

@test "--check with PORT: control characters in the server's device name are escaped" {
	use address
	outcomes check --duration 0 192.0.2.1 20000 <<<$'0\tdevice:peer\e[7m-with-a-long-name\t> rdma-server, device peer\\\\x1b\[7m-with-a, '
}

# The failing call belongs to one of the three simultaneous sessions. Before them --check makes one protection domain
# for its memory finding, and runs 7 single sessions, one for each size (5 over iWARP). check-test has a slow session.
@test "--check with --connections names each session by its source port; a failed one decides the exit status" {
	use address
	local script text number='[0-9.]+ [kMG]?bit/s'
	for script in immediate "immediate slow-start"; do # the measurement takes one second, as long as --timeout
		outcomes check --connections 3 192.0.2.1 20000 <<<"0	$script"
		[ "$(grep -E -c "^path        source port 499[0-9]{2}: client to server $number, server to client $number$" <<<"$output")" -eq 3 ]
	done
	while IFS=$'\t' read -r script text; do
		fake check "$script" --connections 3 --duration 0 192.0.2.1 20000
		[ "$status" -eq 1 ]
		[ "$(grep -c '^path        source port 499[0-9]*: verified in both directions$' <<<"$output")" -eq 2 ]
		grep -x "$text" <<<"$output"$'\n'"$stderr"
	done <<-END
	fail:ibv_alloc_pd:10:12	path        source port not known: ibv_alloc_pd failed: Cannot allocate memory; memory is short on this host, in this cgroup or on the adapter
	fail:rdma_create_id:14:24	rdma-client: cannot create a connection identifier: Too many open files
	END
	for script in "fail:rdma_connect:9:101" "iwarp fail:rdma_connect:7:101"; do
		fake check "$script" --connections 3 --duration 0 --json 192.0.2.1 20000
		[ "$status" -eq 4 ]
		python3 -c 'import json, sys
outcome = json.loads(sys.argv[1])
failed, = [path for path in outcome["path"] if path["status"] == "failed"]
assert failed["text"].endswith(outcome["error"]), outcome' "$output"
	done
}
