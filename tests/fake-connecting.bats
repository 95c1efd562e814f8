#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): addresses, devices and the connection manager, before a session begins.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

# node_guid GUID: create the sysfs folder of a device with this node GUID; the programs read it instead of /sys.
node_guid() {
	export FAKE_VERBS_DEVICE=$BATS_TEST_TMPDIR/device
	mkdir -p "$FAKE_VERBS_DEVICE"
	echo "$1" >"$FAKE_VERBS_DEVICE/node_guid"
}

# Before release 56 librdmacm ends the client if rdma_resolve_addr(3) finds such a device. The fake kernel tells no
# source address, so the programs know the device only with --bind.
@test "a device with node GUID 0 is named, with advice, before its address is resolved or listened on" {
	use address
	local guid="RDMA device double0 has node GUID 0, so librdmacm cannot find it"
	local advice="on the host that has the physical function set the virtual function's MAC address ('ip link set PF vf N mac ADDRESS') or, over InfiniBand, its node GUID ('ip link set PF vf N node_guid GUID'), then write its PCI address to 'unbind' and 'bind' of its driver in /sys/bus/pci/drivers"
	node_guid 0000:0000:0000:0000
	outcomes <<-END
	client -B 192.0.2.2	3	[iwarp] unfound:9	cannot resolve the address: $guid: $advice	rdma_resolve_addr=0
	client -J -B 192.0.2.2	3	unfound:9	$guid	> "status": 3	rdma_resolve_addr=0
	server -B 192.0.2.2	3	[iwarp] unfound:9	cannot listen on 192.0.2.2, any port: $guid: $advice	rdma_listen=0
	server -B two	0	addresses:192.0.2.2,192.0.2.3 unfound:1	cannot listen on every address of --bind 'two': $guid: $advice	rdma_listen=1	served=1
	server	0	clients:3 unfound:2	1x rejected a connect request to 192.0.2.2: $guid: $advice; later requests	served=1
	check	3	[iwarp] unfound:9	> active*?  -> $guid: $advice	!> no address of this network namespace
	check -B 192.0.2.2 192.0.2.1	3	[iwarp] unfound:9	> address     not resolved: librdmacm cannot find the RDMA device of the route*reach       $guid (L10)?  -> $advice	rdma_resolve_addr=0
	check -J -B 192.0.2.2 192.0.2.1	3	unfound:9	> "error": "reach: $guid
	# librdmacm finds no device, and nothing shows why
	client	3	unfound:9	the address is resolved, but librdmacm finds no RDMA device for it; check that no RDMA device has node GUID 0	rdma_resolve_addr=1
	check 192.0.2.1	3	unfound:9	> address     not resolved: No such device
	# librdmacm finds the device of the address nevertheless: the node GUID changes nothing
	client -B 192.0.2.2	0	read
	server -B 192.0.2.2	0	write
	check	0	read	!> ->
	check -B 192.0.2.2 192.0.2.1	0	read	!> ->
	# no identifier can be created to look for the device
	client -B 192.0.2.2	3	unfound:9 fail:rdma_create_id:2:24	the address is resolved, but librdmacm finds no RDMA device for it
	END
	node_guid 0200:00ff:fe00:0001
	outcomes <<-END
	client -B 192.0.2.2	3	unfound:9	the address is resolved, but librdmacm finds no RDMA device for it	0x $guid
	check	3	unfound:9	> reach       no address of this network namespace leads to an active port of an RDMA device ?L17??  -> give its
	END
}

# librdmacm finds no device whose node GUID is 0. It then reports the request as if it had found one.
@test "a server rejects requests whose device librdmacm does not find, warns once, and serves the next client" {
	use address
	local refused="rejected a connect request to 192.0.2.2: librdmacm finds no RDMA device for this address"
	outcomes <<-END
	server	0	[iwarp] clients:3 unfound:2 refused:9	1x $refused	served=1	rdma_reject=2
	server -J	0	clients:3 together unfound:1 refused:9	1x $refused	listening on	served=2
	server	0	check unfound:1 refused:9	1x $refused	served=0
	one-off	0	[iwarp] write clients:2 unfound:1 refused:9	1x $refused	served=1
	server	0	clients:2 unfound:1 fail:rdma_reject:1:22	1x $refused	served=1
	server	0	clients:2 unfound:1 refused:9 abandons fail:rdma_destroy_id:1:16	1x $refused	cannot destroy a connection identifier	served=1
	END
}

