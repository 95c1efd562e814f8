#!/usr/bin/env bats
# 'make install', 'make uninstall', the packages and tests/setup. These tests need no RDMA device, and install only into
# temporary folders.
# shellcheck disable=SC2030,SC2031,SC2154 # tests are subshells; bats sets $stderr

bats_require_minimum_version 1.5.0

# The commands that tests leave out or replace: see without().
optional=('apt*' 'dpkg*' sudo git id)

# Make a folder with links to all other commands, once for all tests, because making the links takes a second.
setup_file() {
	local command unwanted=()
	for command in "${optional[@]}"; do unwanted+=(! -name "$command"); done
	mkdir "$BATS_FILE_TMPDIR/bin"
	find /usr/bin -maxdepth 1 "${unwanted[@]}" -xtype f -exec cp -s -t "$BATS_FILE_TMPDIR/bin" {} +
}

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return
	unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX # set by 'make check'
	tree=$BATS_TEST_TMPDIR/tree
}

# installed PREFIX: print the files that must be installed below PREFIX, with their permissions, sorted by name.
installed() {
	cat <<-END
		755 $1/bin/rdma-client
		755 $1/bin/rdma-pairs
		755 $1/bin/rdma-server
		644 $1/share/bash-completion/completions/rdma-client
		644 $1/share/bash-completion/completions/rdma-pairs
		644 $1/share/bash-completion/completions/rdma-server
		644 $1/share/doc/rdma-pair/examples/rdma-check@.service
		644 $1/share/doc/rdma-pair/examples/rdma-check@.timer
		644 $1/share/doc/rdma-pair/examples/rdma-server.service
		644 $1/share/fish/vendor_completions.d/rdma-client.fish
		644 $1/share/fish/vendor_completions.d/rdma-pairs.fish
		644 $1/share/fish/vendor_completions.d/rdma-server.fish
		644 $1/share/man/man1/rdma-client.1
		644 $1/share/man/man1/rdma-pairs.1
		644 $1/share/man/man1/rdma-server.1
		644 $1/share/man/man7/rdma-faq.7
		644 $1/share/man/man7/rdma-pair.7
		644 $1/share/rdma-pair/pairs/console.py
		644 $1/share/rdma-pair/pairs/host.sh
		644 $1/share/rdma-pair/pairs/options.py
		644 $1/share/rdma-pair/pairs/paths.py
		644 $1/share/rdma-pair/pairs/picture.py
		644 $1/share/rdma-pair/pairs/report.py
		644 $1/share/rdma-pair/pairs/rounds.py
		644 $1/share/rdma-pair/pairs/run.py
		644 $1/share/rdma-pair/pairs/status.py
		644 $1/share/rdma-pair/pairs/streams.py
		644 $1/share/rdma-pair/pairs/summary.py
		644 $1/share/rdma-pair/pairs/verdict.py
		644 $1/share/rdma-pair/rdma-pair.schema.json
		644 $1/share/zsh/site-functions/_rdma-pair
	END
}

# release: print the version without a commit.
release() {
	sed -n 's/^#define PROGRAM_VERSION "\(.*\)"/\1/p' rdma-common/options.c
}

# files FOLDER: print the files in FOLDER, with their permissions.
files() {
	find "$1" -type f -printf '%m /%P\n' | LC_ALL=C sort -k 2
}

