# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# host.sh - the part of rdma-pairs that runs on each host. rdma-pairs starts 'timeout SECONDS sh -s NAME' there, and writes
# this file to its standard input, then the plan: each line of the plan calls a function below. The shell prints a line for
# each event: its name, the host, numbers, and after a tab the text of a program.
#
# timeout(1) makes all processes on the host one process group. The shell ends the group when its standard input ends. If
# something kills the shell, the other processes end by themselves: $guard ends the programs, alone() ends the rounds.
# Several processes print lines, each with one write(2), which is atomic because the lines are short.
name=${1:-$SLURMD_NODENAME} count=0 clock=0 newline='
'
trap 'trap "" TERM; kill 0' EXIT
guard='setpriv --pdeathsig TERM'
$guard true 2>/dev/null || guard='' # an older setpriv, or none

# serve TIMEOUT SIZE DURATION: start the server, and set the options of the clients.
serve() {
	options="--json --one-way --timeout $1 --size $2 --duration $3"
	for program in rdma-server rdma-client; do
		command -v "$program" >/dev/null || {
			printf 'gone %s\t%s is not on the PATH of this host\n' "$name" "$program"
			return
		}
	done
	$guard rdma-server --json --timeout "$1" </dev/null 2>&1 | announce &
}

# announce: print the server's port when it listens, and its last line if it ends.
announce() {
	last=''
	while read -r line; do
		case $line in
		'{'*'"listening"'*)
			printf 'hello %s\t%s\n' "$name" "$line"
			cat >/dev/null
			last='its server has ended'
			;;
		*) last=$line ;;
		esac
	done
	printf 'gone %s\t%s\n' "$name" "$last"
}

# host NAME ADDRESSES PORT: add a host to the list. PORT is 0 if the host takes no part.
host() {
	[ "$1" != "$name" ] || me=$count
	eval "addresses_$count=\$2 port_$count=\$3"
	count=$((count + 1))
}

# now: set $now to the time in milliseconds, by the clock of rdma-pairs' machine if correct() was called.
now() {
	now=$(($(date +%s%N) / 1000000 + clock))
}

ping() {
	now
	echo "clock $name $now"
}

# correct HOST MILLISECONDS
correct() {
	[ "$1" != "$name" ] || clock=$2
}

# pair ROUND HOST HOST: the two hosts, given by their numbers, are partners in this round.
pair() {
	[ "$2" != "$me" ] || eval "partner_$1=$3"
	[ "$3" != "$me" ] || eval "partner_$1=$2"
}

# circle STEP: set $partner by the circle method. A partner of $count or more does not exist: this host has a free round.
circle() {
	odd=$((count + count % 2 - 1))
	if [ "$me" -eq "$odd" ]; then
		partner=$(($1 * ((odd + 1) / 2) % odd))
	else
		partner=$((($1 - me + odd) % odd))
	fi
	[ "$partner" -ne "$me" ] || partner=$odd
}

# session RAIL ADDRESS PORT [BIND]: run a client, and print its JSON object. Noise may precede the object.
session() {
	# shellcheck disable=SC2086 # words
	answer=$($guard rdma-client $options ${4:+--bind "$4"} write "$2" "$3" </dev/null 2>/dev/null)
	printf 'result %s %s %s\t%s\n' "$name" "$round" "$1" "${answer##*"$newline"}"
}

# sessions: run a session with $partner on each rail, all at the same time. Do not wait for them.
sessions() {
	rail=0 port=0
	eval "to=\$addresses_$partner from=\$addresses_$me port=\$port_$partner"
	while [ -n "$to" ] && [ "$port" -ne 0 ]; do
		rail=$((rail + 1)) bind=${from%%,*}
		[ "$bind" != "$name" ] || bind=
		session "$rail" "${to%%,*}" "$port" "$bind" &
		case $to in
		*,*) to=${to#*,} from=${from#*,} ;;
		*) to= ;;
		esac
	done
}

# alone: return true if the shell that reads the plan has ended, so that another process is now this subshell's parent.
alone() {
	read -r _ _ _ parent _ </proc/self/stat
	[ "$parent" -ne $$ ]
}

# run_round START SLOT: wait until START, and start the sessions of $round. A host that is late by half of the SLOT skips
# the round, because its sessions would disturb those of the next round.
run_round() {
	now
	wait=$(($1 - now))
	[ "$wait" -le 0 ] || sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
	! alone || exit
	now
	if [ $((now - $1)) -gt $(($2 / 2)) ]; then
		echo "late $name $round $((now - $1))"
	elif [ "$partner" -lt "$count" ]; then
		sessions
	fi
}

# begin START SLOT FIRST LAST STEPS: run the rounds FIRST to LAST, the first one at START, one in each SLOT (milliseconds).
# The rounds are spread over the circle, as if there were STEPS of them; if STEPS is 0, the partners are those of pair().
begin() {
	{
		round=$3
		while [ "$round" -le "$4" ]; do
			if [ "$5" -eq 0 ]; then
				eval "partner=\${partner_$round:-$count}"
			else
				circle $((round * (count + count % 2 - 1) / $5))
			fi
			run_round $(($1 + (round - $3) * $2)) "$2"
			round=$((round + 1))
		done
		wait
		echo "done $name"
	} &
}