# The advice without an RDMA device, and for a loopback address.

# negotiation-test checks which hellos are refused, and what the client reports for each reason of a server.
@test "each failure of the connection manager has its exit status, reason and advice" {
	local wildcard="give an address of the server's host, not the wildcard address"
	local no_path="check that the host is up, and that routes and firewalls let the packets pass"
	local no_server="check that rdma-server runs on that host and listens on that port" versions="client and server speak different versions of the protocol"
	outcomes <<-END
	client	3	fail:getaddrinfo:1:1	cannot resolve the host name '192.0.2.1': Temporary failure in name resolution
	client	3	fail:getaddrinfo:1:24	cannot resolve the host name '192.0.2.1': Too many open files
	client -B 192.0.2.2	3	fail:getaddrinfo:2:24	cannot resolve --bind '192.0.2.2': Too many open files
	server	3	fail:getaddrinfo:1:24	cannot resolve --bind 'any': Too many open files
	client	3	ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	client -t 10	3	9*ADDR_RESOLVED=ADDR_ERROR:-110	resolve
	client	3	ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-22	cannot resolve the route: Invalid argument; over InfiniBand, check that the subnet manager runs
	client	3	addresses:127.0.0.1	cannot resolve the route: No such device; $loopback
	client	3	iwarp addresses:127.0.0.1	cannot resolve the address: Invalid argument; $loopback
	client	3	[iwarp] addresses:127.1.2.3	$loopback
	client	3	[iwarp] addresses:::1	$loopback
	client	3	[iwarp] addresses:127.0.0.1,::1	1x trying the next address	2x $loopback
	client	0	[iwarp] addresses:127.0.0.1,192.0.2.1	1x $loopback
	client	3	[iwarp] addresses:0.0.0.0	; $wildcard	0x subnet manager
	client	3	[iwarp] addresses:::	; $wildcard	0x check that the host is up
	client	3	addresses:224.0.0.1 fail:rdma_resolve_addr:1:101	cannot resolve the address: Network is unreachable; give an address of the server's host, not a multicast address
	client	3	addresses:ff02::1 fail:rdma_resolve_addr:1:101	not a multicast address
	check 192.0.2.1	3	[iwarp] addresses:0.0.0.0	>   -> $wildcard	!> subnet manager
	both	5	ESTABLISHED=UNREACHABLE:-110	UNREACHABLE
	client	6	ESTABLISHED=UNREACHABLE:-113	No route to host
	both	6	ESTABLISHED=CONNECT_ERROR:-5	CONNECT_ERROR
	client	6	ESTABLISHED=UNREACHABLE:5	UNREACHABLE, status 5 (a code of the RDMA transport, not an errno value)
	client	4	fail:rdma_connect:1:111	cannot connect: Connection refused; $no_server
	client	4	fail:rdma_connect:1:104	cannot connect: Connection reset by peer; $no_server
	client	4	fail:rdma_connect:1:113	cannot connect: No route to host; $no_path
	client	1	fail:rdma_connect:1:13	cannot connect: Permission denied
	client	5	fail:rdma_connect:1:110	no answer to the connect request
	client	1	fail:rdma_connect:1:99	cannot connect: Cannot assign requested address; an earlier connection may still use the local port
	client	1	fail:rdma_connect:1:12	cannot connect: Cannot allocate memory; check that this host has free memory, and that the program on that port is an rdma-server: early data from another program can cause this error, too
	client	1	fail:rdma_connect:1:22	cannot connect: Invalid argument	0x link-local
	client	1	addresses:fe80::1%lo fail:rdma_connect:1:22	cannot connect: Invalid argument	0x link-local
	client	1	addresses:fe80::1 fail:rdma_connect:1:22	cannot connect: Invalid argument; name the network interface of the link-local address, as in fe80::1%eth0
	client	4	ESTABLISHED=REJECTED:28	connection rejected (status 28: consumer defined), no reason from the server arrived; either the server listens on another address
	client	4	ESTABLISHED=REJECTED:4	connection rejected (status 4: timeout), no reason from the server arrived; read the messages of the server
	client	4	ESTABLISHED=REJECTED:34	connection rejected (status 34), no reason from the server arrived
	# after "stale connection" the client tries once more, with a new queue pair
	client	0	ESTABLISHED=REJECTED:10	rdma_connect=2
	client	4	2*ESTABLISHED=REJECTED:10	connection rejected (status 10: stale connection), no reason from the server arrived; that host still has	rdma_connect=2
	client --connections 2	0	2*ESTABLISHED=REJECTED:10	rdma_connect=4
	client	1	ESTABLISHED=REJECTED:10 fail:rdma_create_id:2:24	cannot create a connection identifier
	client	4	iwarp ESTABLISHED=REJECTED:-104	connection rejected (status -104: Connection reset by peer), no reason from the server arrived
	client	4	refuse:255	connection rejected: no program listens on that port; $no_server
	client	4	iwarp refuse:255	connection rejected: no program listens on that port, or the program is not this project's rdma-server
	client	4	refuse:1	version
	client	4	write refuse:2	the modes differ
	client	4	refuse:3 payload:4096	the server refused: it accepts at most 4096 bytes (--max-size of the server); send fewer
	client	4	refuse:3 payload:0	the server refused: the client sends nothing, or more than
	# over iWARP a short hello arrives short; over RoCE zeros pad it, and with hello-size:4 are read as its version
	client	4	[iwarp] version:2	$versions
	client	4	version:5	$versions
	client	4	iwarp hello-size:55	$versions
	client	4	[iwarp] hello-size:4	$versions
	client	4	[iwarp] version:2 refuse:1	the server refused: $versions
	client	4	iwarp hello-size:32 refuse:2	the server refused: $versions
	server	0	[iwarp] version:2	refused: $versions	served=0	rdma_reject=1
	server	0	version:5	refused: $versions	served=0	rdma_reject=1
	server	0	iwarp hello-size:55	refused: $versions	served=0	rdma_reject=1
	server	0	[iwarp] hello-size:4	refused: $versions	served=0	rdma_reject=1
	client	1	ROUTE_RESOLVED+DEVICE_REMOVAL	removed
	client	1	sent-MR+DEVICE_REMOVAL	removed
	client	1	sent-MR+DISCONNECTED DISCONNECTED+DEVICE_REMOVAL	removed
	one-off	1	ESTABLISHED+DEVICE_REMOVAL	removed
	client	3	no-device	cannot find an RDMA device: No such device	$software
	client	3	fail:rdma_create_event_channel:1:19	connection manager: No such device	$software
	client	3	fail:rdma_create_event_channel:1:13	Permission denied	/dev/infiniband
	client	3	fail:rdma_create_event_channel:1:1	Operation not permitted	/dev/infiniband
	client	1	fail:rdma_create_event_channel:1:24	raise the limit of open files ('ulimit -n')
	client	1	fail:epoll_create1:1:24	for signals and events: Too many open files; raise the limit of open files ('ulimit -n')
	client	1	fail:epoll_create1:1:12	for signals and events: Cannot allocate memory	0x ulimit -n
	both	1	fail:eventfd:1:24	cannot create the pipes and threads that write the output: Too many open files; raise the limit of open files ('ulimit -n')
	both	1	fail:pthread_create:1:11	cannot create the pipes and threads that write the output: Resource temporarily unavailable
	client	1	fail:eventfd:2:24	cannot open a descriptor for the session: Too many open files; raise the limit of open files ('ulimit -n')
	client	1	fail:eventfd:2:12	cannot open a descriptor for the session: Cannot allocate memory	0x ulimit -n
	client	0	ADDR_RESOLVED+ADDR_CHANGE
	# once the connection is established, UNREACHABLE is ignored, and REJECTED means that the peer left
	client	0	sent-MR+UNREACHABLE:-110
	client	0	received-DONE+UNREACHABLE:-110
	client	5	sent-MR+UNREACHABLE:-110 received-VERDICT!	no progress
	client	6	ESTABLISHED+REJECTED:28	peer left
	client	6	ESTABLISHED+REJECTED:28 DISCONNECTED!	peer left
	client	6	addresses:192.0.2.1,192.0.2.3 sent-MR+REJECTED:28	peer left
	client	0	received-VERDICT+REJECTED:28
	client	143	addresses:192.0.2.1,192.0.2.3 ROUTE_RESOLVED+signal signal+REJECTED:28	interrupted before
	END
}