@test "make install puts programs, manual pages and completion below DESTDIR and PREFIX, even with blanks in these" {
	make install "DESTDIR=$tree"
	diff <(installed /usr/local) <(files "$tree")
	DESTDIR="$tree/with a blank" make install "PREFIX=/usr/my local"
	diff <(installed "/usr/my local") <(files "$tree/with a blank")
	cmp rdma-server "$tree/usr/local/bin/rdma-server"
	for page in "$tree"/usr/local/share/man/man?/*; do
		grep -qxF ".Os rdma-pair $(release)" "$page"
	done
	[ "$("$tree/with a blank/usr/my local/bin/rdma-pairs" --version)" = "rdma-pairs $(release)" ]
	make uninstall "DESTDIR=$tree/with a blank" "PREFIX=/usr/my local"
	[ -z "$(find "$tree/with a blank" -type f)" ]
}

@test "make install refuses a PREFIX that would change in the example units, and installs nothing" {
	local character
	for character in '&' '|' '%' "\\" '"' "'" '`' '$$'; do
		run -2 --separate-stderr make install "DESTDIR=$tree" "PREFIX=/usr/x${character}y"
		[[ $stderr == *"PREFIX '/usr/x${character/'$$'/$}y' has the character ${character/'$$'/$}, which"*"choose another PREFIX"* ]]
	done
	[ ! -e "$tree" ]
}

@test "make install needs no install(1) that reads pipes, and replaces a link by a file" {
	without
	stub install "for word; do [ ! -p \"\$word\" ] || { echo \"install: cannot read '\$word'\" >&2; exit 1; }; done
		exec /usr/bin/install \"\$@\""
	make all
	mkdir -p "$tree/usr/local/share/man/man1"
	ln -s ../elsewhere "$tree/usr/local/share/man/man1/rdma-client.1"
	PATH=$elsewhere make install "DESTDIR=$tree"
	diff <(installed /usr/local) <(files "$tree")
}

@test "make uninstall removes the installed files, and nothing else" {
	mkdir -p "$tree/usr/local/bin" "$tree/usr/local/share/man/"man{1,7} "$tree/usr/local/share/bash-completion/completions" \
		"$tree/usr/local/share/"{rdma-pair/pairs,doc/rdma-pair/examples,zsh/site-functions,fish/vendor_completions.d}
	touch "$tree/usr/local/bin/rdma-other"
	find "$tree" >"$BATS_TEST_TMPDIR/before"
	make install "DESTDIR=$tree"
	make uninstall "DESTDIR=$tree"
	diff "$BATS_TEST_TMPDIR/before" <(find "$tree") # empty folders stay: they may be the user's
	make uninstall "DESTDIR=$tree" # there is nothing left to remove
}

# without COMMAND...: set $elsewhere to a PATH with all commands of this machine except these, which are names or patterns in
# $optional. Its first folder is $stubs.
without() {
	local command wanted=() unwanted=()
	stubs=$BATS_TEST_TMPDIR/bin
	elsewhere=$stubs:$BATS_FILE_TMPDIR/bin
	mkdir "$stubs"
	for command; do unwanted+=(! -name "$command"); done
	for command in "${optional[@]}"; do wanted+=(-o -name "$command"); done
	find /usr/bin -maxdepth 1 \( "${wanted[@]:1}" \) "${unwanted[@]}" -xtype f -exec cp -s -t "$stubs" {} +
	for command; do ! compgen -G "$BATS_FILE_TMPDIR/bin/$command" || return 1; done
}

# project_files: print the names of this project's files, each followed by a NUL; in a tarball, which has no .git, of
# all files outside ./build.
project_files() {
	if [ -e .git ]; then
		git ls-files -z
	else
		find . -path ./build -prune -o -type f -print0
	fi
}

# copied: copy the project's files, as they are now, and the built files, with rdma-client out of date. Set $copy.
copied() {
	copy=$BATS_TEST_TMPDIR/copy
	mkdir "$copy"
	{ project_files && find rdma-client rdma-server build/plain -type f -print0; } 2>/dev/null |
		xargs -0 cp --preserve=timestamps --parents -t "$copy" 2>/dev/null || true # some files may be deleted, or not built
	touch "$copy/rdma-client.c"
}

# committed: make the copy of copied(), change to it, and commit its files to a new git repository.
committed() {
	copied
	cd "$copy" || return
	export GIT_CONFIG_GLOBAL=/dev/null
	git init --quiet
	git config user.name Pat
	git config user.email pat@example.org
	git add .
	git commit --quiet --message "all files"
}

# compiled FILE SANITIZE OBJECT...: print the objects that make would compile with the rules in FILE, sorted.
compiled() {
	make -n -o build/version CC=cc SANITIZE_fuzz= -f "$1" "SANITIZE=$2" "${@:3}" | sed -n 's/.* -c -o \([^ ]*\) .*/\1/p' | LC_ALL=C sort
}

