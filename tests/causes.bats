# 'rdma-client --check' between two hosts that cannot connect: the rule that names the cause.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

# --timeout, in seconds, if one request is not answered and another one is: the kernel repeats a request after 4 s.
SILENT=6
# --timeout, in seconds, if the cause shows on this host or by UDP.
BRIEF=2

# A rule of nftables without which no IPv6 neighbor is found.
DISCOVERY="icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
# The prefix of a command that an ordinary user runs.
NOBODY="setpriv --reuid 65534 --regid 65534 --clear-groups"

# check STATUS ARGUMENT...: run --check on host b, or on $host, with the prefix $as. It must exit with STATUS, and print
# nothing to standard error.
check() {
	# shellcheck disable=SC2086 # a word for each argument
	on "${host:-b}" ${as:-} "$PROGRAMS/rdma-client" -t "${limit:-$LIMIT}" --check --duration 0 "${@:2}"
	expect "$1"
	[ -z "$stderr" ]
}

# begin_check HOST ARGUMENT...: start --check, with the prefix $as, beside another one; end_check STATUS awaits its end.
begin_check() {
	# shellcheck disable=SC2086 # a word for each argument
	start client "$1" ${as:-} "$PROGRAMS/rdma-client" -t "${limit:-$BRIEF}" --check --duration 0 "${@:2}"
}

end_check() {
	expect_end client "$1"
	output=$(<"$client_out")
	[ -z "$stderr" ]
}

# says LINE: check that a whole line of the output matches LINE, an extended regular expression.
says() {
	grep -E -x -q -e "$1" <<<"$output"
}

# names RULE TEXT: check that the output states the cause of this rule, with TEXT, an extended regular expression, and
# of no other rule; that the cause has an arrow, and the address has none; and that nothing is called ready.
names() {
	says "reach       $2 \($1\)"
	[ "$(grep -c '^reach .*([LBC][0-9]*)$' <<<"$output")" -eq 1 ]
	[[ $(grep -A 1 '^address ' <<<"$output") != *"  -> "* ]]
	grep -A 1 "^reach .*($1)\$" <<<"$output" | grep -q '^  -> '
	[[ $output != *Ready* ]]
}

# well ARGUMENT...: check a healthy path: status 0, no arrow, an answer, and "Ready."
well() {
	check 0 "$@"
	[[ $output != *"  -> "* ]]
	says "reach       .* answers (connect requests|TCP) .*"
	[[ $output == *$'\nReady.'* ]]
}

# modules HOST MODULE...: load kernel modules that the hosts do not load at boot.
modules() {
	lab run "$1" modprobe -a -d "$LAB_MODULES" "${@:2}"
}

# number HOST: print the last part of its addresses.
number() {
	if [ "$1" = a ]; then echo 1; else echo 2; fi
}

# add_upper HOST KIND [OPTION...]: move the addresses of eth0 to a new interface upper0 of this kind above eth0, in
# place of an earlier upper0, and wait for its carrier. A bridge forwards nothing for its forward_delay, 15 s by default.
add_upper() {
	local -A module=([bond]=bonding [vlan]=8021q)
	modules "$1" "${module[$2]:-$2}"
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -e -c 'number=$1
		shift
		ip link del upper0 2>/dev/null || :
		ip address flush dev eth0 scope global
		case $1 in
		bond | bridge)
			ip link add upper0 type "$@"
			ip link set eth0 down
			ip link set eth0 master upper0
			;;
		*) ip link add upper0 link eth0 type "$@" ;;
		esac
		ip link set eth0 up
		ip link set upper0 mtu 4200 up
		ip address add "192.0.2.$number/24" dev upper0
		ip address add "fd00::$number/64" dev upper0 nodad
		until grep -q 1 /sys/class/net/upper0/carrier; do sleep 0.05; done' - "$(number "$1")" "${@:2}"
}

# move_device HOST INTERFACE: move the RDMA device to this interface.
move_device() {
	lab run "$1" rdma link del rdma0
	lab run "$1" rdma link add rdma0 type "$LAB_TRANSPORT" netdev "$2"
}

# has_roce_port HOST [PREFIX...]: return true if the host's Soft-RoCE receives UDP packets. In older kernels the module opens
# the port, in newer ones (7.3) each network namespace has it open while there is a device.
has_roce_port() {
	[ -n "$(lab run "$1" "${@:2}" ss -Huln 'sport = :4791')" ]
}

# restore_hosts: remove upper0, and restore eth0, its addresses and neighbors, the RDMA device and the firewall, on both
# hosts.
restore_hosts() {
	local host
	for host in a b; do
		# shellcheck disable=SC2016 # expanded on the host
		lab run "$host" sh -c 'modprobe -a -d "$LAB_MODULES" rdma_rxe
			rdma link del rdma0
			ip link del upper0
			ip link set eth0 nomaster
			ip link set eth0 mtu 4200 up
			ip address replace "192.0.2.$1/24" dev eth0
			ip address replace "fd00::$1/64" dev eth0 nodad
			rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
			nft flush ruleset
			rmmod ipip
			ip neighbour flush dev eth0
			ip neighbour flush dev eth0 nud permanent' - "$(number "$host")" 2>/dev/null 3>&- &
	done
	wait
}

