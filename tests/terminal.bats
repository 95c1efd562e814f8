# What is drawn on a terminal; the transport below makes no difference to that.
# shellcheck shell=bash disable=SC2034,SC2154 # bats and helpers.bash set the variables

load helpers

: "${PROGRAMS:?}" # set by helpers.bash

# 100 MiB take two seconds, however fast the machine is: progress is shown after one.
setup() {
	repair="lab disturb"
	lab disturb rate 400mbit
}

# transfer_on_terminal VARIABLE=VALUE...: a client with that environment.
transfer_on_terminal() {
	run lab run b env "$@" script -qec \
		"$PROGRAMS/rdma-client --one-way -n 400 read 192.0.2.1 $port" /dev/null
	expect 0
}

@test "progress is shown on a terminal only, and gone when finished" {
	start_server -s 256K read
	client --one-way -n 400 read 192.0.2.1 "$port"
	expect 0
	[ -z "$stderr" ]
	transfer_on_terminal NO_COLOR= TERM=xterm
	[[ $output =~ $'\r'[0-9.]+" MiB of 100.0 MiB, "[0-9.]+" MiB/s, "[0-9]+" s left"$'\e[K' ]]
	[[ ${output##*left} == *$'\r\e[K'"send completed"* ]]
}

@test "nothing is drawn with NO_COLOR, or on a terminal that is dumb" {
	start_server -s 256K read
	for environment in NO_COLOR=1 TERM=dumb; do
		transfer_on_terminal TERM=xterm "$environment"
		[[ $output != *$'\e'* && $output != *left* ]]
		[[ $output == *"disconnected."* ]]
	done
}