# Each kind of objects has one that does not include a changed header. The compiler of the fuzzers is clang, which "make
# check" does not need.
@test "after a header has changed, make compiles the files that include it, in each build, and no others" {
	local fake=tests/fake-verbs/fake-verbs.mk plain=build/plain/tests none=build/fake-verbs/none
	local rest=(build/{asan,tsan,fuzz}/rdma-common/{digest,clock}.o "$plain"/{unit/{digest,wire}-test,peer/peer}.o)
	local faked=("$none"/{rdma-common/{digest,clock},fake/{scripted-peer,wire}}.o)
	copied
	cd "$copy"
	make -s all
	make -s CC=cc SANITIZE_fuzz= "${rest[@]}"
	make -s -f "$fake" SANITIZE=none "${faked[@]}"
	[ -z "$(compiled Makefile '' all "${rest[@]}")$(compiled "$fake" none "${faked[@]}")" ]
	[ -z "$(find . -name '*.[od]' -not -path './build/*')" ] # the folders of the sources stay clean
	touch rdma-common/digest.h tests/peer/deviation.h
	diff <(compiled Makefile '' all "${rest[@]}") <({
		grep -lE '"(\.\./)?digest\.h"' rdma-*.c rdma-common/*.c rdma-common/check/*.c | sed 's,^,build/plain/,; s,c$,o,'
		printf '%s\n' build/{asan,tsan,fuzz}/rdma-common/digest.o "$plain"/{unit/digest-test,peer/peer}.o
	} | LC_ALL=C sort)
	diff <(compiled "$fake" none "${faked[@]}") <(printf '%s\n' "$none"/{fake/scripted-peer,rdma-common/digest}.o)
	rm rdma-common/digest.h build/plain/rdma-common/clock.d # a deleted header; an object without its list
	[[ $(compiled Makefile '' all) == *build/plain/rdma-common/clock.o*build/plain/rdma-common/digest.o* ]]
}

@test "make stops with the reason of pkg-config if a library is too old" {
	sed 's/^Version:.*/Version: 0.13.1/' "$(pkg-config --variable=pcfiledir json-c)/json-c.pc" >"$BATS_TEST_TMPDIR/json-c.pc"
	PKG_CONFIG_PATH=$BATS_TEST_TMPDIR run -2 --separate-stderr make -Bn all
	[[ $stderr == *json-c*0.13.1*"'pkg-config' fails, for the reason above; rdma-faq(7) lists"* ]]
	[[ $output != *" -c -o "* ]]
}

@test "PKG_CONFIG names the pkg-config of a cross build" {
	without
	stub pkg-config 'exit 1'
	stub cross-pkg-config "echo -Dcross_\"\$(echo \"\$1\" | tr -d -)\""
	export PATH=$elsewhere PKG_CONFIG=cross-pkg-config
	run -0 make -Bn all build/unit/wire-test
	[ "$(grep -c -- "-Dcross_cflags .* -c -o .*\.o " <<<"$output")" -eq "$(grep -c -- " -c -o .*\.o " <<<"$output")" ]
	[[ $output == *" -o rdma-client "*" -Dcross_libs"* ]]
	[[ $output == *" -o build/unit/wire-test "*" -Dcross_libs"*" -Dcross_libs"* ]]
	run -0 make -Bn -f tests/fake-verbs/fake-verbs.mk build/fake-verbs/address/rdma-client.o
	[[ $output == *" -Dcross_cflags "* ]]
}

# bats test_tags=slow
@test "'make' and 'make install' need no package manager" {
	copied
	without 'apt*' 'dpkg*' sudo
	PATH=$elsewhere make -C "$copy"
	PATH=$elsewhere make -C "$copy" install "DESTDIR=$tree"
	diff <(installed /usr/local) <(files "$tree")
}

# bats test_tags=slow
@test "a build from a git checkout adds the commit to the version, and one from the tarball does not" {
	local release commit hash stamp
	committed
	release=$(release)
	for commit in first second; do
		echo "$commit" >>LICENSE
		git add .
		git commit --quiet --message "$commit"
		make
		hash=$(git rev-parse --short=7 HEAD)
		[ "$(./rdma-client --version)" = "rdma-client $release+g$hash" ]
		[ "$(./rdma-server --version)" = "rdma-server $release+g$hash" ]
	done
	stamp=$(stat -c %y rdma-server)
	make
	[ "$stamp" = "$(stat -c %y rdma-server)" ] # nothing changed
	echo more >>LICENSE
	make
	[ "$(./rdma-client --version)" = "rdma-client $release+g$hash.dirty" ]
	make dist
	mv "build/rdma-pair-$release.tar.gz" "$BATS_TEST_TMPDIR/first.tar.gz"
	make dist
	cmp "build/rdma-pair-$release.tar.gz" "$BATS_TEST_TMPDIR/first.tar.gz"
	# a tarball that is unpacked in a git checkout does not take that checkout's commit
	tar xzf "$BATS_TEST_TMPDIR/first.tar.gz"
	make -C "rdma-pair-$release"
	[ "$("./rdma-pair-$release/rdma-client" --version)" = "rdma-client $release" ]
	run ! grep -q more "rdma-pair-$release/LICENSE"
}

@test "make dist fails in a tarball's folder, even below a git checkout, and where git refuses" {
	committed
	run -2 --separate-stderr env GIT_TEST_ASSUME_DIFFERENT_OWNER=1 make dist
	[[ $stderr == *"dubious ownership"* ]]
	mv .git ..
	git -C .. rev-parse HEAD
	run -2 --separate-stderr make dist
	[[ $stderr == "dist: this folder is no git checkout, so it has no committed files; run it in a clone"* ]]
	run ! compgen -G "build/*.gz"
}

# bats test_tags=slow
@test "make deb and make rpm fail if the changelog has no entry for the version" {
	local goal
	committed
	sed -i "s/^## $(release)/## 0.0/" .github/CHANGELOG.md
	for goal in deb rpm; do
		run -2 --separate-stderr make "$goal"
		[[ $stderr == *".github/CHANGELOG.md has no entry for version $(release); add one"* ]]
		run ! compgen -G "build/*.$goal"
	done
}

# bats test_tags=slow
@test "make install as root builds nothing in another user's folder, and installs the programs built there" {
	[ "$(id -u)" -eq 0 ] || skip "root alone can do that"
	copied
	chmod -R go=rX "$BATS_TEST_TMPDIR" "$copy"
	chown -R nobody: "$copy"
	chmod go+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test"
	run -2 make -C "$copy" install "DESTDIR=$tree"
	[[ $output == *"install: the programs are not built, or older than their sources; run 'make' first"* ]]
	[ ! -e "$tree" ]
	[ -z "$(find "$copy" -user root)" ]
	setpriv --reuid nobody --regid nogroup --clear-groups make -C "$copy"
	without git
	stub git "touch '$BATS_TEST_TMPDIR/called'; exit 1"
	PATH=$elsewhere make -C "$copy" install "DESTDIR=$tree"
	[ ! -e "$BATS_TEST_TMPDIR/called" ]
	diff <(installed /usr/local) <(files "$tree")
	[ -z "$(find "$copy" -user root)" ]
}

@test "without apt-get, 'make' works, and 'make demo' and 'make check' say in one line what to do" {
	local goal
	without 'apt*' 'dpkg*'
	PATH=$elsewhere run -0 make
	for goal in demo check; do
		PATH=$elsewhere run -2 --separate-stderr make "$goal"
		[[ $stderr == "setup: this is "*", not Debian: "*" use a Debian container or virtual machine"*" libibverbs-dev "* ]]
		[ "$(grep -vc '^make' <<<"$stderr")" -eq 1 ]
	done
}

@test "on Ubuntu the demo says in one line that the hosts need Debian, names alternatives, and installs nothing" {
	printf '%s\n' 'ID=ubuntu' 'ID_LIKE=debian' 'PRETTY_NAME="Ubuntu 24.04.1 LTS"' >"$BATS_TEST_TMPDIR/os-release"
	without apt-get dpkg-query sudo
	stub apt-get 'exit 100'
	stub dpkg-query 'exit 100'
	PATH=$elsewhere OS_RELEASE=$BATS_TEST_TMPDIR/os-release run -1 --separate-stderr tests/demo --plan
	[[ $stderr == "setup: the two emulated hosts need Debian on amd64 or arm64, and this is Ubuntu 24.04.1 LTS on "*"docker run"*"Soft-RoCE"* ]]
	[ "$(wc -l <<<"$stderr")" -eq 1 ]
	[ -z "$output" ]
}

# new_debian UID [ARCHITECTURE]: set $elsewhere to the commands of a Debian on which no needed package and no sudo is
# installed, and apt-get installs nothing. The user has the id UID. Each call of apt-get adds a line to the file $given.
new_debian() {
	without 'apt*' dpkg dpkg-query sudo id
	given=$BATS_TEST_TMPDIR/given
	echo 'ID=debian' >"$BATS_TEST_TMPDIR/os-release"
	export OS_RELEASE=$BATS_TEST_TMPDIR/os-release XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
	unset LAB_SUITE # this Debian has one suite
	stub dpkg "echo ${2:-amd64}"
	stub dpkg-query ''
	stub id "echo $1"
	stub apt-cache ''
	stub apt-get "echo apt-get \"\$*\" >>'$given'"'
		case $* in
		*--print-uris*)
			printf "%s\n" "\047http://x/a.deb\047 a.deb 41000000 SHA256:1" "\047http://x/b.deb\047 b.deb 999999 SHA256:2"
			;;
		*) echo "E: cannot do that" >&2 && exit 100 ;;
		esac'
	: >"$given"
}