# rule HOST ARGUMENT...: run 'ip ARGUMENT...' on the host to add a routing rule. Before that, move the rule for local
# addresses down, so that the new rule also applies to what the host receives.
rule() {
	# shellcheck disable=SC2016 # expanded on the host
	lab run "$1" sh -e -c 'for family in -4 -6; do
			ip $family rule show | grep -q "^100:" || { ip $family rule add pref 100 lookup local; ip $family rule del pref 0; }
		done
		echo 0 >/proc/sys/net/ipv4/tcp_early_demux' -
	lab run "$1" ip "${@:2}"
}

# firewall HOST CHAIN RULES: have nftables apply the rules, for both families, to what the host receives (input) or
# sends (output). restore_hosts() ends this.
firewall() {
	modules "$1" nf_tables
	lab run "$1" nft "flush ruleset; table inet filter { chain $2 { type filter hook $2 priority 0; $3; }; }"
}

# answer_each: have host a send an ICMP error for each packet that it cannot deliver; by default it sends one a second.
answer_each() {
	lab run a sh -c 'echo 0 >/proc/sys/net/ipv4/route/error_cost
		echo 0 >/proc/sys/net/ipv4/icmp_ratelimit
		echo 0 >/proc/sys/net/ipv6/icmp/ratelimit'
}

# restore_rules: undo what rule() and the tests that call it have changed, on both hosts.
restore_rules() {
	local host
	for host in a b; do
		# shellcheck disable=SC2016 # expanded on the host
		lab run "$host" sh -c 'for family in -4 -6; do
				if ip $family rule show | grep -q "^100:"; then
					ip $family rule add pref 0 lookup local
					ip $family rule del pref 100
				fi
				while ip $family rule del pref 50; do :; done
			done 2>/dev/null
			echo 0 >/proc/sys/net/ipv4/conf/eth0/forwarding
			echo 1 >/proc/sys/net/ipv4/tcp_early_demux'
	done
}

@test "--check gives no advice for a healthy path over IPv4 or IPv6, or one that drops all but RoCE" {
	well 192.0.2.1
	well fd00::1
	[ "$LAB_TRANSPORT" != siw ] || return 0
	repair=restore_rules
	rule a rule add pref 50 iif eth0 ipproto tcp blackhole
	rule a rule add pref 50 iif eth0 ipproto icmp blackhole
	rule a rule add pref 50 iif eth0 ipproto udp dport 1-4790 blackhole
	rule a rule add pref 50 iif eth0 ipproto udp dport 4792-65534 blackhole
	well 192.0.2.1
}

# bats test_tags=slow
@test "--check gives no advice for a healthy path over a VLAN, or with the RDMA device on a bond or a bridge" {
	repair=restore_hosts
	add_upper b bond mode active-backup
	move_device b upper0
	well 192.0.2.1
	move_device b eth0
	add_upper b bridge forward_delay 0
	move_device b upper0
	well fd00::1
	move_device b eth0
	add_upper a vlan id 7
	add_upper b vlan id 7
	well 192.0.2.1
	host=a well fd00::2
}

# bats test_tags=roce,slow
@test "--check gives no advice if nftables lets in only RoCE and neighbor discovery" {
	repair=restore_hosts
	firewall a input "policy drop; udp dport 4791 accept; $DISCOVERY"
	well 192.0.2.1
	well fd00::1
}

@test "B1, or B5 over iWARP: no program listens on the port, over IPv4 or IPv6; its host says so" {
	local name text
	for name in 192.0.2.1 fd00::1; do
		check 4 "$name" 4711
		if [ "$LAB_TRANSPORT" != rxe ] && has_roce_port a; then
			names B5 "$name answers TCP, but no program accepts iWARP on port 4711; one of: .*"
		elif [ "$LAB_TRANSPORT" != rxe ]; then
			names B5 "$name answers TCP, but no program listens on port 4711"
		else
			names B1 "$name answers, but no program listens on port 4711 of the device that has $name; one of: .*"
			[[ $output != *"a program listens there"* ]]
		fi
	done
	host=a check 0 192.0.2.2
	says "reach       found no RDMA program that listens on this host, [^;]+(; .*)?"
}

# bats test_tags=roce,slow
@test "B2: the program listens only on an address other than the given one; --check on its host names it" {
	repair="lab run a ip address del 192.0.2.77/24 dev eth0"
	lab run a ip address add 192.0.2.77/24 dev eth0
	start_server --bind 192.0.2.1 write
	check 4 192.0.2.77 "$port"
	names B2 "192.0.2.77 rejects the request \(reason 28, consumer defined\), and answers UDP to 192.0.2.2; one of: the program on port $port listens on another address of that host \(--bind\); .*"
	check 4 fd00::1 "$port"
	names B2 "fd00::1 rejects the request \(reason 28, consumer defined\), and answers UDP to fd00::2; one of: .*"
	host=a check 0 192.0.2.2
	says "reach       listening on this host, [0-9a-f.:]+: rdma-server \(process [0-9]+\) on port $port of 192.0.2.1; .*"
}

with_addresses() {
	lab run b ip address flush dev eth0 scope global # rdma_cm solicits neighbors from the link-local one
	lab run b ip address add 192.0.2.2/24 dev eth0
	lab run b ip address add fd00::2/64 dev eth0 nodad
}