# If librdmacm's own work for an event fails, the status is -1, and errno is the reason. One failure of a connection has
# the reason as its positive status.
@test "error events of librdmacm with status -1 give the right exit status and reason, with and without errno" {
	local device="the address was resolved to an RDMA device, but librdmacm cannot use this device"
	local connect="the server accepted, but this host cannot set up the connection"
	outcomes <<-END
	client	3	[iwarp] ADDR_RESOLVED=ADDR_ERROR:-1 library:19	$device: No such device; check that	0x check that the host is up
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:110	$device: Connection timed out	rdma_resolve_addr=1
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:-22	$device: Invalid argument
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:1	$device: Operation not permitted; the rdma cgroup of this process may be at its limit	0x ibv_devices
	client	3	ADDR_RESOLVED=ADDR_ERROR:-1 library:0	cannot resolve the address: Operation not permitted; check that the host is up
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-1 library:12	the route is resolved, but librdmacm cannot read it from the kernel: Cannot allocate memory; try again	0x subnet manager
	client	3	ROUTE_RESOLVED=ROUTE_ERROR:-1 library:0	cannot resolve the route: Operation not permitted; over InfiniBand, check that the subnet manager runs
	client	1	write ESTABLISHED=CONNECT_ERROR:-1 refused:9	$connect: Invalid argument	0x check that the peer is up	rdma_reject=1
	client	1	ESTABLISHED=CONNECT_ERROR:22 refused:9	$connect: Invalid argument	0x check that the peer is up	rdma_reject=1
	client	1	ESTABLISHED=CONNECT_ERROR:-1 library:110	$connect: Connection timed out	rdma_reject=1
	client	6	ESTABLISHED=CONNECT_ERROR:-1 withdrawn:22	peer left	0x cannot set up the connection	rdma_reject=1
	client	1	ESTABLISHED=CONNECT_ERROR:-1 library:12 withdrawn:22	$connect: Cannot allocate memory
	client	6	ESTABLISHED=CONNECT_ERROR:-1 library:0	cannot connect: CONNECT_ERROR, status -1 (Operation not permitted)	rdma_reject=0
	check 192.0.2.1	3	ADDR_RESOLVED=ADDR_ERROR:-1	> address     not resolved: librdmacm failed and gives no reason (the kernel may deny access to /dev/infiniband)	!> Operation not permitted
	check 192.0.2.1	3	ROUTE_RESOLVED=ROUTE_ERROR:-1	> route       not resolved: librdmacm failed and gives no reason (the kernel may deny access to /dev/infiniband)	!> Operation not permitted
	END
}