# stub NAME TEXT: replace the command NAME in $elsewhere by a script with TEXT.
stub() {
	rm -f "$stubs/$1" # may be a link, through which printf would write
	printf '#!/bin/sh\n%s\n' "$2" >"$stubs/$1"
	chmod +x "$stubs/$1"
}

@test "before it begins, the demo prints the packages, the size of the download, and whether sudo asks for a password" {
	new_debian 0
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *" packages of Debian's (42 MB to download)"*": "*" qemu-system-x86 "* ]]
	[[ $output == *"download Debian's kernel (70 to 110 MB)"*" of it in $BATS_TEST_TMPDIR/cache/rdma-lab/amd64"* ]]
	[[ $output != *sudo* ]]
	stub id 'echo 1000'
	stub sudo 'exit 1'
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *"with sudo, which may ask for your password"* ]]
}

@test "on arm64 the demo's plan has QEMU for arm64, and a folder of its own for the kernel" {
	old_cache
	new_debian 0 arm64
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *" qemu-system-arm "* ]]
	[[ $output != *" qemu-system-x86 "* ]]
	[[ $output == *"download Debian's kernel (60 to 100 MB), and keep 40 MB of it in $BATS_TEST_TMPDIR/cache/rdma-lab/arm64"* ]]
}

@test "setup rejects an architecture that the emulated hosts do not have" {
	new_debian 0 riscv64
	echo 'PRETTY_NAME="Debian GNU/Linux"' >>"$OS_RELEASE"
	PATH=$elsewhere run -1 --separate-stderr tests/demo --plan
	[[ $stderr == "setup: the two emulated hosts need Debian on amd64 or arm64, and this is Debian GNU/Linux on riscv64: "* ]]
}