# If there is no route back, the kernel assumes that an IPv4 address is on the interface's network, and can send a
# rejection; to an IPv6 address it cannot.
# bats test_tags=roce,slow
@test "B3 over IPv4, C10 over IPv6: the server's host has no route back to the client" {
	repair=with_addresses
	start_server write
	lab run b ip address add 198.51.100.5/24 dev eth0
	lab run b ip address del 192.0.2.2/24 dev eth0
	lab run b ip route add 192.0.2.0/24 dev eth0 src 198.51.100.5
	lab run b ip address add 2001:db8::5/64 dev eth0 nodad
	lab run b ip address del fd00::2/64 dev eth0
	lab run b ip route add fd00::/64 dev eth0 src 2001:db8::5
	begin_check b fd00::1 "$port"
	check 4 192.0.2.1 "$port"
	names B3 "192.0.2.1 rejects the request \(reason 28, consumer defined\), and no UDP packet comes back to 198.51.100.5; one of: that host has no route to 198.51.100.5 over the interface that has 192.0.2.1; .*"
	end_check 5
	names C10 "the hardware address of fd00::1 is known \([a-z]*\), but no packet comes back from fd00::1; one of: .*; that host has no route back to 2001:db8::5, .*"
	host=a check 3 198.51.100.5
	names L6 "there is no route to 198.51.100.5 \(ENETUNREACH\)"
}

# bats test_tags=slow
@test "C2: the program on the port is stopped; --check on its host names the process" {
	local process name
	start_server write
	process=$(lab run a pidof rdma-server)
	lab run a kill -STOP "$process"
	limit=$SILENT begin_check b fd00::1 "$port"
	limit=$SILENT check 5 192.0.2.1 "$port"
	for name in 192.0.2.1 fd00::1; do
		if [ "$LAB_TRANSPORT" = siw ]; then
			names C2 "$name answers TCP, but nothing answers on port $port; one of: .*"
		else
			names C2 "$name answers connect requests, but the program on port $port does not"
			[[ $output != *firewall* ]]
		fi
		[ "$name" = fd00::1 ] || end_check 5
	done
	host=a check 0 192.0.2.2
	says "reach       listening on this host, [0-9a-f.:]+: rdma-server \(process $process, stopped\) on port $port of every address.*"
	says "  -> continue the stopped process: 'kill -CONT $process'"
	lab run a kill -CONT "$process"
}

# bats test_tags=slow
@test "C3: no host has the address, of either family" {
	begin_check b fd00::99
	limit=$BRIEF check 3 192.0.2.99
	names C3 "no host on the network of eth0 answers for 192.0.2.99; one of: .*"
	[[ $output != *firewall* ]]
	end_check 3
	names C3 "no host on the network of eth0 answers for fd00::99; one of: .*"
}

# bats test_tags=slow
@test "C3, L16: the server's link is down; its host says so, not that there is no route" {
	repair="lab run a sh -c 'ip link set eth0 up; ip address replace 192.0.2.1/24 dev eth0; ip address replace fd00::1/64 dev eth0 nodad'"
	lab run a ip link set eth0 down
	lab run b ip neighbour flush dev eth0
	limit=$BRIEF check 3 192.0.2.1
	names C3 "no host on the network of eth0 answers for 192.0.2.1; one of: that host is down, or its link is; .*"
	host=a check 3 192.0.2.2
	names L16 "no port of an RDMA device of this host is active"
	lab run a ip link set eth0 up
	lab run a ip address replace fd00::1/64 dev eth0 nodad
}

# bats test_tags=slow
@test "L6: there is no route" {
	check 3 203.0.113.9
	names L6 "there is no route to 203.0.113.9 \(ENETUNREACH\)"
	check 3 2001:db8::9
	names L6 "there is no route to 2001:db8::9 \(ENETUNREACH\)"
	check 3 --bind 192.0.2.77 192.0.2.1 # not an address of this host
	says "  -> give --bind an address of this host .*"
	[[ $output != *"(L6)"* ]]
}

@test "L6: a route forbids the address" {
	repair="lab run b ip route del prohibit 203.0.113.0/24"
	lab run b ip route add prohibit 203.0.113.0/24
	check 3 203.0.113.9
	names L6 "there is no route to 203.0.113.9 \(EACCES\)"
}

# bats test_tags=roce,slow
@test "C5: this host forbids sending to UDP port 4791, over IPv4 or IPv6" {
	repair=restore_rules
	rule b rule add pref 50 ipproto udp dport 4791 prohibit
	check 3 192.0.2.1
	names C5 "this host cannot send to UDP port 4791 of 192.0.2.1: EACCES; one of: .*"
	rule b -6 rule add pref 50 ipproto udp dport 4791 prohibit
	check 3 fd00::1
	names C5 "this host cannot send to UDP port 4791 of fd00::1: EACCES; one of: .*"
}

# The queue has no room for the datagram, and acts like a filter of tc(8): sendto(2) fails, and a request would hang.
# bats test_tags=roce,slow
@test "C5: this host drops the packets that it sends, over IPv4 or IPv6" {
	repair="lab run b tc qdisc del dev eth0 root"
	lab run b tc qdisc replace dev eth0 root bfifo limit 100
	check 3 192.0.2.1
	names C5 "this host cannot send to UDP port 4791 of 192.0.2.1: ENOBUFS; one of: an egress filter of this host drops the packet; .*"
	check 3 fd00::1
	names C5 "this host cannot send to UDP port 4791 of fd00::1: ENOBUFS; one of: .*"
}