# $twice: three clients, one after the other, and a device that is removed and returns twice.
@test "a server for all addresses serves again after its device disappeared and returned" {
	local sanitizer step gone="the RDMA device" twice="clients:3 2*leave+return return@5000 return@5000"
	for sanitizer in "${sanitizers[@]}"; do
		use "$sanitizer"
		outcomes server <<-END
		0	$twice 2*DISCONNECTED+leave leave@100 leave@100	served=3
		0	$twice 2*DISCONNECTED+leave	served=3
		0	$twice 2*DISCONNECTED+leave iwarp leave@100	served=3
		0	$twice 2*DISCONNECTED+leave write leave@2000 leave@700	served=3
		# the device returns before the server has handled the removal: nothing of the old device is used
		0	[iwarp] coalesce CONNECT_REQUEST+leave leave+return
		# the removal ends all sessions that run at the same time
		0	together clients:3 sent-MR+leave leave+return return@5000	3x $gone	3x rdma link
		END
		for step in sent-MR "iwarp sent-MR" "ESTABLISHED" "write operation" received-DONE; do
			outcomes server <<<"0	$twice ${step% *} 2*${step##* }+leave	$gone	rdma link"
			[ "$(calls served)" -ge 1 ]
		done
	done
}

@test "a session that polls ends when its device is removed" {
	use address
	outcomes both --busy-poll <<<"1	[iwarp] sent-DONE+leave until:2500	the RDMA device was removed"
}