# old_cache: make a cache with a kernel in the place that it had before each architecture got a folder of its own.
old_cache() {
	cache=$BATS_TEST_TMPDIR/cache/rdma-lab
	mkdir -p "$cache/6.1.1-1/modules"
	touch "$cache/6.1.1-1/vmlinux" "$cache/6.1.1-1/modules/order"
	sed -n "s/^spare='\(.*\)'/\1/p" tests/lab/kernel >"$cache/6.1.1-1/spare"
	ln -s 6.1.1-1 "$cache/current"
}

@test "a kernel in the cache's old place is moved, reported and used on amd64, and left alone on arm64" {
	old_cache
	new_debian 0
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *"boot Debian's kernel, which is in $cache already"* ]]
	stub apt-cache 'exit 1'
	export PATH=$elsewhere:$PATH
	run -1 tests/lab/kernel rxe "$BATS_TEST_TMPDIR/initramfs" "$cache/arm64"
	[[ $output != *moving* ]]
	run -0 --separate-stderr tests/lab/kernel rxe "$BATS_TEST_TMPDIR/initramfs" "$cache/amd64"
	[ "$output" = "$cache/amd64/6.1.1-1/vmlinux" ]
	[ "$stderr" = "lab: moving the kernels in $cache to $cache/amd64" ]
	run -0 --separate-stderr tests/lab/kernel rxe "$BATS_TEST_TMPDIR/initramfs" "$cache/amd64"
	[ -z "$stderr" ]
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *"boot Debian's kernel, which is in $cache/amd64 already"* ]]
	old_cache # an older lab ran once more
	PATH=$elsewhere run -0 tests/demo --plan
	[[ $output == *"boot Debian's kernel, which is in $cache/amd64 already"* ]]
	run -1 tests/lab/kernel siw "$BATS_TEST_TMPDIR/initramfs" "$cache/amd64"
	[ "$output" = "lab: apt knows no package linux-image-amd64; run apt-get update" ]
}

@test "without sudo, 'make demo' and 'make check' name the command for root" {
	local goal
	new_debian 1000
	for goal in demo check; do
		PATH=$elsewhere run -2 --separate-stderr make "$goal"
		[[ $stderr == "setup: installing packages needs root, and this system has no sudo; as root, run \
'apt-get update && apt-get install --no-install-recommends "*" libibverbs-dev "*"', then try again"* ]]
		[ "$(grep -vc '^make' <<<"$stderr")" -eq 1 ]
	done
	run ! grep -v -e --print-uris "$given"
}

