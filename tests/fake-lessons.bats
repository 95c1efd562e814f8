#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# On the fake library (fake.bash): the lessons: results, and the end after each failing call.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats sets $status, $output and $stderr

load fake

# The scripted client disconnects only if it is the tutorial's; otherwise the server does. If the client leaves, the
# server does not wait for the completion of its last message: the client has received it.
@test "lessons 3 and 4 work on both sides, over both transports" {
	use address
	local lesson
	for lesson in write read; do
		printf '0\t%s\t> remote buffer: text of the scripted peer\n' "[iwarp] " "[iwarp] coalesce" operation@300 \
			"iwarp received-MR@5000" received-DONE@5000 "2*ESTABLISHED+UNREACHABLE:-110" "[iwarp] tutorial" \
			"[iwarp] tutorial coalesce" "tutorial DISCONNECTED@500" | outcomes "$lesson"
		outcomes "$lesson-server" <<<"0	[iwarp] tutorial sent-DONE@500	> listening on port 20000."
	done
	outcomes <<-END
	read-client	0	iwarp tutorial sent-DONE=2	> remote buffer: text of the scripted peer
	read-client	1	abandons tutorial sent-DONE=2	cannot complete a request: completion status 2
	END
}

@test "lessons 3 and 4 fail if their output is lost" {
	local role
	for role in write-client write-server read-client read-server; do
		launcher=(sh -c '"$@" >/dev/full' -)
		fake "$role" abandons
		expect 1 "cannot write the output: No space left on device"
	done
}

# bats test_tags=slow
@test "each failing call of lessons 3 and 4 is reported" {
	local role
	for role in write-client write-server read-client read-server; do # a failed lesson exits: the kernel releases its objects
		faults "$role" ""
		faults "$role" "iwarp tutorial"
		functions="ibv_post_*" faults "$role" negative
	done
}

# A failure ends the lesson with status 1, SIGALRM after 30 s with 142. The kernel releases its objects.
# bats test_tags=slow
@test "lessons 3 and 4 end with the reason, or after 30 s, if a message, an event or a completion fails or is missing" {
	local lesson
	for lesson in write read; do
		sed "s/\t1\t/&abandons until:30000 /; s/\t142\t/&abandons from:30000 until:30000 /; s/^lesson/$lesson/" <<-END | outcomes
		lesson-client	1	ADDR_RESOLVED=ADDR_ERROR:-110	cannot resolve the address: Connection timed out
		lesson-client	1	ADDR_RESOLVED=ADDR_ERROR:-19	cannot resolve the address: No such device
		lesson-client	1	ROUTE_RESOLVED=ROUTE_ERROR:-110	cannot resolve the route: Connection timed out
		lesson	1	fail:getaddrinfo:1:12	cannot resolve the name: Cannot allocate memory
		lesson	1	[iwarp] unfound:9	cannot find the device of the connection: No such device
		lesson-client	1	[iwarp] refuse:255	cannot connect: Connection refused
		lesson-client	1	ESTABLISHED=UNREACHABLE:-110	cannot connect: Connection timed out
		lesson-client	1	received-MR!	cannot use a message: Protocol error
		lesson-client	142	received-MR! received-DONE!
		lesson	142	[iwarp] received-DONE!
		lesson-client	1	DISCONNECTED=DISCONNECTED:-110	cannot disconnect: Connection timed out
		lesson	1	sent-MR=12	cannot complete a request: completion status 12
		lesson	1	operation=10	cannot complete a request: completion status 10
		lesson	1	[iwarp] received-MR+DISCONNECTED	cannot complete
		lesson-server	1	ESTABLISHED=CONNECT_ERROR:-110	cannot accept the connection: Connection timed out
		lesson-server	142	received-MR!
		lesson-server	142	sent-DONE!
		END
	done
}

# Lesson 8: a failure costs at most one client, and the server exits without an error on SIGTERM.
# bats test_tags=slow
@test "lesson 8 serves many clients, one after the other and at the same time" {
	local sanitizer
	for sanitizer in "${sanitizers[@]}"; do
		use "$sanitizer"
		printf '0\t%s\tserved=%s\t> remote buffer: text of the scripted peer\t!> failed\n' "[iwarp] clients:3" 3 \
			"[iwarp] clients:3 tutorial" 3 "[iwarp] clients:2 tutorial sent-DONE@500" 2 \
			"[iwarp] clients:40 together" 40 "clients:3 coalesce together" 3 \
			"clients:3 slow-events together" 3 "clients:2 2*ESTABLISHED+UNREACHABLE:-110" 2 \
			"clients:2 spurious sent-MR+spurious" 2 | outcomes 08-server
	done
}

# bats test_tags=slow
@test "lesson 8 goes on serving after a client that dies, stays silent or sends an invalid key" {
	use address
	outcomes 08-server <<-END
	0	clients:2 unfound:1	> a client failed.	> remote buffer
	0	[iwarp] clients:2 sent-MR+DISCONNECTED	cannot receive a message	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-MR+DISCONNECTED	cannot	> a client failed.	> remote buffer
	0	clients:2 ESTABLISHED!	cannot accept a client: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 ESTABLISHED=CONNECT_ERROR:-110	cannot accept a client: Connection reset	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-MR!	cannot receive a message: Connection timed out	> a client failed.	> remote buffer
	0	[iwarp] clients:2 received-DONE!	cannot receive a message: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 sent-DONE!	cannot send: Connection timed out	> a client failed.	> remote buffer
	0	clients:2 sent-MR=2	a request failed: completion status 2	> a client failed.	> remote buffer
	0	clients:2 sent-MR=12	a request failed: completion status 12	> a client failed.	> remote buffer
	0	clients:2 operation=10	a request failed: completion status 10	> a client failed.	> remote buffer
	END
}

# bats test_tags=slow
@test "each failing call of lesson 8 is reported" {
	local script
	for script in "" "iwarp tutorial" together; do
		faults 08-server "abandons $script"
	done
}
