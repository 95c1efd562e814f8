#!/usr/bin/env bats
# tests/pairs between four hosts, with ssh, GNU parallel and jq on host a.
# shellcheck shell=bash disable=SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

# root gets a home and a shell of this test's own: this machine's home is seen on the hosts, too.
# shellcheck disable=SC2016 # expanded on the host
prepare='set -e
	cp "$1/rdma-server" "$1/rdma-client" /usr/bin
	sed -i "s|^root:.*|root:x:0:0::/run/home:/bin/sh|" /etc/passwd
	mkdir -p -m 700 /run/home/.ssh /etc/dropbear
	cp key /run/home/.ssh/id_ed25519
	cp key.pub /run/home/.ssh/authorized_keys
	printf "%s\n" "StrictHostKeyChecking accept-new" "ControlMaster auto" "ControlPath /run/home/%h" "ControlPersist yes" \
		>/run/home/.ssh/config
	chmod 600 /run/home/.ssh/*
	chown -R root:root /run/home
	dropbear -R -s'

setup_file() {
	cd "$LAB/share" || return
	ssh-keygen -q -t ed25519 -N '' -f key
	local host
	for host in $LAB_HOSTS; do
		lab run "$host" sh -c "$prepare" - "$PROGRAMS"
	done
}

# all_pairs HOST...: sets $status and $output; shows the last messages.
all_pairs() {
	cd "$LAB/share" || return
	rm -f pairs.json
	run --separate-stderr lab run a env "LIMIT=$LIMIT" WAIT=15 DURATION=1 SIZE=64K "$top/tests/pairs" "$@"
	tail -n 40 pairs.log
}

# paths FILTER: "client server" of each session in pairs.json that fits.
paths() {
	jq -r ".sessions[] | select($1) | \"\(.client) \(.server)\"" pairs.json | sort
}

undisturbed() {
	lab run d tc qdisc del dev eth0 root
}

# Nothing is said of the others: emulated hosts that have one machine's processors differ by more than 10 %.
@test "all pairs of four hosts, one behind a rate limit: it is named, and each of its paths, and nothing failed" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root netem rate 2mbit limit 10000
	all_pairs host-a host-b host-c host-d
	[ "$status" -eq 2 ]
	[ "$(jq '.sessions | length' pairs.json)" -eq 12 ]
	[ -z "$(paths '.status != 0')" ]
	[ "$(paths '.client == "host-d" and .verdict == "slow" and .looks == 2')" = "$(printf 'host-d host-%s\n' a b c)" ]
	grep -x 'host-d as the one that writes: 3 of 3 paths are slow or failed' <<<"$output"
	[ "$(grep -c '^slow: host-d to host-[abc], rail 1: 0.00[0-9]* Gbit/s, [0-9]* % of the median$' <<<"$output")" -eq 3 ]
	grep -Ex 'host-d( +0.00[0-9]* slow){3} +-' <<<"$output"
}

# As behind a port of the switch with an MTU of 1500 bytes (check.bats): what host d sends in larger packets is lost.
@test "all pairs of three hosts, one behind a smaller MTU: what it sends fails, and it is named" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root handle 1: netem
	lab run d tc qdisc replace dev eth0 parent 1: bfifo limit 1514
	all_pairs host-a host-b host-d
	[ "$status" -eq 1 ]
	[ "$(paths '.verdict == "failed"')" = "$(printf 'host-d host-%s\n' a b)" ]
	grep -x 'host-d as the one that writes: 2 of 2 paths are slow or failed' <<<"$output"
	[ "$(grep -c '^failed: host-d to host-[ab], rail 1: ' <<<"$output")" -eq 2 ]
}

@test "all pairs: a host that does not answer is named, the others are measured, no server is left, and odd is even" {
	all_pairs host-a host-b host-nowhere
	[ "$status" -eq 1 ]
	[[ $stderr == *"pairs: no server on host-nowhere: what was to start it has ended; see pairs.log"* ]]
	[ "$(paths '.status == 0')" = "$(printf '%s\n' 'host-a host-b' 'host-b host-a')" ]
	grep -x 'failed: host-a to host-nowhere, rail 1: no answer' <<<"$output"
	for host in a b; do
		await lab run "$host" sh -c '! pgrep rdma-server'
	done
	all_pairs host-nowhere host-neither
	[ "$status" -eq 125 ] # nothing was measured
}