@test "setup tries sudo once, and names the command for root if sudo refuses" {
	new_debian 1000
	stub sudo "echo sudo \"\$*\" >>'$given'; echo 'user is not in the sudoers file.' >&2; exit 1"
	PATH=$elsewhere run -1 --separate-stderr tests/setup build
	[[ $stderr == "setup: installing "*$'\n'"user is not in the sudoers file."$'\n'"setup: sudo refused, for the reason above; \
as root, run 'apt-get update && apt-get install --no-install-recommends "*" libibverbs-dev "*"', then try again" ]]
	[ "$(grep -c ^sudo "$given")" -eq 1 ]
}

@test "if apt-get fails, setup refers to the messages of apt-get, and guesses no reason" {
	new_debian 0
	PATH=$elsewhere run -1 --separate-stderr tests/setup build
	[[ $stderr == *"E: cannot do that"*"setup: apt-get could not install these packages (its messages are above): "*" libibverbs-dev "* ]]
	[[ $stderr != *network* ]]
}

@test "without HOME the cache for the lab's kernel is in the home folder from passwd(5)" {
	local cache
	cache=$(getent passwd "$(id -u)" | cut -d : -f 6)/.cache/rdma-lab
	new_debian 0
	PATH=$elsewhere run -0 env -u HOME -u XDG_CACHE_HOME tests/demo --plan
	[[ $output == *" in $cache"* ]]
	cache+=/$(dpkg --print-architecture)
	run -0 env -u HOME -u XDG_CACHE_HOME PYTHONPATH=tests/lab python3 -Bc 'import supervisor; print(supervisor.cache_folder())'
	[ "$output" = "$cache" ]
	cache=$BATS_TEST_TMPDIR/cache # with a kernel
	mkdir -p "$cache/current/modules"
	: >"$cache/current/vmlinux"
	sed -n "s/^spare='\(.*\)'/\1/p" tests/lab/kernel >"$cache/current/spare"
	run -0 env -u HOME -u XDG_CACHE_HOME tests/lab/kernel rxe "$BATS_TEST_TMPDIR/initramfs" "$cache"
	[ "$output" = "$cache/current/vmlinux" ]
}

# The test types a command line and a Tab in an interactive bash. To print the completed line, it then types Ctrl-A
# and inserts a command in front.
@test "bash completes the options of the installed programs" {
	make install "DESTDIR=$tree"
	cat >"$BATS_TEST_TMPDIR/bashrc" <<-END
		PATH=$tree/usr/local/bin:\$PATH
		XDG_DATA_DIRS=$tree/usr/local/share
		. /usr/share/bash-completion/bash_completion
	END
	shell="bash --noprofile --rcfile '$BATS_TEST_TMPDIR/bashrc' -i"
	run -0 env INPUTRC=/dev/null HISTFILE= TERM=dumb script -qec "$shell" /dev/null \
		<<<$'rdma-client --ti\t\x01printf "<%s>" \nrdma-server --one\t\x01printf "<%s>" \nrdma-pairs --ro\t\x01printf "<%s>" \nexit\n'
	[[ $output == *"<rdma-client><--timeout>"* ]]
	[[ $output == *"<rdma-server><--one-off>"* ]]
	[[ $output == *"<rdma-pairs><--rounds>"* ]]
}

# bats test_tags=slow
@test "zsh completes the options of the installed programs" {
	make install "DESTDIR=$tree"
	cat >"$BATS_TEST_TMPDIR/.zshrc" <<-END
		PATH=$tree/usr/local/bin:\$PATH
		fpath=("$tree/usr/local/share/zsh/site-functions" \$fpath)
		autoload -Uz compinit && compinit -D -u
		bindkey -e
	END
	run -0 env "ZDOTDIR=$BATS_TEST_TMPDIR" TERM=dumb script -qec "zsh -d -i" /dev/null \
		<<<$'rdma-client --ti\t\x01printf "<%s>" \nrdma-server --one\t\x01printf "<%s>" \nrdma-pairs --ro\t\x01printf "<%s>" \nexit\n'
	[[ $output == *"<rdma-client><--timeout>"* ]]
	[[ $output == *"<rdma-server><--one-off>"* ]]
	[[ $output == *"<rdma-pairs><--rounds>"* ]]
}