# bats test_tags=roce,slow
@test "C6: a firewall rejects packets to UDP port 4791, and says so" {
	repair=restore_rules
	lab run a sh -c 'echo 1 >/proc/sys/net/ipv4/conf/eth0/forwarding'
	answer_each
	rule a rule add pref 50 iif eth0 ipproto udp dport 4791 prohibit
	rule a -6 rule add pref 50 iif eth0 ipproto udp dport 4791 prohibit
	begin_check b fd00::1
	limit=$BRIEF check 5 192.0.2.1
	names C6 "a firewall on 192.0.2.1 rejects packets to UDP port 4791 of 192.0.2.1"
	end_check 5
	names C6 "a firewall on fd00::1 rejects packets to UDP port 4791 of fd00::1"
}

with_roce() {
	lab run a rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
}

# bats test_tags=roce,slow
@test "C9 or C7, L1: the server's host has no RDMA device, but Soft-RoCE is loaded; --check on that host says so" {
	repair=with_roce
	lab run a rdma link del rdma0
	limit=$BRIEF check 5 192.0.2.1
	if ! has_roce_port a; then
		names C7 "192.0.2.1 is up, but accepts no RoCE packets: its UDP port 4791 is closed; one of: it has no RDMA device, .*"
	else
		names C9 "UDP port 4791 of 192.0.2.1 does not answer, and another port is refused: the host is up, but RoCE packets vanish; one of: .*; the packets arrive at an interface of that host that has no RoCE device .*"
	fi
	host=a check 3 192.0.2.2
	names L1 "this host, or this network namespace, has no RDMA device"
}

# bats test_tags=roce,slow
@test "C9: the server's host drops packets to UDP port 4791, as README shows; --check on that host finds the server" {
	local shown
	repair=restore_rules
	rule a rule add pref 50 iif eth0 ipproto udp dport 4791 blackhole
	rule a -6 rule add pref 50 iif eth0 ipproto udp dport 4791 blackhole
	start_server write
	begin_check b fd00::1
	limit=$BRIEF check 5 192.0.2.1 "$port"
	names C9 "UDP port 4791 of 192.0.2.1 does not answer, and another port is refused: the host is up, but RoCE packets vanish; one of: a firewall .*"
	says "  -> run 'rdma-client --check 192.0.2.2' on 192.0.2.1; if both print this line, look at both firewalls"
	shown=$(sed -n 's/^    \(reach .*;\) \.\.\.$/\1/p' "$top/README.md") # README shows the first part of the line
	[ "$shown" ] && [[ $output == *$'\n'"$shown one of: "* ]]
	grep -qxF -e "    $(grep -F -e '  -> run' <<<"$output")" "$top/README.md"
	end_check 5
	names C9 "UDP port 4791 of fd00::1 does not answer, .*"
	limit=$BRIEF host=a check 5 192.0.2.2
	names C9 "UDP port 4791 of 192.0.2.2 does not answer.*"
	says "reach       listening on this host, [0-9a-f.:]+: rdma-server .*"
}

# bats test_tags=roce,slow
@test "C9: the answers are dropped at the client's host: requests have arrived at the server's" {
	repair=restore_rules
	rule b rule add pref 50 from 192.0.2.1 ipproto udp dport 4791 blackhole
	begin_check a 192.0.2.2
	limit=$BRIEF check 5 192.0.2.1
	names C9 "UDP port 4791 of 192.0.2.1 does not answer.*"
	end_check 5
	says "reach       found no RDMA program that listens on this host, [^;]+; connect requests received: [1-9].*"
}

# bats test_tags=slow
@test "C10: every UDP and TCP packet from the client is dropped" {
	repair=restore_rules
	rule a rule add pref 50 iif eth0 ipproto udp blackhole
	rule a rule add pref 50 iif eth0 ipproto tcp blackhole
	lab run b ip neighbour flush dev eth0
	start_server write
	limit=$BRIEF check 5 192.0.2.1 "$port"
	names C10 "the hardware address of 192.0.2.1 is known \([a-z]*\), but no packet comes back from 192.0.2.1; one of: .*"
}

# The entry has a hardware address of no host, as after a failover, and the kernel has not confirmed it lately.
# bats test_tags=slow
@test "C10: the neighbor entry of the server's address is old" {
	repair="lab run b ip neighbour flush dev eth0"
	lab run b ip neighbour replace 192.0.2.1 lladdr 02:00:00:00:00:99 dev eth0 nud stale
	limit=$BRIEF check 5 192.0.2.1
	names C10 "the hardware address of 192.0.2.1 is known \([a-z]*\), but no packet comes back from 192.0.2.1; one of: .*; that host is down, .*, or this host's neighbour entry of 192.0.2.1 is old"
	says "  -> run 'ip neighbour flush 192.0.2.1' on this host, and this check again; .*"
}

