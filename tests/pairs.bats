#!/usr/bin/env bats
# rdma-pairs between four hosts, with ssh on host a; and between two hosts, by Slurm. tests/pairs-simulated.bats has more hosts.
# shellcheck shell=bash disable=SC2034,SC2154 # variables come from and go to bats and helpers.bash

load helpers

# On the hosts root gets a temporary home and a shell, because the hosts see the home of this machine.
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

# all_pairs HOST...: run rdma-pairs on host a; sets $status and $output, the result; the file "records" has the records.
all_pairs() {
	cd "$LAB/share" || return
	# shellcheck disable=SC2016 # expanded on the host
	run lab run a sh -c '"$0" --json --timeout 15 --duration 4 --size 8K "$@" 2>&1 >records' "$top/rdma-common/pairs/rdma-pairs" "$@"
	expect_json <records
}

# paths FILTER: print "client server" of each path with a matching record. On a busy machine a host may skip a round, so that its path
# succeeds in the second look.
paths() {
	jq -r "select(.kind == \"path\" and ($1)) | \"\(.client) \(.server)\"" records | sort -u
}

undisturbed() {
	lab run d tc qdisc del dev eth0 root
}

# The test ignores the paths between the other hosts: they differ by more than 10 %, because the hosts share processors.
@test "rdma-pairs names a host with a rate limit, and measures its paths twice, among four hosts" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root netem rate 2mbit limit 10000
	all_pairs host-a host-b host-c host-d
	[ "$status" -eq 2 ] # no path failed
	[ "$(paths '.status == 0' | wc -l)" -eq 12 ]
	[ "$(paths '.look == 2 and .client == "host-d"')" = "$(printf 'host-d host-%s\n' a b c)" ]
	grep -E '^bad host host-d: 3 of 3 paths as writer ' <<<"$output"
	grep -Ex 'host-d( +0.00[0-9]* slow){3} +-' <<<"$output"
}

# Host d's port has an MTU of 1500 bytes, as in a switch (check.bats): its larger packets are lost.
@test "rdma-pairs names a host with a smaller MTU, from which all paths fail, among three hosts" {
	repair=undisturbed
	lab run d tc qdisc replace dev eth0 root handle 1: netem
	lab run d tc qdisc replace dev eth0 parent 1: bfifo limit 1514
	all_pairs host-a host-b host-d
	[ "$status" -eq 1 ]
	[ "$(paths '.status == 0')" = "$(printf 'host-%s\n' 'a host-b' 'a host-d' 'b host-a' 'b host-d')" ]
	grep -x 'bad host host-d: 2 of 2 paths as writer are failing' <<<"$output"
}

@test "rdma-pairs names a host that ssh does not reach, measures the others, and leaves no server running" {
	all_pairs host-a host-b host-nowhere
	[ "$status" -eq 1 ]
	grep -E '^bad host host-nowhere: ssh: Could not resolve hostname host-nowhere' <<<"$output"
	[ "$(paths '.status == 0')" = "$(printf '%s\n' 'host-a host-b' 'host-b host-a')" ]
	for host in a b; do
		await lab run "$host" sh -c '! pgrep rdma-server'
	done
	all_pairs host-nowhere host-neither
	[ "$status" -eq 125 ]
}

# Start munge and Slurm on hosts a and b. The first argument is the name of the host's folder for state.
# shellcheck disable=SC2016 # expanded on the host
slurm='set -e
	mkdir -p /run/slurm "$1" /run/munge
	cp munge.key "$1/munge.key"
	chown -R root:root "$1" /run/munge
	chmod 400 "$1/munge.key"
	munged --force --key-file="$1/munge.key" --socket=/run/munge/munge.socket.2 --log-file="$1/munge.log" --pid-file="$1/munged.pid" \
		--seed-file="$1/munge.seed"
	export SLURM_CONF=$PWD/slurm.conf
	[ "$(hostname)" != host-a ] || slurmctld
	slurmd'

# shellcheck disable=SC2016 # expanded on the host
start_slurm() {
	local host
	cd "$LAB/share" || return
	head -c 1024 /dev/urandom >munge.key
	echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
	cat >slurm.conf <<-END
		ClusterName=lab
		SlurmctldHost=host-a(192.0.2.1)
		SlurmUser=root
		AuthType=auth/munge
		StateSaveLocation=/run/w/slurm
		SlurmdSpoolDir=/run/w/slurmd
		SlurmctldPidFile=/run/w/slurmctld.pid
		SlurmdPidFile=/run/w/slurmd.pid
		SlurmctldLogFile=/run/w/slurmctld.log
		SlurmdLogFile=/run/w/slurmd.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		AccountingStorageType=accounting_storage/none
		MpiDefault=none
		ReturnToService=2
		SelectType=select/linear
		PropagateResourceLimits=NONE
		NodeName=host-a NodeAddr=192.0.2.1 CPUs=1 RealMemory=100
		NodeName=host-b NodeAddr=192.0.2.2 CPUs=1 RealMemory=100
		PartitionName=lab Nodes=host-a,host-b Default=YES MaxTime=INFINITE State=UP
	END
	for host in a b; do
		lab run "$host" sh -c "$slurm" - /run/w
	done
	await lab run a sh -c '[ "$(SLURM_CONF=$PWD/slurm.conf sinfo --noheader --states=idle --format=%D)" = 2 ]'
}

show_logs() {
	local host
	for host in a b; do lab run "$host" sh -c 'tail -n 15 /run/w/*.log'; done
}

# all_nodes: the command that runs rdma-pairs in an allocation of Slurm of both nodes.
all_nodes=(env "SLURM_CONF=${LAB:-}/share/slurm.conf" salloc --nodes=2 "$top/rdma-common/pairs/rdma-pairs" --json --timeout 15 --duration 4 --size 8K)

@test "rdma-pairs measures the nodes of an allocation of Slurm; no server survives the run, or the shell of its host" {
	repair=show_logs
	start_slurm
	run lab run a sh -c '"$@" >records' - "${all_nodes[@]}"
	[ "$status" -eq 0 ]
	[ "$(paths '.status == 0')" = "$(printf '%s\n' 'host-a host-b' 'host-b host-a')" ]
	expect_json <records
	for host in a b; do
		lab run "$host" sh -c '! pgrep rdma-server'
	done
	start client a "${all_nodes[@]}" --duration 60
	await lab run b pgrep rdma-client
	lab run b pkill -KILL -f '^sh -s$'
	await lab run b sh -c '! pgrep "^rdma-[cs]"'
}
