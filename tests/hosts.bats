#!/usr/bin/env bats
# The recorder of hosts (tests/hosts/record) and its files. No RDMA device is needed.
# shellcheck shell=bash disable=SC2030,SC2031,SC2154 # bats sets $status, $output and $lines

bats_require_minimum_version 1.5.0

# files FOLDER NAME=TEXT...: make these files of the host.
files() {
	local one
	for one in "${@:2}"; do
		mkdir -p "$(dirname "$root$1/${one%%=*}")"
		echo "${one#*=}" >"$root$1/${one%%=*}"
	done
}

# answer PROGRAM <<TEXT: let a program of the host print TEXT if its arguments match the pattern of a line "PATTERN => TEXT".
answer() {
	cat >"$BATS_TEST_TMPDIR/$1.answers"
	cat >"$BATS_TEST_TMPDIR/bin/$1" <<-END
		#!/bin/bash
		while IFS= read -r line; do
			[[ "\$*" != \${line%% => *} ]] || printf '%b' "\${line#* => }"
		done <"$BATS_TEST_TMPDIR/$1.answers"
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}

# Make a host: two ports of an adapter, a port for InfiniBand, and a device whose file is missing.
make_host() {
	local slot=/sys/devices/pci0000:00/0000:04:00 device=/sys/class/infiniband/mlx5_ number
	root=$BATS_TEST_TMPDIR/host
	mkdir -p "$BATS_TEST_TMPDIR/bin" "$root/dev/infiniband" "$root/sys/bus/pci/drivers/mlx5_core"
	files /proc/sys/net/core netdev_max_backlog=1000
	for number in 0 1 2 3; do
		files /sys/class/infiniband_verbs "uverbs$number/ibdev=mlx5_$number"
		files "$device$number" 'node_type=1: CA' fw_ver=16.1 "node_guid=98ab:7703:0012:345$number" ports/1/state='4: ACTIVE' ports/1/link_layer=Ethernet
		[ "$number" = 3 ] || touch "$root/dev/infiniband/uverbs$number"
	done
	touch "$root/dev/infiniband/rdma_cm"
	mkdir -p "$root$slot.0"
	files "$slot.0" uevent=DRIVER=mlx5_core current_link_width=16 numa_node=1
	ln -s "../../../devices/pci0000:00/0000:04:00.0" "$root${device}0/device"
	files "${device}0/ports/1" gids/0=fe80:0000:0000:0000:9aab:77ff:fe12:3450 gids/1=0000:0000:0000:0000:0000:0000:0000:0000 \
		gids/2=0000:0000:0000:0000:0000:ffff:0a14:1e28 gids/3=0000:0000:0000:0000:0000:ffff:0a14:1f07 \
		gids/4=0000:0000:0000:0000:0000:0000:0000:0000 gid_attrs/{types,ndevs}/0=eth0 gid_attrs/types/0='IB/RoCE v1' \
		gid_attrs/{types,ndevs}/2=eth0 gid_attrs/types/2='RoCE v2' gid_attrs/{types,ndevs}/3=eth9 gid_attrs/types/3='RoCE v2'
	files "${device}2/ports/1" link_layer=InfiniBand gids/0=fe80:0000:0000:0000:98ab:7703:0012:3452 gid_attrs/types/0='IB/RoCE v1'
	answer ip <<-'END'
		-j -d address => [{"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8}]},{"ifname":"eth0","flags":["UP","LOWER_UP"],"mtu":1500,"link_type":"ether","address":"98:ab:77:12:34:50","addr_info":[{"local":"10.20.30.40","prefixlen":16},{"local":"fe80::9aab:77ff:fe12:3450","prefixlen":64},{"local":"2003:a:b:c:9aab:77ff:fe12:3450","prefixlen":64}]},{"ifname":"veth7","master":"eth0","linkinfo":{"info_kind":"veth"}},
		-j -d address => {"ifname":"ib0","flags":["UP","LOWER_UP"],"mtu":2044,"link_type":"infiniband","address":"00:00:10:29:fe:80:00:00:00:00:00:00:98:ab:77:03:00:12:34:52","addr_info":[{"local":"172.17.22.101","prefixlen":24}]}]
		-j -4 route => [{"dst":"default","gateway":"10.20.0.1","dev":"eth0"},{"dst":"10.20.0.0/16","dev":"eth0","protocol":"kernel"},{"dst":"172.17.0.0/16","gateway":"172.17.22.1","dev":"ib0","prefsrc":"172.17.22.101"}]
		-j rule => [{"priority":100,"src":"10.20.30.40","table":"7"}]
		-j route show table 7 => [{"dst":"default","gateway":"10.20.0.2","dev":"eth0"}]
		-j neighbour => [{"dst":"10.20.30.41","dev":"eth0","state":["FAILED"]}]
	END
	answer rdma <<<'-j link => [{"ifname":"mlx5_0","port":1,"netdev":"eth0"}]'
	answer ibv_devices <<<' => mlx5_0 mlx5_2\n'
	answer ibv_devinfo <<<'-d mlx5_0 => port: 1\nmax_mtu: 4096 (5)\nactive_mtu: 1024 (3)\n'
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

@test "tests/hosts/record prints one substitute for one value, also inside GIDs, and no address of the host" {
	make_host
	run -0 --separate-stderr "$BATS_TEST_DIRNAME/hosts/record" "$root"
	[ -z "$stderr" ]
	diff - <(grep -Ev '^(machine|process) ' <<<"$output" | expand -t 2) <<-'END'
		source WHERE THIS IS FROM: the repository and the number of a report

		/sys/class/infiniband/mlx5_0/
		  node_type = 1: CA
		  fw_ver = 16.1
		  node_guid = 0200:5eff:fe80:0001
		  device -> /sys/devices/pci0000:00/0000:04:00.0
		  ports/1/state = 4: ACTIVE
		  ports/1/link_layer = Ethernet
		/sys/devices/pci0000:00/0000:04:00.0/
		  uevent = DRIVER=mlx5_core
		  current_link_width = 16
		  numa_node = 1
		/sys/class/infiniband/mlx5_1/
		  node_type = 1: CA
		  fw_ver = 16.1
		  node_guid = 0200:5eff:fe80:0002
		  ports/1/state = 4: ACTIVE
		  ports/1/link_layer = Ethernet
		/sys/class/infiniband/mlx5_2/
		  node_type = 1: CA
		  fw_ver = 16.1
		  node_guid = 0200:5eff:fe80:0003
		  ports/1/state = 4: ACTIVE
		  ports/1/link_layer = InfiniBand
		/sys/class/infiniband/mlx5_3/
		  node_type = 1: CA
		  fw_ver = 16.1
		  node_guid = 0200:5eff:fe80:0004
		  ports/1/state = 4: ACTIVE
		  ports/1/link_layer = Ethernet
		link eth0 type=ether mtu=1500 address=00:00:5e:00:53:01
		link ib0 type=infiniband mtu=2044 address=00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:ff:fe:80:00:03
		address 192.0.2.3/24 eth0
		address fe80::200:5eff:fe00:5301/64 eth0
		address 2001:db8:0:1:200:5eff:fe00:5301/64 eth0
		address 198.18.1.2/24 ib0
		route default eth0 via=192.0.2.1
		route 198.18.0.0/23 ib0 via=198.18.1.1 src=198.18.1.2
		route default eth0 via=192.0.2.2 from=192.0.2.3
		neighbour 192.0.2.4 eth0 FAILED
		port mlx5_0/1 netdev=eth0 max_mtu=4096 active_mtu=1024
		gid mlx5_0/1 0 fe80::200:5eff:fe00:5301 v1 eth0
		gid mlx5_0/1 1 ::
		gid mlx5_0/1 2 192.0.2.3 v2 eth0
		gid mlx5_0/1 3 192.0.2.5 v2 eth9
		device mlx5_1 driver=none
		port mlx5_1/1 gids=none
		port mlx5_2/1
		gid mlx5_2/1 0 fe80::200:5eff:fe80:3 ib
		device mlx5_3 file=missing
		port mlx5_3/1 gids=none

		check
		  status 0
	END
}

@test "hosts-test checks a host that tests/hosts/record has printed" {
	make_host
	"$BATS_TEST_DIRNAME/hosts/record" "$root" >"$BATS_TEST_TMPDIR/new.host"
	printf '%s\n' 'check 192.0.2.77' $'\tstatus 0' $'\taddress resolved: source 192.0.2.*' >>"$BATS_TEST_TMPDIR/new.host"
	cd "$BATS_TEST_DIRNAME/.."
	run -0 build/unit/hosts-test "$BATS_TEST_TMPDIR/new.host"
}