without_router() {
	lab run b sh -c 'ip route del 203.0.113.0/24; ip route del 2001:db8::/64'
	lab run a sh -c 'echo 0 >/proc/sys/net/ipv4/conf/eth0/forwarding; echo 0 >/proc/sys/net/ipv6/conf/all/forwarding'
}

# bats test_tags=roce,slow
@test "C11: a router answers that it has no route to the address, of either family" {
	repair=without_router
	lab run a sh -c 'echo 1 >/proc/sys/net/ipv4/conf/eth0/forwarding; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
	answer_each
	lab run b ip route add 203.0.113.0/24 via 192.0.2.1
	lab run b ip route add 2001:db8::/64 via fd00::1
	begin_check b 2001:db8::9
	limit=$BRIEF check 5 203.0.113.9
	names C11 "192.0.2.1 answers that 203.0.113.9 cannot be reached; one of: .*; 192.0.2.1 has no route to 203.0.113.9; .*"
	end_check 5
	names C11 "fd00::1 answers that 2001:db8::9 cannot be reached; one of: .*"
}

# bats test_tags=slow
@test "C9 over iWARP: every TCP packet is dropped" {
	[ "$LAB_TRANSPORT" = siw ] || skip "RoCE uses UDP"
	repair=restore_rules
	start_server write
	rule a rule add pref 50 iif eth0 ipproto tcp blackhole
	limit=$SILENT check 5 192.0.2.1 "$port"
	names C9 "TCP port $port of 192.0.2.1 does not answer, and a UDP port is refused: the host is up, but TCP packets vanish; one of: .*"
}

# bats test_tags=roce,slow
@test "C1: packets with one type of service are dropped" {
	repair=restore_rules
	rule a rule add pref 50 iif eth0 ipproto udp dport 4791 tos 0x10 blackhole
	rule a -6 rule add pref 50 iif eth0 ipproto udp dport 4791 tos 0x10 blackhole
	limit=$SILENT begin_check b --tos 0x10 fd00::1
	limit=$SILENT check 5 --tos 0x10 192.0.2.1
	names C1 "192.0.2.1 answers packets with type of service 0, but none with 16"
	end_check 5
	names C1 "fd00::1 answers packets with type of service 0, but none with 16"
	well 192.0.2.1
}

without_routes() {
	restore_hosts
	lab run b ip route del 203.0.113.0/24
	lab run b ip route del 2001:db8::/64
} 2>/dev/null

# Soft-RoCE of newer kernels resolves an address that is routed over lo, and the request gets no answer.
# bats test_tags=roce,slow
@test "L9: the route leads over another interface than the device's" {
	local address route expected
	repair=without_routes
	while read -r address route; do
		# shellcheck disable=SC2086 # a word for each argument
		lab run b ip route add $route
		limit=$BRIEF check "3|5" "$address"
		names L9 "the route to $address leads over lo, and (192.0.2.2|fd00::2) belongs to the RDMA device on eth0"
		expected=3
		! says "address     resolved: .*" || expected=5
		expect "$expected"
	done <<-END
		203.0.113.9 203.0.113.0/24 dev lo src 192.0.2.2
		2001:db8::9 2001:db8::/64 dev lo src fd00::2
	END
	modules b bridge
	lab run b ip link add upper0 type bridge
	lab run b ip link set upper0 arp off up
	lab run b ip route replace 203.0.113.0/24 dev upper0 src 192.0.2.2
	check 3 203.0.113.9
	names L9 "the route to 203.0.113.9 leads over upper0, and 192.0.2.2 belongs to the RDMA device on eth0"
}

@test "L10: the device of the route has node GUID 0" {
	local as="env LD_PRELOAD=$top/build/preload/unfound.so UNFOUND=99" address advice="on the host that has the physical function .*"
	repair="lab run b umount /sys/class/infiniband/rdma0/node_guid"
	zero_guid b rdma0
	for address in 192.0.2.1 fd00::1 fe80::1%eth0; do
		check 3 "$address"
		names L10 "RDMA device rdma0 has node GUID 0, so librdmacm cannot find it"
		says "  -> $advice"
	done
	check 3
	says "  -> RDMA device rdma0 has node GUID 0, so librdmacm cannot find it: $advice"
	[[ $output != *"no address of this network namespace"* ]]
}

remove_other_device() {
	lab run b sh -c 'umount /sys/class/infiniband/rdma1/node_guid
		rdma link del rdma1
		ip link del br9'
}

# The other device is on a bridge. librdmacm does not find it.
@test "--check names a device with node GUID 0 beside the device of the route, and sessions work all the same" {
	local as="env LD_PRELOAD=$top/build/preload/unfound.so UNFOUND=99 UNFOUND_ADDRESS=198.51.100.1"
	modules b bridge
	repair=remove_other_device
	# shellcheck disable=SC2016 # expanded on the host
	lab run b sh -ec 'ip link add br9 type bridge
		echo 1 >/proc/sys/net/ipv6/conf/br9/disable_ipv6 # no address leads to the device but this one:
		ip address add 198.51.100.1/24 dev br9
		ip link set br9 mtu 4200 up
		rdma link add rdma1 type "$1" netdev br9' - "$LAB_TRANSPORT"
	zero_guid b rdma1
	check 0 192.0.2.1
	grep -A 1 '^device  *rdma1' <<<"$output" | grep -q '^  -> RDMA device rdma1 has node GUID 0'
	says "address     resolved: source 192.0.2.2, device rdma0 .*"
	[[ $output == *$'\nReady.'* ]]
	start_server -m "from the server" read
	# shellcheck disable=SC2086 # several words
	on b $as "$PROGRAMS/rdma-client" -t "$LIMIT" -m "a good client" read 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	serves_well read
}

