# 'rdma-client --check ADDRESS': the path to ADDRESS, and what to change.
# shellcheck shell=bash disable=SC2030,SC2031,SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

: "${PROGRAMS:?}" # set by helpers.bash

# check STATUS ARGUMENT...: on host b; nothing goes to standard error.
check() {
	client -t "${timeout:-$LIMIT}" --check "${@:2}"
	expect "$1"
	[ -z "$stderr" ]
}

# says LINE: as a whole line of the output, an extended regular expression.
says() {
	grep -E -x -q -e "$1" <<<"$output"
}

@test "--check: ready" {
	local name from
	for name in host-a 192.0.2.1 fd00::1; do
		check 0 "$name"
		from=fd00::2
		[ "$name" != 192.0.2.1 ] || from=192.0.2.2
		if [ "$LAB_TRANSPORT" = siw ]; then
			says "device    rdma0 port 1: iWARP, active"
			says "address   resolved: from $from by rdma0 port 1"
			says "route     resolved"
		else
			says "device    rdma0 port 1: RoCE, active, MTU 4096 of 4096 bytes"
			says "address   resolved: from $from by rdma0 port 1, GID [0-9]+ \((::ffff:)?$from, RoCE v2, eth0\)"
			says "route     resolved, MTU of the path 4096 bytes"
		fi
		says "name      '$name' is [0-9a-f.:]+"
		says "memory    [0-9]+ KiB may be locked: .*"
		says "  rdma-client read $name PORT"
	done
}

@test "--check: nobody has the address, no route leads there, nobody knows the name: exit status 3" {
	timeout=1 check 3 192.0.2.77
	says "address   not resolved: Connection timed out"
	says "  -> is the host up .*"
	check 3 198.51.100.1
	says "address   not resolved: Network is unreachable"
	check 3 nobody.invalid
	says "name      'nobody.invalid' not resolved: .*"
	says "  -> give an address, .*"
	check 3 127.0.0.1
	says "(address|route) +not resolved: .*"
}

link_up() {
	lab run b ip link set eth0 up
	lab run b ip address add fd00::2/64 dev eth0 nodad || true # is lost with the link
}

@test "--check: the link is down: exit status 3" {
	repair=link_up
	lab run b ip link set eth0 down
	check 3 192.0.2.1
	says "device    rdma0 port 1: .*, down.*"
	says "  -> it carries nothing; .*"
}

add_device() {
	lab run b rdma link add rdma0 type "$LAB_TRANSPORT" netdev eth0
}

@test "--check: no RDMA device: exit status 3" {
	repair=add_device
	lab run b rdma link del rdma0
	check 3 192.0.2.1
	says "device    none"
	says "  -> see 'rdma link'; .*"
}

restore_mtu() {
	lab run b rdma link del rdma0
	lab run b ip link set eth0 mtu 4200
	add_device
}

@test "--check: a small MTU is reported, and how to raise it" {
	[ "$LAB_TRANSPORT" != siw ] || return 0 # TCP finds its own
	repair=restore_mtu
	lab run b rdma link del rdma0
	lab run b ip link set eth0 mtu 1500
	add_device
	check 0 192.0.2.1
	says "device    rdma0 port 1: RoCE, active, MTU 1024 of 4096 bytes"
	says "  -> larger packets are faster: .*"
}

# finds STEP KEY...: these of the last finding of a step, a line each.
finds() {
	python3 -c '
import json, sys
finding = json.loads(sys.argv[1])[sys.argv[2]][-1]
for key in sys.argv[3:]:
    print(finding[key])' "$output" "$@"
}

@test "--check --json: one object, with status and advice for each step" {
	check 0 --json 192.0.2.1
	[ "${#lines[@]}" -eq 1 ]
	[ "$(json status)" = 0 ]
	[ "$(finds name status text advice)" = $'ok\n\'192.0.2.1\' is 192.0.2.1\nNone' ]
	[[ $(finds device text) == "rdma0 port 1: "*", active"* ]]
	[[ $(finds address text) == "resolved: from 192.0.2.2 by rdma0 port 1"* ]]
	[[ $(finds route text) == resolved* ]]
	[[ $(finds memory text) == *"may be locked"* ]]
	check 3 --json $'a"\xff'
	[ "$(json status)" = 3 ]
	[ "$(finds name status advice)" = $'failed\ngive an address, or add the name to /etc/hosts' ]
	[[ $(finds name text) == "'a\"\\xff' not resolved: "* ]]
}

@test "--check: memory without limit is reported; standard output full is a failure" {
	run --separate-stderr lab run b prlimit --memlock=unlimited "$PROGRAMS/rdma-client" --check 192.0.2.1
	expect 0
	says "memory    may be locked without limit"
	# shellcheck disable=SC2016 # expanded on the host
	run --separate-stderr lab run b sh -c '"$1" --check 192.0.2.1 >/dev/full' - "$PROGRAMS/rdma-client"
	expect 1 "cannot write to standard output"
}