# bats test_tags=slow
@test "fish completes the options of the installed programs, and shows their descriptions" {
	make install "DESTDIR=$tree"
	completions=(env "HOME=$BATS_TEST_TMPDIR" "PATH=$tree/usr/local/bin:$PATH" "XDG_DATA_DIRS=$tree/usr/local/share" fish -c)
	[ "$("${completions[@]}" 'complete -C "rdma-client --timeo"')" = $'--timeout\tlongest time without progress (default 10)' ]
	[[ $("${completions[@]}" 'complete -C "rdma-server -"') == *$'-1\texit after the first session'* ]]
	for program in rdma-client rdma-server rdma-pairs; do
		diff <("${completions[@]}" "complete -C '$program --'" | cut -f 1) \
			<("$tree/usr/local/bin/$program" --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' | LC_ALL=C sort)
	done
}

# bats test_tags=slow
@test "systemd accepts the installed example units, and rates their exposure below 2.5" {
	local unit
	tree+="/with a blank"
	make install "PREFIX=$tree"
	cd "$tree/share/doc/rdma-pair/examples"
	for unit in rdma-server.service rdma-check@.service rdma-check@.timer; do
		run -0 systemd-analyze verify --man=no "./$unit"
		[ -z "$output" ]
	done
	grep -F "ExecStart=\"$tree/bin/rdma-server\" -p 47881 --json" rdma-server.service
	grep -F "ExecStart=\"$tree/bin/rdma-client\" --check --json %i 47881" rdma-check@.service # %I would make host/a of host-a
	grep -x RestartSec=10 rdma-server.service # systemd gives up after five starts in ten seconds
	for unit in rdma-server.service rdma-check@.service; do
		systemd-analyze security --offline=true --no-pager --threshold=25 "./$unit"
	done
}

# has_notice_of_xxhash FILE: check the beginning, the conditions and the end of the notice that BSD-2-Clause demands.
has_notice_of_xxhash() {
	grep -A 40 "^Copyright (C) 2012-20[0-9]* Yann Collet$" "$1" >"$BATS_TEST_TMPDIR/notice"
	grep -q "Redistributions in binary form must reproduce" "$BATS_TEST_TMPDIR/notice"
	grep -q "POSSIBILITY OF SUCH DAMAGE.$" "$BATS_TEST_TMPDIR/notice"
}

# bats test_tags=slow
@test "make deb builds a package that lintian accepts" {
	committed
	make deb MAINTAINER="Pat Maintainer <pat@debian.org>"
	package=$(echo build/rdma-pair_*.deb)
	[ "$(dpkg-deb -f "$package" Package Version Architecture Maintainer Section)" = "$(cat <<-END
		Package: rdma-pair
		Version: $(release)
		Architecture: $(dpkg --print-architecture)
		Maintainer: Pat Maintainer <pat@debian.org>
		Section: net
	END
	)" ]
	[ "$(build/deb/tree/usr/bin/rdma-server --version)" = "rdma-server $(release)" ]
	for program in rdma-server rdma-client; do
		readelf --wide --dynamic --program-headers --dyn-syms "build/deb/tree/usr/bin/$program" >"$BATS_TEST_TMPDIR/elf"
		grep -q ' __snprintf_chk@' "$BATS_TEST_TMPDIR/elf"
		grep -q ' __stack_chk_fail@' "$BATS_TEST_TMPDIR/elf"
		grep -q ' GNU_RELRO ' "$BATS_TEST_TMPDIR/elf"
		grep -q 'BIND_NOW' "$BATS_TEST_TMPDIR/elf"
	done
	for library in libc6 libibverbs1 "librdmacm1(t64)?" libjson-c5 libnl-3-200; do
		dpkg-deb -f "$package" Depends | grep -Eq "(^|, )$library \(>= "
	done
	run ! grep xxhash <(dpkg-deb -f "$package" Depends)
	sed '/\/man\//s/$/.gz/; s/site-functions/vendor-completions/' <(installed /usr) - >"$BATS_TEST_TMPDIR/expected" <<-END
		644 /usr/share/doc/rdma-pair/README.md.gz
		644 /usr/share/doc/rdma-pair/changelog.gz
		644 /usr/share/doc/rdma-pair/copyright
	END
	dpkg-deb -c "$package" | sed -n 's|^-rwxr-xr-x root/root .* \./|755 /|p; s|^-rw-r--r-- root/root .* \./|644 /|p' \
		>"$BATS_TEST_TMPDIR/packaged"
	diff <(sort "$BATS_TEST_TMPDIR/expected") <(sort "$BATS_TEST_TMPDIR/packaged")
	lintian --allow-root --fail-on error,warning "$package"
	dpkg-deb --fsys-tarfile "$package" | tar -xO ./usr/share/doc/rdma-pair/copyright >"$BATS_TEST_TMPDIR/copyright"
	diff LICENSE <(head -n "$(wc -l <LICENSE)" "$BATS_TEST_TMPDIR/copyright")
	has_notice_of_xxhash "$BATS_TEST_TMPDIR/copyright"
	dpkg-deb --fsys-tarfile "$package" | tar -xO ./usr/share/doc/rdma-pair/changelog.gz | zcat >"$BATS_TEST_TMPDIR/changelog"
	grep -q '^  \* ' "$BATS_TEST_TMPDIR/changelog"
	run ! grep -E '.{81}| $' "$BATS_TEST_TMPDIR/changelog"
	diff <(sed -n "/^## $(release)/,/^## /{/^[- ] /s/^. *//p}" .github/CHANGELOG.md | xargs -d '\n') \
		<(sed -n '/^   *[* ] /s/^ *\(\* \)\?//p' "$BATS_TEST_TMPDIR/changelog" | xargs -d '\n')
}

# bats test_tags=slow
@test "make deb works in a tarball without git, and with the strip of a cross build" {
	copied
	without git
	stub cross-strip "touch '$BATS_TEST_TMPDIR/called'; exec strip \"\$@\""
	PATH=$elsewhere make -C "$copy" deb STRIP=cross-strip
	[ -e "$BATS_TEST_TMPDIR/called" ]
	[ "$(dpkg-deb -f "$copy"/build/rdma-pair_*.deb Maintainer)" = "$(id -un) <$(id -un)@$(uname -n)>" ]
}

# Messages that rpmlint may print, for example because Debian's rpmbuild does not strip programs; the one of Debian 12
# does not compress manual pages.
# bats test_tags=slow
@test "make rpm builds a package with the files of make install, and rpmlint accepts it" {
	local package unusual="unstripped-binary-or-object|manpage-not-compressed|no-manual-page-for-binary"
	unusual+="|no-(signature|packager-tag|group-tag|url-tag|buildroot-tag)|invalid-(url|license)"
	committed
	make rpm MAINTAINER="Pat Maintainer <pat@debian.org>"
	package=$(echo build/rdma-pair-[0-9]*.rpm) # not the one with debug information, which a newer rpmbuild adds
	[ "$(rpm -qp --qf '%{NAME} %{VERSION} %{LICENSE} %{CHANGELOGNAME}' "$package")" = \
		"rdma-pair $(release) MIT AND BSD-2-Clause Pat Maintainer <pat@debian.org> - $(release)-1" ]
	rpmspec -q --buildrequires build/rpm/rdma-pair.spec | grep -x 'pkgconfig(json-c) >= 0.14'
	rpm -qp --changelog "$package" | grep -q '^- '
	for library in libc.so.6 libibverbs.so.1 librdmacm.so.1 libjson-c.so.5 libnl-3.so.200; do
		rpm -qp --requires "$package" | grep -qF "$library("
	done
	run ! grep xxhash <(rpm -qp --requires "$package")
	sort - <(installed /usr) >"$BATS_TEST_TMPDIR/expected" <<-END
		644 /usr/share/doc/rdma-pair/CHANGELOG.md
		644 /usr/share/doc/rdma-pair/README.md
		644 /usr/share/licenses/rdma-pair/LICENSE
		644 /usr/share/licenses/rdma-pair/LICENSE.xxHash
	END
	diff "$BATS_TEST_TMPDIR/expected" <(rpm -qp --qf '[%{FILEMODES:octal} %{FILENAMES}\n]' "$package" |
		sed -n "/\.build-id/d; s|/rdma-pair-$(release)/|/rdma-pair/|; s/\.gz$//; s/^100//p" | sort)
	rpm -qlp "$package" | grep -x /usr/share/rdma-pair # otherwise removing the package leaves this folder
	rpm -qlp "$package" | grep -x /usr/share/doc/rdma-pair
	mkdir "$tree"
	rpm2cpio "$package" | (cd "$tree" && cpio --quiet -id)
	[ "$("$tree/usr/bin/rdma-client" --version)" = "rdma-client $(release)" ]
	has_notice_of_xxhash "$tree"/usr/share/licenses/*/LICENSE.xxHash
	if command -v rpmlint; then
		run -1 grep -vE " ($unusual)( |$)" <(rpmlint "$package" build/rpm/rdma-pair.spec | grep ' [EW]: ')
	fi
}
