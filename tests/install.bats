#!/usr/bin/env bats
# 'make install', 'make uninstall' and 'make deb'. Needs no RDMA device; installs into temporary folders only.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
	unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX # those of 'make check'
	tree=$BATS_TEST_TMPDIR/tree
}

# installed PREFIX: the files that belong there, with their rights, sorted by name.
installed() {
	cat <<-END
		755 $1/bin/rdma-client
		755 $1/bin/rdma-server
		644 $1/share/bash-completion/completions/rdma-client
		644 $1/share/bash-completion/completions/rdma-server
		644 $1/share/man/man1/rdma-client.1
		644 $1/share/man/man1/rdma-server.1
	END
}

# files FOLDER: the files there, with their rights.
files() {
	find "$1" -type f -printf '%m /%P\n' | LC_ALL=C sort -k 2
}

@test "install puts programs, manual pages and completion below DESTDIR and PREFIX" {
	make install "DESTDIR=$tree"
	diff <(installed /usr/local) <(files "$tree")
	DESTDIR=$tree/staged make install PREFIX=/opt/pair
	diff <(installed /opt/pair) <(files "$tree/staged")
	cmp rdma-server "$tree/usr/local/bin/rdma-server"
}

@test "uninstall removes what install put there, and nothing else" {
	mkdir -p "$tree/usr/local/bin" "$tree/usr/local/share/man/man8"
	touch "$tree/usr/local/bin/rdma-other" "$tree/usr/local/share/man/man8/rdma.8"
	find "$tree" >"$BATS_TEST_TMPDIR/before"
	make install "DESTDIR=$tree"
	make uninstall "DESTDIR=$tree"
	diff "$BATS_TEST_TMPDIR/before" <(find "$tree")
	make uninstall "DESTDIR=$tree" # there is nothing left to remove
}

@test "without help2man, and no way to install it, install says so and does the rest" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	find /usr/bin -maxdepth 1 -xtype f ! -name help2man ! -name dpkg-query -exec cp -s -t "$BATS_TEST_TMPDIR/bin" {} +
	PATH=$BATS_TEST_TMPDIR/bin run -0 make install "DESTDIR=$tree"
	[[ $output == *"without manual pages"* ]]
	diff <(installed /usr/local | grep -v /man/) <(files "$tree")
}

@test "on a system without apt-get, what would install something says in one line what to do; make needs nothing" {
	local goal
	mkdir "$BATS_TEST_TMPDIR/bin"
	find /usr/bin -maxdepth 1 -xtype f ! -name 'apt*' ! -name 'dpkg*' -exec cp -s -t "$BATS_TEST_TMPDIR/bin" {} +
	PATH=$BATS_TEST_TMPDIR/bin run -0 make
	for goal in demo check lint; do
		PATH=$BATS_TEST_TMPDIR/bin run -2 --separate-stderr make "$goal"
		[[ $stderr == "setup: this is not Debian: "*" use a Debian container or virtual machine"*" libibverbs-dev "* ]]
		[ "$(grep -vc '^make' <<<"$stderr")" -eq 1 ]
	done
}

@test "the manual pages have all sections, options and statuses, and render without a warning" {
	make install "DESTDIR=$tree"
	for program in rdma-server rdma-client; do
		page=$tree/usr/local/share/man/man1/$program.1
		run -0 --separate-stderr env LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page"
		[ -z "$stderr" ]
		[ "$(grep '^[A-Z]' <<<"$output" | tail -n +2 | xargs -d '\n')" = \
			"NAME SYNOPSIS DESCRIPTION OPTIONS EXIT STATUS SECURITY ENVIRONMENT EXAMPLES SEE ALSO" ]
		[[ $output == *"$program - verify one-sided RDMA"*"       $program [OPTION]... read|write"* ]]
		for option in $("./$program" --help | grep -Eo "^ +(-[A-Za-z1], )?--[a-z-]+" | grep -o -e "--.*"); do
			grep -Eq "^       (-[A-Za-z1], )?$option( [A-Z]+)?$" <<<"$output"
		done
		for status in 0 1 2 3 4 5 6 7; do
			grep -Eq "^       $status      [a-z]" <<<"$output"
		done
		run -0 mandoc -T lint -W style "$page"
		[ -z "$output" ]
	done
}

# Types in an interactive bash: a command line with a Tab at its end; then, to see what became of it, Ctrl-A
# and a command in front of it.
@test "bash completes the options of the installed programs" {
	make install "DESTDIR=$tree"
	cat >"$BATS_TEST_TMPDIR/bashrc" <<-END
		PATH=$tree/usr/local/bin:\$PATH
		XDG_DATA_DIRS=$tree/usr/local/share
		. /usr/share/bash-completion/bash_completion
	END
	shell="bash --noprofile --rcfile '$BATS_TEST_TMPDIR/bashrc' -i"
	run -0 env INPUTRC=/dev/null HISTFILE= TERM=dumb script -qec "$shell" /dev/null \
		<<<$'rdma-client --ti\t\x01printf "<%s>" \nrdma-server --one\t\x01printf "<%s>" \nexit\n'
	[[ $output == *"<rdma-client><--timeout>"* ]]
	[[ $output == *"<rdma-server><--one-off>"* ]]
}

@test "the Debian package is one that lintian accepts" {
	make deb MAINTAINER="Pat Maintainer <pat@debian.org>"
	package=$(echo build/rdma-pair_*.deb)
	[ "$(dpkg-deb -f "$package" Package Version Architecture Maintainer Section)" = "$(cat <<-END
		Package: rdma-pair
		Version: $(./rdma-server --version | cut -d ' ' -f 2)
		Architecture: $(dpkg --print-architecture)
		Maintainer: Pat Maintainer <pat@debian.org>
		Section: net
	END
	)" ]
	for library in libc6 libibverbs1 "librdmacm1(t64)?" libjson-c5; do
		dpkg-deb -f "$package" Depends | grep -Eq "(^|, )$library \(>= "
	done
	sed '/\/man\//s/$/.gz/' <(installed /usr) - >"$BATS_TEST_TMPDIR/expected" <<-END
		644 /usr/share/doc/rdma-pair/changelog.gz
		644 /usr/share/doc/rdma-pair/copyright
	END
	dpkg-deb -c "$package" | sed -n 's|^-rwxr-xr-x root/root .* \./|755 /|p; s|^-rw-r--r-- root/root .* \./|644 /|p' \
		>"$BATS_TEST_TMPDIR/packaged"
	diff <(sort "$BATS_TEST_TMPDIR/expected") <(sort "$BATS_TEST_TMPDIR/packaged")
	lintian --allow-root --fail-on error,warning "$package"
}
