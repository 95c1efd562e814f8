#!/usr/bin/env bats
# tests/pairs between two hosts and three, with ssh, GNU parallel and jq on host a.
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

# all_pairs HOST...: sets $status and $matrix (each session "ok" or "failed", single blanks); shows the last messages.
all_pairs() {
	cd "$LAB/share" || return
	run --separate-stderr lab run a env "LIMIT=$LIMIT" "$top/tests/pairs" "$@"
	tail -n 60 pairs.log
	matrix=$(sed -E 's/[0-9.]+ ok(, [0-9]+ errors)?/ok/g; s/status [0-9]+(, [0-9]+ errors)?/failed/g; s/ +/ /g' <<<"$output")
}

@test "all pairs of two hosts: exit status 0, and a matrix of verified sessions for each mode" {
	all_pairs host-c host-b
	[ "$status" -eq 0 ]
	[ "$matrix" = "read, Gbit/s host-c host-b
host-c - ok
host-b ok -
write, Gbit/s host-c host-b
host-c - ok
host-b ok -" ]
}

restore_mtu() {
	lab run c ip link set eth0 mtu 4200
}

@test "all pairs of three hosts, one with a smaller MTU: the matrix shows which, and four sessions failed" {
	repair=restore_mtu
	lab run c ip link set eth0 mtu 1500
	all_pairs host-a host-b host-c
	[ "$status" -eq 4 ]
	[ "$matrix" = "read, Gbit/s host-a host-b host-c
host-a - ok failed
host-b ok - failed
host-c ok ok -
write, Gbit/s host-a host-b host-c
host-a - ok failed
host-b ok - failed
host-c ok ok -" ]
}