@test "a server with --bind whose device is removed ends its sessions, reports the removal and exits with 1" {
	use address
	outcomes server --bind 192.0.2.1 <<-END
	1	clients:2 DISCONNECTED+leave leave@100 by-itself	cannot listen on an address of --bind '192.0.2.1' any more: its RDMA device was removed
	1	clients:2 sent-MR+leave by-itself	cannot listen on an address of --bind '192.0.2.1' any more: its RDMA device was removed
	END
}

# EADDRNOTAVAIL, EAFNOSUPPORT and ENODEV mean that the address does not exist. If the port is in use (EADDRINUSE, or
# EADDRNOTAVAIL for a wildcard address), the server tries another port, unless --port is given. A server uses at most 16
# addresses of a name.
@test "a server listens on the same port of every address, or of each address of the name in --bind" {
	local errno several=addresses:192.0.2.1,fd00::1,192.0.2.3 taken="the port is in use; choose another --port"
	for errno in 99 97 19; do
		outcomes <<-END
		one-off	0	fail:rdma_bind_addr:2+:$errno	rdma_listen=1
		one-off -B name -p 4000	0	$several fail:rdma_bind_addr:3+:$errno	rdma_listen=2
		server -B 192.0.2.3	3	fail:rdma_bind_addr:1:$errno	on 192.0.2.3, any port: 	give --bind an address of a network interface
		END
	done
	outcomes <<-END
	one-off	3	fail:rdma_bind_addr:1+:97	give --bind an address of a network interface
	server -B name	3	$several fail:rdma_bind_addr:1+:19	on name, any port: 
	one-off	0	read	rdma_listen=2
	one-off	0	fail:rdma_bind_addr:2:98	rdma_listen=3
	one-off	0	fail:rdma_bind_addr:2:99	rdma_listen=3
	server	1	fail:rdma_bind_addr:1+:98	no local port is free	rdma_bind_addr=21
	server -p 20000	1	fail:rdma_bind_addr:2:98	port 20000: $taken
	one-off -B name	0	$several	rdma_listen=3
	one-off -B name	0	$several fail:rdma_bind_addr:3:98	rdma_listen=5
	one-off -B name	0	addresses:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17	rdma_listen=16
	# a name may have the same address twice, from two lines of /etc/hosts
	one-off -B name	0	addresses:192.0.2.1,192.0.2.1	rdma_listen=1
	one-off -B name -p 4000	0	addresses:1,fd00::1,1,fd00::1,1,2	rdma_listen=3
	one-off -B name	0	addresses:fe80::1%1,fe80::1%2	rdma_listen=2
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:98	cannot listen on name port 4000: $taken
	server -B name -p 4000	1	$several fail:rdma_bind_addr:3:99	cannot listen on name port 4000: $taken
	server -p 80	1	fail:rdma_bind_addr:1+:13	all addresses port 80: Permission denied; choose a --port of net.ipv4.ip_unprivileged_port_start or more, or grant CAP_NET_BIND_SERVICE
	server	1	fail:rdma_bind_addr:1+:13	any port: Permission denied	0x CAP_NET
	server -B name -p 4000	1	$several fail:rdma_listen:2:12	cannot listen on name port 4000: Cannot allocate memory
	END
}

