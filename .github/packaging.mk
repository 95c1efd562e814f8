# SPDX-License-Identifier: MIT
# Rules that install the programs, and make packages of them; the Makefile includes this file.

# ---- installation ----

PAGES = $(wildcard .man/*.[1-9])
INSTALLED = $(DESTDIR)$(PREFIX)
COMPLETIONS = $(INSTALLED)/share/bash-completion/completions
# Debian's packages have another folder for zsh.
ZSH_FOLDER = site-functions
ZSH_COMPLETION = $(INSTALLED)/share/zsh/$(ZSH_FOLDER)/_rdma-pair
FISH_COMPLETIONS = $(INSTALLED)/share/fish/vendor_completions.d
MANUALS = $(INSTALLED)/share/man/man
SCHEMA = rdma-pair.schema.json
DOCUMENTATION = $(INSTALLED)/share/doc/rdma-pair
UNITS = $(wildcard .systemd/*)
# rdma-pairs is a script of Python with modules, and with the script that it sends to the hosts.
COMMANDS = $(PROGRAMS) rdma-pairs
PAIRS_SOURCE = rdma-common/pairs
PAIRS_MODULES = $(wildcard $(PAIRS_SOURCE)/*.py) $(PAIRS_SOURCE)/host.sh

# fish runs this line, which turns each option in the --help of the program @ into a "complete" command.
define FISH_COMPLETION
@ --help | sed -nE '/^ +(-., )?--/ { s/^ +-(.),/-s \1/; s/--([a-z-]+)( [A-Z]+)? +(.*)/-l \1 -d "\3"/; s/^/complete -c @ /p }' | source
endef

# $(call put,COMMAND,FILE) runs a shell command and writes its output to FILE, a new file. install(1) cannot do this:
# that of uutils (Ubuntu since 25.10) reads no pipe.
put = $(RM) "$(2)" && $(1) >"$(2)" && chmod 644 "$(2)"

# Refuse a PREFIX that the shell, sed(1) or systemd would change. The units quote it, so it may have blanks.
SPECIAL = " ' ` $$ \ & | %
check_prefix = $(foreach character,$(SPECIAL),$(if $(findstring $(character),$(PREFIX)),$(error \
	PREFIX '$(PREFIX)' has the character $(character), which would change in the example units; choose another PREFIX)))

# Build first only if the folder belongs to this user: the owner's next 'make' could not replace files of root. In
# another user's folder git refuses to work, so -o keeps make from calling git. The completions read --help.
install: export FISH = $(FISH_COMPLETION)
install: ## install below PREFIX (/usr/local); as root, build nothing in another user's folder
	@$(check_prefix)
	@if [ "$$(id -u)" = "$$(stat -c %u .)" ]; then \
		$(MAKE) --no-print-directory all; \
	elif ! $(MAKE) -q -o build/version $(PROGRAMS); then \
		echo "install: the programs are not built, or older than their sources; run 'make' first, as the owner of this folder" >&2; \
		exit 1; \
	fi
	install -d "$(INSTALLED)/bin" "$(COMPLETIONS)" "$(MANUALS)1" "$(MANUALS)7" "$(INSTALLED)/share/rdma-pair/pairs" \
		"$(DOCUMENTATION)/examples" "$(INSTALLED)/share/zsh/$(ZSH_FOLDER)" "$(FISH_COMPLETIONS)"
	install $(PROGRAMS) $(PAIRS_SOURCE)/rdma-pairs "$(INSTALLED)/bin"
	install -m 644 $(PAIRS_MODULES) "$(INSTALLED)/share/rdma-pair/pairs"
	for page in $(PAGES); do \
		$(call put,sed 's/^\.Os .*/& $(VERSION)/' "$$page",$(MANUALS)$${page##*.}/$${page##*/}) || exit 1; \
	done
	install -m 644 .man/$(SCHEMA) "$(INSTALLED)/share/rdma-pair"
	for unit in $(UNITS); do \
		$(call put,sed 's|/usr/bin/|$(PREFIX)/bin/|' "$$unit",$(DOCUMENTATION)/examples/$${unit##*/}) || exit 1; \
	done
	for program in $(COMMANDS); do \
		$(call put,echo "complete -F _longopt $$program",$(COMPLETIONS)/$$program) && \
		$(call put,printf '%s\n' "$$FISH" | sed "s/@/$$program/g",$(FISH_COMPLETIONS)/$$program.fish) || exit 1; \
	done
	$(call put,printf '#compdef %s\n_gnu_generic\n' '$(COMMANDS)',$(ZSH_COMPLETION))

# Keep the folders, because other programs may use them.
uninstall: ## remove the installed files
	for program in $(COMMANDS); do \
		$(RM) "$(INSTALLED)/bin/$$program" "$(COMPLETIONS)/$$program" "$(FISH_COMPLETIONS)/$$program.fish" || exit 1; \
	done
	$(RM) "$(INSTALLED)/share/rdma-pair/$(SCHEMA)" "$(ZSH_COMPLETION)"
	for module in $(notdir $(PAIRS_MODULES)); do $(RM) "$(INSTALLED)/share/rdma-pair/pairs/$$module" || exit 1; done
	for example in $(notdir $(UNITS)); do $(RM) "$(DOCUMENTATION)/examples/$$example" || exit 1; done
	for page in $(notdir $(PAGES)); do $(RM) "$(MANUALS)$${page##*.}/$$page" || exit 1; done

# ---- packages ----

# The time of the last commit, so that two builds produce the same package; in a tarball, the time of README.md.
SOURCE_DATE_EPOCH ?= $(shell { [ -e .git ] && git log -1 --format=%ct 2>/dev/null; } || stat -c %Y README.md)
VERSION = $(shell sed -n 's/^.define PROGRAM_VERSION "\(.*\)"/\1/p' rdma-common/options.c)
# The author of the last change; in a tarball, the user who builds.
MAINTAINER ?= $(shell { [ -e .git ] && git log -1 --format='%an <%ae>' 2>/dev/null; } || echo "$$(id -un) <$$(id -un)@$$(uname -n)>")
# The section of this version in the changelog; an entry begins with an asterisk. Fail if there is no entry.
CHANGES = sed -n '/^\#\# $(VERSION)/,/^\#\# /{ s/^- /* /p; s/^  //p; }' .github/CHANGELOG.md | grep . || \
	{ echo ".github/CHANGELOG.md has no entry for version $(VERSION); add one" >&2; false; }
# These recipes fail if any command of a pipe fails.
deb rpm: SHELL = bash
deb rpm: .SHELLFLAGS = -o pipefail -c
# Write the source files to a tar archive, as they are now. A package is built from a copy, with flags of its own.
PACK = tar --exclude-vcs --exclude=./build $(PROGRAMS:%=--exclude=./%)
STRIP ?= strip
DEB_TREE = build/deb/tree
DEB_DOC = $(DEB_TREE)/usr/share/doc/rdma-pair

define DEB_CONTROL
Source: rdma-pair
Section: net
Priority: optional
Maintainer: $(MAINTAINER)
Standards-Version: 4.6.2

Package: rdma-pair
Architecture: any
Depends: $${shlibs:Depends}
Recommends: ibverbs-providers, python3, rdma-core
Suggests: gnuplot-nox, openssh-client
Description: verify one-sided RDMA between two hosts
 rdma-server and rdma-client connect two hosts with RDMA, over InfiniBand,
 RoCE or iWARP, let each read from or write to the other's memory with
 one-sided operations, and verify on both sides that every byte arrived.
 .
 rdma-pairs measures the paths between many hosts with them, and names bad
 hosts, rails and paths. It needs Python.
endef

# The programs contain parts of xxHash, whose licence (BSD-2-Clause) demands its notice in each package. Take it from
# xxhash.h.
build/LICENSE.xxHash: FORCE
	@mkdir -p build
	{ printf 'The programs contain parts of the library xxHash:\n\n' && \
		sed -n '/^ \*\//q; s/^ \* \{0,1\}//p' "$$($(PKG_CONFIG) --variable=includedir libxxhash)/xxhash.h"; } >$@
	grep -q 'Redistributions in binary form' $@

# The flags are Debian's; variables on the command line of make replace them.
deb: ## build a Debian package in build/; MAINTAINER='Name <address>'
deb: export CONTROL = $(DEB_CONTROL)
deb: export AUTHOR = $(MAINTAINER)
deb:
	tests/setup build package
	rm -rf build/deb build/*.deb
	mkdir -p build/deb/source build/deb/debian $(DEB_TREE)/DEBIAN $(DEB_DOC)
	$(PACK) -c . | tar -x -C build/deb/source
	flags=$$(cd build/deb/source && DEB_BUILD_MAINT_OPTIONS=hardening=+all dpkg-buildflags --export=sh) && eval "$$flags" && \
		$(MAKE) --no-print-directory -C build/deb/source -j "$$(nproc)" install DESTDIR='$(CURDIR)/$(DEB_TREE)' PREFIX=/usr \
			PROGRAM_COMMIT= ZSH_FOLDER=vendor-completions
	echo "$$CONTROL" >build/deb/debian/control
	{ printf 'rdma-pair ($(VERSION)) unstable; urgency=medium\n\n' && \
		{ $(CHANGES); } | fold -s -w 74 | sed 's/ *$$//; /^\* /!s/^/  /; s/^/  /' && \
		printf '\n -- %s  %s\n' "$$AUTHOR" "$$(date -u -R -d @$(SOURCE_DATE_EPOCH))"; \
	} >build/deb/debian/changelog
	$(MAKE) --no-print-directory build/LICENSE.xxHash
	{ cat LICENSE && echo && cat build/LICENSE.xxHash; } >$(DEB_DOC)/copyright
	gzip -9n <build/deb/debian/changelog >$(DEB_DOC)/changelog.gz
	gzip -9n <README.md >$(DEB_DOC)/README.md.gz
	gzip -9n $(DEB_TREE)/usr/share/man/man?/*
	$(STRIP) $(PROGRAMS:%=$(DEB_TREE)/usr/bin/%)
	cd build/deb && dpkg-shlibdeps $(PROGRAMS:%=tree/usr/bin/%) && dpkg-gencontrol -Ptree
	chmod -R u=rwX,go=rX $(DEB_TREE)
	cd $(DEB_TREE) && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) dpkg-deb --root-owner-group --build $(DEB_TREE) build

# On Debian, whose packages rpm does not know, do not check BuildRequires.
rpm: ## build an RPM package in build/; MAINTAINER='Name <address>'
rpm: export AUTHOR = $(MAINTAINER)
rpm:
	command -v rpmbuild >/dev/null || tests/setup build rpm
	rm -rf build/rpm build/*.rpm
	mkdir -p build/rpm
	$(PACK) --transform 's|^\.|rdma-pair-$(VERSION)|' -czf build/rpm/rdma-pair-$(VERSION).tar.gz .
	{ sed 's/@VERSION@/$(VERSION)/' .github/rdma-pair.spec && \
		printf '* %s %s - $(VERSION)-1\n' "$$(LC_ALL=C date -u -d @$(SOURCE_DATE_EPOCH) '+%a %b %d %Y')" "$$AUTHOR" && \
		{ $(CHANGES); } | sed 's/%/%%/g; s/^\* /- /; t; s/^/  /'; \
	} >build/rpm/rdma-pair.spec
	rpmbuild -bb $(if $(wildcard /etc/debian_version),--nodeps) --define '_topdir $(CURDIR)/build/rpm' \
		--define '_sourcedir %{_topdir}' --define '_rpmdir $(CURDIR)/build' \
		--define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' build/rpm/rdma-pair.spec

# Without .git this folder is a tarball's, and git would pack a repository around it.
dist: ## pack the committed files into a tarball in build/, with the same bytes each time
	@[ -e .git ] || { echo "dist: this folder is no git checkout, so it has no committed files; run it in a clone" >&2; exit 1; }
	mkdir -p build
	git -c tar.umask=0022 archive --prefix=rdma-pair-$(VERSION)/ --output=build/rdma-pair-$(VERSION).tar HEAD
	gzip -9nf build/rdma-pair-$(VERSION).tar

.PHONY: install uninstall deb rpm dist