# bats test_tags=slow
@test "L4, or L5 over iWARP: --check runs in a network namespace other than the first one" {
	on b unshare --net "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 3
	says "reach       .* \((L4|L5|L6)\)"
	on b unshare --net "$PROGRAMS/rdma-client" --check
	expect 3
	if [ "$LAB_TRANSPORT" = siw ]; then
		names L5 "no RDMA device has its network interface in this network namespace"
	else
		names L4 "this is not the first network namespace, and Soft-RoCE does not serve it: its UDP port 4791 is closed"
	fi
}

# begin_namespace: move host b's RDMA device to a macvlan in another network namespace, and set $as to the prefix of
# commands there.
begin_namespace() {
	local process
	repair=end_namespace
	modules b macvlan
	# shellcheck disable=SC2016 # expanded on the host
	process=$(lab run b sh -e -c 'rdma link del rdma0
		ip link add upper0 link eth0 type macvlan
		unshare --net sleep 1000 >/dev/null 2>&1 &
		until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
		ip link set upper0 mtu 4200 netns "$!"
		nsenter --target "$!" --net sh -e -c "ip address add 192.0.2.12/24 dev upper0
			ip link set upper0 up
			rdma link add rdma0 type rxe netdev upper0"
		echo "$!"')
	as="nsenter --target $process --net"
}

end_namespace() {
	lab run b pkill -x sleep
	restore_hosts
}

# Soft-RoCE of older kernels serves the first network namespace alone, and sends nothing from another one.
# bats test_tags=roce,slow
@test "L4, or B1 if the kernel's Soft-RoCE serves each namespace: --check and its device are in another network namespace" {
	local as
	begin_namespace
	# shellcheck disable=SC2086 # a word for each argument
	if has_roce_port b $as; then
		check 4 192.0.2.1 4711
		names B1 "192.0.2.1 answers, but no program listens on port 4711 of the device that has 192.0.2.1; one of: .*"
		start_server write
		check 0 192.0.2.1 "$port"
	else
		limit=$BRIEF check 5 192.0.2.1 4711
		names L4 "this is not the first network namespace, and Soft-RoCE does not serve it: its UDP port 4791 is closed"
	fi
}

# bats test_tags=slow
@test "L2: libibverbs has no driver for the device" {
	# shellcheck disable=SC2016 # expanded on the host
	on b unshare --mount sh -c 'mount -t tmpfs none /etc/libibverbs.d; exec "$@"' - "$PROGRAMS/rdma-client" --check
	expect 3
	names L2 "the kernel has the RDMA device rdma0, but libibverbs has no driver for it"
}

# bats test_tags=slow
@test "L11: the container has the file of the connection manager, and a file of no device" {
	local address prefix
	# shellcheck disable=SC2016 # expanded on the host
	prefix=(unshare --mount sh -ec 'numbers=$(stat -c "0x%t 0x%T" /dev/infiniband/rdma_cm)
		mount -t tmpfs none /dev/infiniband
		mknod /dev/infiniband/rdma_cm c $numbers
		mknod /dev/infiniband/uverbs1 c 231 199
		exec "$@"' -)
	for address in 192.0.2.1 ""; do
		# shellcheck disable=SC2086 # no word for an empty address
		on b "${prefix[@]}" "$PROGRAMS/rdma-client" --check $address
		expect 3
		names L11 "the file /dev/infiniband/uverbs0 of rdma0 is missing"
	done
	on b "${prefix[@]}" "$PROGRAMS/rdma-server" --bind 192.0.2.2 write
	expect 3
	[[ $stderr == *"cannot open /dev/infiniband/uverbs0 of rdma0: No such file or directory"* ]]
}

# bats test_tags=slow
@test "L3: the rdma cgroup allows too few objects of the device" {
	# shellcheck disable=SC2016 # expanded on the host
	on b unshare --mount sh -c 'mount -t cgroup2 none /sys/fs/cgroup || exit
		echo +rdma >/sys/fs/cgroup/cgroup.subtree_control || exit
		mkdir -p /sys/fs/cgroup/little
		echo "rdma0 hca_handle=9 hca_object=0" >/sys/fs/cgroup/little/rdma.max || exit
		echo $$ >/sys/fs/cgroup/little/cgroup.procs
		"$@"; status=$?
		echo $$ >/sys/fs/cgroup/cgroup.procs
		exit "$status"' - "$PROGRAMS/rdma-client" --check 192.0.2.1
	[ "$status" -ne 0 ]
	names L3 "the rdma cgroup /sys/fs/cgroup/little allows rdma0 hca_handle=9 hca_object=0; in use: .*"
}

# Over IPv4 alone: over IPv6 this once ended with a crash of Linux 6.1, in __rxe_put().
# bats test_tags=roce,slow
@test "L8: the client's address is on a bridge, a bond or a macvlan, and Soft-RoCE is below it" {
	local kind
	repair=restore_hosts
	for kind in "bridge forward_delay 0" "bond mode active-backup" macvlan; do
		# shellcheck disable=SC2086 # a word for each option
		add_upper b $kind
		limit=$BRIEF check 5 192.0.2.1
		names L8 "192.0.2.2 is an address of upper0 \(${kind%% *}\), and Soft-RoCE rdma0 is on eth0: it drops packets that arrive through upper0"
		[[ $output != *firewall* ]]
	done
}

# bats test_tags=roce,slow
@test "C9, L8: the server's address is on a bridge, and Soft-RoCE is below it; its host says so" {
	repair=restore_hosts
	add_upper a bridge forward_delay 0
	begin_check a 192.0.2.2
	limit=$BRIEF check 5 192.0.2.1
	names C9 "UDP port 4791 of 192.0.2.1 does not answer.*; the packets arrive at an interface of that host that has no RoCE device \(a bridge, .*"
	end_check 5
	names L8 "192.0.2.1 is an address of upper0 \(bridge\), and Soft-RoCE rdma0 is on eth0: .*"
}

# bats test_tags=roce,slow
@test "C9: the server's host has two interfaces in the subnet, and the one without an RDMA device takes the packets" {
	local name
	repair=restore_hosts
	modules a macvlan
	lab run a ip link add upper0 link eth0 type macvlan
	lab run a ip address add 192.0.2.77/24 dev upper0
	lab run a ip link set upper0 up
	name=$(lab run a cat /sys/class/net/upper0/address)
	lab run b ip neighbour replace 192.0.2.1 lladdr "$name" dev eth0 nud permanent
	begin_check a 192.0.2.2
	limit=$BRIEF check 5 192.0.2.1
	names C9 "UDP port 4791 of 192.0.2.1 does not answer.*; the packets arrive at an interface .*another interface in the same subnet\).*"
	end_check 5
	says "reach       .*; upper0 has an address in the subnet of 192.0.2.1 as well, so it may answer ARP requests for 192.0.2.1, unless .*"
}

# bats test_tags=slow
@test "L7: the route leads over a tunnel" {
	repair=restore_hosts
	modules b ipip
	lab run b ip link add upper0 type ipip local 192.0.2.2 remote 192.0.2.1
	lab run b ip address add 198.51.100.2/24 dev upper0
	lab run b ip address add 2001:db8::2/64 dev upper0 nodad
	lab run b ip link set upper0 up
	check 3 198.51.100.1
	names L7 "the route to 198.51.100.1 leads over upper0 \(ipip\), a tunnel, over which the RDMA connection manager of many kernels cannot resolve addresses"
	check 3 2001:db8::1
	names L7 "the route to 2001:db8::1 leads over upper0 \(ipip\), .*"
}

with_clean_hosts() {
	restore_rules
	restore_hosts
}

# Host b loses two connections and gets a new device, whose first queue pairs have the numbers of the lost ones.
# bats test_tags=roce,slow
@test "B4: the server's host still has connections of the queue pairs that the client uses again" {
	repair=with_clean_hosts
	move_device b eth0
	start_server -t 60 write
	start client b "$PROGRAMS/rdma-client" -t 60 --connections 2 --duration 60 write 192.0.2.1 "$port"
	await_requests 2
	lab run a pkill -STOP -x rdma-server
	rule a rule add pref 50 iif eth0 ipproto udp dport 4791 blackhole
	lab run b pkill -KILL -x rdma-client
	await_end client
	move_device b eth0
	restore_rules
	check 4 192.0.2.1
	names B4 "192.0.2.1 has rejected two requests as stale connections \(reason 10\)"
}

# A VLAN has the MAC address, so also the link-local address, of the interface below it.
# bats test_tags=slow
@test "C3: no host on a VLAN has the link-local address" {
	repair=restore_hosts
	add_upper b vlan id 7
	limit=$BRIEF check 3 fe80::99%upper0
	names C3 "no host on the network of upper0 answers for fe80::99; one of: .*"
}

without_bridge() {
	restore_hosts
	lab run b rdma link del rdma1
	lab run b ip link del br9
} 2>/dev/null

# The kernel asks for the route with the interface of the address of --bind.
# bats test_tags=slow
@test "C3: the address of --bind is on another interface in the same subnet, from which no host answers" {
	repair=without_bridge
	modules b bridge
	lab run b ip link add br9 type bridge
	lab run b ip address add 192.0.2.9/24 dev br9
	lab run b ip link set br9 mtu 4200 up
	lab run b rdma link add rdma1 type "$LAB_TRANSPORT" netdev br9
	limit=$BRIEF check 3 --bind 192.0.2.9 192.0.2.1
	names C3 "no host on the network of br9 answers for 192.0.2.1; one of: .*"
}

# bats test_tags=roce,slow
@test "L8: connections use the device below the bridge that has the address, although another one is on the bridge" {
	repair=without_bridge
	add_upper b bridge forward_delay 0
	lab run b rdma link add rdma1 type rxe netdev upper0
	start_server write
	limit=$BRIEF check "5|6" 192.0.2.1 "$port"
	names L8 "192.0.2.2 is an address of upper0 \(bridge\), which rdma1 serves, and connections use rdma0 on eth0: it drops packets that arrive through upper0"
	says "  -> delete rdma0: 'rdma link del rdma0'"
	[[ $output != *firewall* ]]
	lab run b rdma link del rdma0
	check 0 192.0.2.1 "$port"
}

without_77() {
	restore_rules
	lab run a ip address del 192.0.2.77/24 dev eth0
}

# firewalld answers so to what no rule allows.
# bats test_tags=roce,slow
@test "B2, C9: the server's host answers that other UDP ports are prohibited" {
	repair=without_77
	lab run a sh -c 'echo 1 >/proc/sys/net/ipv4/conf/eth0/forwarding'
	answer_each
	lab run a ip address add 192.0.2.77/24 dev eth0
	start_server --bind 192.0.2.77 write
	rule a rule add pref 50 iif eth0 ipproto udp dport 47891 prohibit
	check 4 192.0.2.1 "$port"
	names B2 "192.0.2.1 rejects the request \(reason 28, consumer defined\), and answers UDP to 192.0.2.2; one of: .*"
	rule a rule add pref 50 iif eth0 ipproto udp dport 4791 blackhole
	limit=$BRIEF check 5 192.0.2.1
	names C9 "UDP port 4791 of 192.0.2.1 does not answer, .*"
}

# bats test_tags=roce,slow
@test "C7, L6: the server's interface is in a VRF; its host says so" {
	local name
	repair=restore_hosts
	modules a vrf
	lab run a ip link add upper0 type vrf table 10
	lab run a ip link set upper0 up
	lab run a ip link set eth0 master upper0
	lab run a ip address replace fd00::1/64 dev eth0 nodad
	begin_check b fd00::1
	limit=$BRIEF check 5 192.0.2.1
	names C7 "192.0.2.1 is up, but accepts no RoCE packets: its UDP port 4791 is closed; one of: .*; the interface of its Soft-RoCE device belongs to a VRF, .*"
	end_check 5
	names C7 "fd00::1 is up, but accepts no RoCE packets: .*"
	for name in 192.0.2.2 fd00::2; do
		host=a check 3 "$name"
		names L6 "there is no route to $name in the main table \(ENETUNREACH\); the VRF upper0 has a table of its own"
	done
}

# bats test_tags=slow
@test "C7, L1: the server's host has no Soft-RoCE; B5 over iWARP: it has none, or nothing but Soft-RoCE" {
	repair=restore_hosts
	if [ "$LAB_TRANSPORT" = siw ]; then
		lab run a rmmod rdma_rxe
		check 4 192.0.2.1 4711
		names B5 "192.0.2.1 answers TCP, but no program listens on port 4711"
		modules a rdma_rxe
		lab run a rdma link del rdma0
		lab run a rdma link add rdma0 type rxe netdev eth0
		check 4 192.0.2.1 4711
		names B5 "192.0.2.1 answers TCP, but no program accepts iWARP on port 4711; one of: .*; that host uses RoCE, and this one iWARP"
		return
	fi
	lab run a rdma link del rdma0
	lab run a rmmod rdma_rxe
	limit=$BRIEF check 5 192.0.2.1
	names C7 "192.0.2.1 is up, but accepts no RoCE packets: its UDP port 4791 is closed; one of: it has no RDMA device, or only an iWARP device; .*"
	host=a check 3 192.0.2.2
	names L1 "this host, or this network namespace, has no RDMA device"
}

# bats test_tags=roce,slow
@test "C5, C10: nftables drops outgoing RoCE on the client, or everything incoming but neighbor discovery on the server" {
	local name
	repair=restore_hosts
	firewall b output "udp dport 4791 drop"
	for name in 192.0.2.1 fd00::1; do
		check 3 --json "$name"
		[[ $(json reach.rule reach.causes) == $'C5\n['*"'its firewall drops the packet'"* ]]
		[[ $output == *"\"this host forbids packets to UDP port 4791 of $name (EPERM); one of: its firewall drops the packet; "* ]]
	done
	lab run b nft flush ruleset
	firewall a input "policy drop; $DISCOVERY"
	limit=$BRIEF check 5 fd00::1
	names C10 "the hardware address of fd00::1 is known \([a-z]*\), but no packet comes back from fd00::1; one of: a firewall .*"
}

# bats test_tags=roce,slow
@test "an ordinary user gets the rule as well: B1, C5, C9, L6" {
	local as=$NOBODY
	repair=restore_hosts
	check 4 192.0.2.1 4711
	names B1 "192.0.2.1 answers, but no program listens on port 4711 of the device that has 192.0.2.1; one of: .*"
	check 3 203.0.113.9
	names L6 "there is no route to 203.0.113.9 \(ENETUNREACH\)"
	firewall b output "udp dport 4791 drop"
	check 3 192.0.2.1
	names C5 "this host forbids packets to UDP port 4791 of 192.0.2.1 \(EPERM\); one of: its firewall drops the packet; .*"
	firewall b input "udp dport 4791 drop"
	start_server write
	begin_check a 192.0.2.2
	limit=$BRIEF check 5 192.0.2.1 "$port"
	names C9 "UDP port 4791 of 192.0.2.1 does not answer.*; one of: a firewall .*"
	end_check 5
	says "reach       listening on this host, [0-9a-f.:]+: rdma-server \(process [0-9]+\) on port $port of every address; connect requests received: [1-9].*"
}