# The kernel chooses a port of net.ipv4.ip_local_port_range for each client, and for a server without --port.
@test "if no local port is free, both programs and --check say so, and exit with 1 or 3" {
	local errno none="no local port is free (net.ipv4.ip_local_port_range)"
	local advice="widen that range, or end programs that use its ports ('rdma resource show cm_id')"
	for errno in 99 98; do
		outcomes <<-END
		client	1	[iwarp] no-ports:$errno	cannot resolve the address: $none; $advice	0x check that the host is up
		client -B 192.0.2.2	1	[iwarp] no-ports:$errno	cannot resolve the address: $none; $advice	0x address of this host
		client --connections 2	1	no-ports:$errno	2x cannot resolve the address: $none; $advice
		server	1	no-ports:$errno	cannot listen on all addresses, any port: $none; $advice	0x --bind
		server -B 192.0.2.2	1	no-ports:$errno	cannot listen on 192.0.2.2, any port: $none; $advice	0x --bind
		one-off -p 4000	0	no-ports:$errno
		check	3	no-ports:$errno	> device      cannot find out which addresses of this host lead to an RDMA port: $none?  -> $advice	!> no address of this network namespace
		check 192.0.2.1	3	[iwarp] no-ports:$errno	> address     not resolved: $none?  -> $advice	!> which is not an address of an RDMA device
		END
	done
	# a given port is in use, or the address is missing: without a free port nothing shows which
	outcomes <<-END
	server -p 4000	1	no-ports:99 fail:rdma_bind_addr:1+:99	port 4000: Cannot assign requested address; either the port is in use, or this host does not have the address
	server -p 4000	1	no-ports:98 fail:rdma_bind_addr:1+:98	port 4000: the port is in use; choose another --port
	END
}

# With --json the client prints one object, for the last address that it tried.
@test "a client tries the next address of a name until a server of this project answers" {
	use address
	local times expected script next="trying the next address of '192.0.2.1'"
	while read -r times expected script; do
		outcomes client -J <<<"$expected	addresses:192.0.2.1,fd00::1 $script	${times}x $next	> \"status\": $expected,	!> }?{"
		[ "$expected" -ne 0 ] || [[ $output == *'"verified": true'* ]]
	done <<-END
	0	0	read
	1	0	ADDR_RESOLVED=ADDR_ERROR:-19
	1	3	2*ADDR_RESOLVED=ADDR_ERROR:-19
	1	0	ROUTE_RESOLVED!
	1	0	ESTABLISHED!
	1	4	refuse:255
	0	4	refuse:2
	0	6	operation=12
	0	143	ADDR_RESOLVED+signal
	END
	outcomes client -J -B name <<<"0	addresses:192.0.2.1,fd00::1 ADDR_RESOLVED=ADDR_ERROR:-19	1x $next"
}

@test "more --connections than the queues of every device allow are refused in one line, before the first session" {
	local most="connections: RDMA device double0 can have at most 4 (max_qp, max_cq of 'ibv_devinfo -v'); lower --connections"
	outcomes <<-END
	client --connections 5	1	[iwarp] max_qp:4	1x cannot have 5 $most	!> [1]	rdma_resolve_addr=0
	client --connections 8	1	max_qp:9 max_cq:4	1x cannot have 8 $most	rdma_resolve_addr=0
	client -J --connections 5	1	max_qp:4	$most	> "status": 1,
	client --connections 4	0	max_qp:4 max_cq:4
	check --connections 5 192.0.2.1 20000	1	max_qp:4	1x cannot have 5 $most	> Not ready: cannot have 5 $most	!> transfer
	client --connections 2	0	fail:ibv_query_device:1:5
	client	0	max_qp:0
	END
}

@test "a client tries each address of a name once, even if the name lists it twice" {
	outcomes <<-END
	client	3	addresses:192.0.2.1,fd00::1,192.0.2.1 3*ADDR_RESOLVED=ADDR_ERROR:-19	1x trying the next address	rdma_resolve_addr=2
	check 192.0.2.1	3	addresses:192.0.2.1,192.0.2.1 2*ADDR_RESOLVED=ADDR_ERROR:-19	rdma_resolve_addr=1
	END
}

