#!/usr/bin/env bats
# What the documents say is there. Needs no RDMA device; tests/documents does the work.

bats_require_minimum_version 1.5.0

documents() {
	run "$BATS_TEST_DIRNAME/documents" "$@"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "every link inside the documents leads somewhere, every picture has a source and a text for who cannot see it" {
	documents links
}

@test "the drawings are made from their sources as they are" {
	documents pictures
}

@test "functions, files, options and targets that the documents name are there, and make help lists all targets" {
	documents names
}

@test "the map of the tests has every file, and the list of the rooms every room" {
	documents maps
}

@test "no document grows into a handbook again" {
	documents lengths
}

@test "every command in the documents is run by a test, accepted by the program, or listed as not run" {
	documents run_or_listed
}