@test "a client's --bind accepts an address of this host, and refuses addresses of other hosts or of the other family" {
	outcomes <<-END
	client -B 192.0.2.2	0	read
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:99	with --bind '192.0.2.3' as the source: Cannot assign requested address
	client -B 192.0.2.3	3	fail:rdma_resolve_addr:1:19	with --bind '192.0.2.3' as the source: No such device
	client -J -B fd00::2	3	read	--bind 'fd00::2' is not an IPv4 address, but the server's is
	client -J -B 192.0.2.300	3	read	cannot resolve --bind '192.0.2.300': 	> "status": 3,
	END
}

# The fake host has the interfaces eth9, with an address, and wg0, without one. pair.bats has the rows with a device.
@test "a network interface, a port, brackets or a prefix in place of an address are named, with the right notation" {
	local bind="cannot resolve --bind"
	outcomes <<-END
	client -B eth9	3	fail:getaddrinfo:2:1	$bind 'eth9': Temporary failure in name resolution; --bind takes an address; eth9 has 198.51.100.2
	server -B eth9	3	fail:getaddrinfo:1:1	$bind 'eth9': Temporary failure in name resolution; --bind takes an address; eth9 has 198.51.100.2
	server -B wg0	3	fail:getaddrinfo:1:1	; --bind takes an address; wg0 has none
	server -B eth	3	fail:getaddrinfo:1:1	; give an address, or add the name to /etc/hosts
	server -B eth99	3	fail:getaddrinfo:1:1	; give an address, or add the name to /etc/hosts
	server -B 192.0.2.2:4700	3	fail:getaddrinfo:1:1	; --bind takes an address without a port: 192.0.2.2
	server -B [fd00::2]:4700	3	fail:getaddrinfo:1:1	; --bind takes an address without a port: fd00::2
	server -B [fd00::2]	3	fail:getaddrinfo:1:1	; omit the brackets: fd00::2
	server -B 192.0.2.2/24	3	fail:getaddrinfo:1:1	; omit the length of the prefix: 192.0.2.2
	server -B fe80::2%eth8	3	fail:getaddrinfo:1:1	; this host has no network interface 'eth8'
	server -B fe80::2%eth9	3	fail:getaddrinfo:1:1	; give an address, or add the name to /etc/hosts
	server -B eth9	3	fail:getaddrinfo:1:24	$bind 'eth9': Too many open files	0x takes an address
	check eth9	3	fail:getaddrinfo:1:1	> name        'eth9' not resolved: Temporary failure in name resolution?  -> eth9 is a network interface of this host: give an address or the name of the server's host
	check host-a:4700	3	fail:getaddrinfo:1:1	>   -> give the port as the next argument: host-a 4700
	check [fd00::1]:4700	3	fail:getaddrinfo:1:1	>   -> give the port as the next argument: fd00::1 4700
	check [fd00::1] 4700	3	fail:getaddrinfo:1:1	>   -> omit the brackets: fd00::1
	check fd00::1:	3	fail:getaddrinfo:1:1	>   -> give an address, or add the name to /etc/hosts
	check host-a	3	fail:getaddrinfo:1:24	> Too many open files	!> ->
	check -B eth9 192.0.2.1	3	fail:getaddrinfo:2:1	> cannot connect from 'eth9': Temporary failure in name resolution?  -> --bind takes an address; eth9 has 198.51.100.2
	END
}

# Over RoCE the client's --tos applies to both sides; over iWARP the programs do not know the value.
@test "over RoCE the client's --tos applies to both sides, and --json reports it; a failure to set it is reported" {
	outcomes <<-END
	client -J --tos 104	0	read	disconnected.	> "tos": 104,
	client -J	0	read	disconnected.	> "tos": 0,
	client -J --tos 104	0	iwarp	disconnected.	> "tos": null,
	one-off -J --tos 104	0	tos:72	disconnected.	> "tos": 72,
	client -v --tos 8	0	read	type of service 8
	client --tos 8	1	fail:rdma_set_option:1:12	cannot set --tos: Cannot allocate memory
	one-off --tos 8	1	fail:rdma_set_option:1:12	Cannot allocate memory
	# the one-off server refuses the client, and waits for another one until a signal ends it
	one-off --tos 8	143	fail:rdma_set_option:4:12	cannot set --tos: Cannot allocate memory
	END
}
