# treewrap: see README.md. A C compiler, libcap-ng and (for treewrapctl alone)
# jansson are all that is needed to build.
#
#   make              the programs
#   make demo         installs what is missing to build, builds, shows what it does
#   make check        installs what is missing to test, builds, runs the tests
#   make lint         what compilers, analysers and formatters can find without running it
#   make sanitize     all tests with AddressSanitizer and UndefinedBehaviorSanitizer
#   make coverage     all tests, and which lines they reached
#   make fuzz         each parser against random input, FUZZ_SECONDS long
#   make chaos        the longest tests, thousands of rounds of chance: SEED= for the same
#   make model        models of the promises, checked by spin
#   make check-worlds  the core of it in gVisor, Docker, qemu-user, and with little of /proc
#   make check-kernels  ... on other kernels: Linux 5.10, 6.1, 6.12
#   make check-e2e     what is built on treewrap: the exec servers of examples/, packages,
#                     completion, recipes, containers of podman and Docker
#   make bench        measures it beside its peers (bench/README.md): QUICK=1, SECONDS= of idling
#   make static       treewrap-static, treewrapctl-static, which need no library where they run
#   make install      PREFIX= DESTDIR=
#   make install-names  DIR=: links there, by which treewrap is called as timeout, dumb-init, ...
#   make deb          build/deb/treewrap_VERSION_ARCHITECTURE.deb
#   make dist         build/dist: a tarball of the static programs, and its checksum
#   make clean

PREFIX  = /usr/local
DESTDIR =

CC      = cc
CFLAGS  = -O2 -g
STANDARD = -std=gnu11 -D_GNU_SOURCE
WARN    = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
HARDEN  = -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE
LINK    = -pie -Wl,-z,relro,-z,now -Wl,--as-needed
LIBS    = -lcap-ng

PARTS   = shim relay reaper start stop serve control runtime rights forward outcome report signals tree member fell proc command options \
	  watch wait status json link descriptor bad_option let_go privs cgroup pidns \
	  names as_timeout as_dumb_init
SOURCES = $(PARTS:=.c)
HEADERS = $(wildcard *.h)
OBJECTS = $(PARTS:=.o)

# treewrapctl has its own parts, and shares some.
CTL_OWN     = treewrapctl ask draw reply text
CTL_PARTS   = $(CTL_OWN) runtime descriptor bad_option
CTL_SOURCES = $(CTL_PARTS:=.c)
CTL_LIBS    = -ljansson
ALL_SOURCES = $(sort $(SOURCES) $(CTL_SOURCES))

ADVERSARIES = $(patsubst tests/adversaries/%.c,tests/bin/%,$(wildcard tests/adversaries/*.c)) \
	$(patsubst tests/preload/%.c,tests/bin/%.so,$(wildcard tests/preload/*.c))
FUZZERS = $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))

# What the harness is made of, and what it lets its subjects run.
BENCH_SOURCES  = bench/bench.c bench/series.c bench/subject.c bench/report.c bench/chain.c bench/cage.c \
	$(sort $(wildcard bench/measure_*.c))
BENCH_PROGRAMS = build/bench/nothing build/bench/tree build/bench/orphans build/bench/echo
BENCH_SIZE     = $(if $(QUICK),quick,full)
BENCH_RESULTS  = $(if $(QUICK),build/bench/results,bench/results)
SECONDS        = $(if $(QUICK),3,10)

# Debian's python3, for which Debian packages pytest.
PYTEST  = /usr/bin/python3 -m pytest
JOBS    = 4
TESTS   = tests
FUZZ_SECONDS = 60

all: treewrap treewrapctl compile_commands.json

treewrap: $(OBJECTS)
	$(CC) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

treewrapctl: $(CTL_PARTS:=.o)
	$(CC) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $(CTL_PARTS:=.o) $(CTL_LIBS)

.c.o:
	$(CC) $(STANDARD) $(WARN) $(HARDEN) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(sort $(PARTS:=.d) $(CTL_PARTS:=.d))

# For editors and analysers; only where bear is there.
compile_commands.json: Makefile
	@if command -v bear >/dev/null; then \
		bear -- $(MAKE) -s --no-print-directory -B treewrap treewrapctl; \
	fi

static: static-packages
	@$(MAKE) -s treewrap-static treewrapctl-static

static-all: static cross-packages
	@$(MAKE) -s treewrap-static-arm64 treewrap-static-riscv64

# Of the program that is put before everything: as small as it can be made, see there.
STATIC = $(STANDARD) $(WARN) -Wno-format-truncation -Oz -flto
treewrap-static: $(SOURCES) $(HEADERS) static/libc.c static/build.sh lists.sh
	sh static/build.sh $(shell dpkg --print-architecture) $@ $(STATIC) $(SOURCES) static/libc.c

treewrap-static-%: $(SOURCES) $(HEADERS) static/libc.c static/build.sh lists.sh
	sh static/build.sh $* $@ $(STATIC) $(SOURCES) static/libc.c

# musl brings neither the kernel's headers nor jansson's: they get a folder of their own, for
# glibc's must not come into sight.
treewrapctl-static: $(CTL_SOURCES) $(HEADERS) static/fortify.c
	@mkdir -p build/static
	@ln -sfn /usr/include/linux /usr/include/asm-generic /usr/include/jansson.h \
		/usr/include/$(shell gcc -print-multiarch)/asm build/static
	@ln -sfn $(firstword $(wildcard /usr/include/jansson_config.h \
		/usr/include/$(shell gcc -print-multiarch)/jansson_config.h)) build/static
	musl-gcc $(STANDARD) $(WARN) -Wno-format-truncation -Os -s -static -ffunction-sections \
		-fdata-sections -Wl,--gc-sections -idirafter build/static -o $@ $(CTL_SOURCES) \
		static/fortify.c $(shell gcc -print-file-name=libjansson.a)

demo: build-packages
	@$(MAKE) -s treewrap
	@sh demo.sh

check: static test-packages
	@$(MAKE) -s treewrap treewrapctl adversaries bench-programs
	@$(PYTEST) -q -n $(JOBS) -m 'not heavy and not long' $(TESTS); first=$$?; \
		$(PYTEST) -q -m 'heavy and not long' $(TESTS) && exit $$first

chaos: build-packages test-packages
	@$(MAKE) -s treewrap treewrapctl adversaries
	@$(PYTEST) -q -m long $(TESTS)
	@/usr/bin/python3 tests/bystander.py --rounds 1000 $(SEED:%=--seed %); first=$$?; \
		/usr/bin/python3 tests/chaos.py --rounds 5000 --jobs $(JOBS) $(SEED:%=--seed %) && \
		exit $$first

check-worlds: static-all worlds-packages
	@sh packages.sh runsc docker.io qemu-user-static
	@sh tests/worlds/worlds.sh

check-kernels: static-all worlds-packages tests/bin/bomb
	@sh packages.sh qemu-system-x86 qemu-system-arm cpio debian-archive-keyring
	@sh tests/worlds/kernels.sh

bench: static bench-packages
	@$(MAKE) -s treewrap bench-programs
	@mkdir -p $(BENCH_RESULTS) && rm -f $(BENCH_RESULTS)/errors
	@build/bench/bench $(BENCH_RESULTS) $(BENCH_SIZE) $(SECONDS)
	@gnuplot -e "folder='$(BENCH_RESULTS)'" bench/plot.gp

bench-programs: build/bench/bench $(BENCH_PROGRAMS) tests/bin/bomb

build/bench/bench: $(BENCH_SOURCES) $(wildcard bench/*.h)
	@mkdir -p $(@D)
	$(CC) $(STANDARD) $(WARN) $(CFLAGS) -o $@ $(BENCH_SOURCES) -lm

# Static and small: what they take is to be nothing beside what is measured.
$(BENCH_PROGRAMS): build/bench/%: bench/%.c
	@mkdir -p $(@D)
	musl-gcc $(STANDARD) -Wall -Wextra -Werror -O2 -s -static -o $@ $<

check-e2e: build-packages test-packages e2e-packages
	@$(MAKE) -s treewrap treewrapctl static adversaries examples
	@./treewrap -- $(PYTEST) -q -rs -n $(JOBS) --dist loadfile tests/e2e

# Those that are compiled.
examples: build/examples/server-go build/examples/server-rust

build/examples/server-go: examples/go/server.go
	@mkdir -p $(@D)
	GO111MODULE=off GOCACHE=$(abspath build/go-cache) go build -o $@ $<

build/examples/server-rust: examples/rust/server.rs examples/rust/json.rs
	@mkdir -p $(@D)
	rustc --edition 2021 -O -D warnings -o $@ $<

adversaries: $(ADVERSARIES)

tests/bin/%: tests/adversaries/%.c
	@mkdir -p tests/bin
	$(CC) $(STANDARD) -Wall -Wextra -Werror -O1 -g -static -pthread -o $@ $<

# Preloaded into treewrap.
tests/bin/%.so: tests/preload/%.c
	@mkdir -p tests/bin
	$(CC) $(STANDARD) -Wall -Wextra -Werror -O1 -g -shared -fPIC -o $@ $<

# All tests of the program as $(1) builds it. Tests run as other users too: they must be able
# to write what it writes. What cannot be true of it is skipped and listed with the reason.
define run-tests-of
chmod 777 build/$(1); \
export TREEWRAP=$(abspath build/$(1)/treewrap) TREEWRAP_BUILD=$(1); \
export TREEWRAPCTL=$(abspath build/$(1)/treewrapctl); \
$(PYTEST) -q -rs -n $(JOBS) -m 'not heavy and not long' $(TESTS); first=$$?; \
$(PYTEST) -q -rs -m 'heavy and not long' $(TESTS) && [ $$first = 0 ]; tests=$$?
endef

SANITIZE = -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	   -fno-sanitize-recover=undefined

sanitize: static test-packages lint-packages build/sanitize/treewrap \
		build/sanitize/treewrapctl adversaries
	@rm -f build/sanitize/log.*
	@$(call run-tests-of,sanitize); \
		! cat build/sanitize/log.* 2>/dev/null && exit $$tests

build/sanitize/treewrap: $(SOURCES) $(HEADERS) tests/sanitize.c
	@mkdir -p $(@D)
	clang $(STANDARD) $(WARN) $(SANITIZE) -DLOG_PATH='"$(abspath $(@D))/log"' -o $@ \
		$(SOURCES) tests/sanitize.c -Wl,--wrap=__asan_handle_no_return $(LIBS)

# With what sanitizers do by themselves, leaks too.
build/sanitize/treewrapctl: $(CTL_SOURCES) $(HEADERS)
	@mkdir -p $(@D)
	clang $(STANDARD) $(WARN) $(SANITIZE) -o $@ $(CTL_SOURCES) $(CTL_LIBS)

# %c: the counters are mapped into the file, so that a process that is killed, or leaves by
# _exit(2), has written them; %m: all processes share one file. It is there, and writable
# for all, before the tests run.
coverage: static test-packages lint-packages build/coverage/treewrap \
		build/coverage/treewrapctl adversaries
	@rm -f build/coverage/*.prof*
	@build/coverage/treewrap true && build/coverage/treewrapctl --version >/dev/null && \
		chmod 666 build/coverage/*.profraw
	@$(call run-tests-of,coverage); \
		llvm-profdata merge -o build/coverage/all.profdata build/coverage/*.profraw && \
		llvm-cov export -format=lcov build/coverage/treewrap \
			-object build/coverage/treewrapctl \
			-instr-profile=build/coverage/all.profdata >build/coverage/lcov && \
		sh tests/coverage.sh build/coverage/lcov && exit $$tests

build/coverage/treewrap: $(SOURCES) $(HEADERS)
	@mkdir -p $(@D)
	clang $(STANDARD) $(WARN) -O1 -g -fcoverage-mapping \
		-fprofile-instr-generate=$(abspath $(@D))/%m%c.profraw \
		-mllvm -runtime-counter-relocation -o $@ $(SOURCES) $(LIBS)

build/coverage/treewrapctl: $(CTL_SOURCES) $(HEADERS)
	@mkdir -p $(@D)
	clang $(STANDARD) $(WARN) -O1 -g -fcoverage-mapping \
		-fprofile-instr-generate=$(abspath $(@D))/%m%c.profraw \
		-mllvm -runtime-counter-relocation -o $@ $(CTL_SOURCES) $(CTL_LIBS)

fuzz: build-packages lint-packages $(FUZZERS)
	@printf '%s\n' $(FUZZERS) | xargs -n 1 -P 2 sh tests/fuzz.sh $(FUZZ_SECONDS)

# A target says in its first comment what it is linked with.
build/fuzz/%: tests/fuzz/%.c $(SOURCES) $(HEADERS)
	@mkdir -p $(@D)
	clang $(STANDARD) $(WARN) $(SANITIZE) -fsanitize=fuzzer -I. -o $@ $< \
		$(shell sed -n 's/^ \* with: //p' $<) $(LIBS)

# One file at a time: clang-tidy 14 mistakes va_lists in the second and later ones. The
# adversaries are no subject for analysers: to misbehave is what they are for. cppcheck
# takes what it is not shown the use of (the kernel's structures are written out whole) and
# what the C library's headers declare for mistakes.
lint: build-packages lint-packages
	clang-format --dry-run -Werror $(ALL_SOURCES) $(HEADERS) \
		$(wildcard static/*.c bench/*.[ch] tests/*.c tests/*/*.c)
	@mkdir -p build/lint
	gcc $(STANDARD) $(WARN) $(HARDEN) $(CFLAGS) -fanalyzer $(LINK) -o build/lint/by-gcc \
		$(SOURCES) $(LIBS)
	gcc $(STANDARD) $(WARN) $(HARDEN) $(CFLAGS) -fanalyzer $(LINK) -o build/lint/ctl-by-gcc \
		$(CTL_SOURCES) $(CTL_LIBS)
	clang $(STANDARD) $(WARN) $(HARDEN) $(CFLAGS) $(LINK) -o build/lint/by-clang \
		$(SOURCES) $(LIBS)
	clang $(STANDARD) $(WARN) $(HARDEN) $(CFLAGS) $(LINK) -o build/lint/ctl-by-clang \
		$(CTL_SOURCES) $(CTL_LIBS)
	gcc $(STANDARD) $(WARN) $(CFLAGS) -fanalyzer -o build/lint/bench-by-gcc $(BENCH_SOURCES) -lm
	clang $(STANDARD) $(WARN) $(CFLAGS) -o build/lint/bench-by-clang $(BENCH_SOURCES) -lm
	printf '%s\n' $(ALL_SOURCES) $(BENCH_SOURCES) | xargs -n 1 -P 2 sh -c \
		'clang-tidy --quiet "$$1" -- $(STANDARD) 2>/dev/null' clang-tidy
	cppcheck --quiet --std=c11 --enable=warning,style,performance,portability \
		--error-exitcode=1 --inline-suppr --suppress=unusedStructMember $(ALL_SOURCES) \
		$(BENCH_SOURCES)
	shellcheck -x .ci/run lists.sh completions/treewrap.bash \
		$(wildcard *.sh tests/*.sh tests/*/*.sh models/*.sh)
	mandoc -T lint -W warning treewrap.1 treewrapctl.1

model:
	@sh packages.sh spin gcc libc6-dev
	@sh models/check.sh

build-packages:
	@sh packages.sh gcc libc6-dev make libcap-ng-dev libjansson-dev procps

test-packages:
	@sh packages.sh python3 python3-pytest python3-pytest-xdist python3-jsonschema \
		bash bash-completion util-linux procps tmux less mandoc strace mount \
		coreutils dumb-init tini
	@command -v node >/dev/null || sh packages.sh nodejs

e2e-packages: deb-packages static-packages
	@sh packages.sh curl golang-go rustc busybox-static podman runc crun docker.io \
		docker-compose python3-yaml zsh fish tini dumb-init catatonit bubblewrap

static-packages: build-packages
	@sh packages.sh musl-tools linux-libc-dev binutils debian-archive-keyring

cross-packages:
	@sh packages.sh gcc-aarch64-linux-gnu linux-libc-dev-arm64-cross gcc-riscv64-linux-gnu \
		linux-libc-dev-riscv64-cross

bench-packages:
	@sh packages.sh tini dumb-init catatonit bubblewrap coreutils util-linux gnuplot-nox

worlds-packages:
	@sh packages.sh busybox-static util-linux mount

lint-packages:
	@sh packages.sh clang llvm libclang-rt-dev clang-tidy clang-format cppcheck shellcheck \
		mandoc

deb-packages:
	@sh packages.sh debhelper dpkg-dev lintian

install: treewrap treewrapctl
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 treewrap treewrapctl $(DESTDIR)$(PREFIX)/bin
	@$(MAKE) -s install-data

# Shells look for a file by the name of the command: the second name is a link.
MANUALS = $(PREFIX)/share/man/man1
BASH_COMPLETIONS = $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS  = $(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS = $(PREFIX)/share/fish/vendor_completions.d
install-data:
	install -d $(DESTDIR)$(MANUALS) $(DESTDIR)$(BASH_COMPLETIONS) \
		$(DESTDIR)$(ZSH_COMPLETIONS) $(DESTDIR)$(FISH_COMPLETIONS)
	install -m 644 treewrap.1 treewrapctl.1 $(DESTDIR)$(MANUALS)
	install -m 644 completions/treewrap.bash $(DESTDIR)$(BASH_COMPLETIONS)/treewrap
	ln -sf treewrap $(DESTDIR)$(BASH_COMPLETIONS)/treewrapctl
	install -m 644 completions/treewrap.zsh $(DESTDIR)$(ZSH_COMPLETIONS)/_treewrap
	install -m 644 completions/treewrap.fish $(DESTDIR)$(FISH_COMPLETIONS)/treewrap.fish
	ln -sf treewrap.fish $(DESTDIR)$(FISH_COMPLETIONS)/treewrapctl.fish

VERSION = $(shell sed -n 's/^.define VERSION "\(.*\)"$$/\1/p' version.h)
MACHINE = $(shell uname -m)

# In a copy of the sources, so that nothing is left in the tree.
deb: build-packages deb-packages
	@packaged=$$(dpkg-parsechangelog -S Version) && [ "$$packaged" = $(VERSION) ] || { \
		echo "version.h says $(VERSION), debian/changelog $$packaged" >&2; exit 1; }
	@rm -rf build/deb && mkdir -p build/deb/treewrap-$(VERSION)
	@tar -c --exclude-vcs --exclude=./build . | tar -x -C build/deb/treewrap-$(VERSION)
	@cd build/deb/treewrap-$(VERSION) && $(MAKE) -s clean && \
		env -u MAKEFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc -b >../log 2>&1 || { cat ../log; exit 1; }
	lintian --fail-on error build/deb/treewrap_$(VERSION)_*.deb

# The same bytes each time, whoever makes it: times are those of the changelog. With the licenses
# of what is linked in.
DIST = treewrap-$(VERSION)-linux-$(MACHINE)
dist: static
	@rm -rf build/dist && mkdir -p build/dist
	@$(MAKE) -s install-data DESTDIR=$(CURDIR)/build/dist/$(DIST) PREFIX=
	@install -d build/dist/$(DIST)/bin
	@install -m 755 treewrap-static build/dist/$(DIST)/bin/treewrap
	@install -m 755 treewrapctl-static build/dist/$(DIST)/bin/treewrapctl
	@cp -R LICENSE README.md docs build/dist/$(DIST)
	@mkdir build/dist/$(DIST)/licenses && for package in musl-dev libcap-ng-dev libjansson-dev; do \
		cp /usr/share/doc/$$package/copyright build/dist/$(DIST)/licenses/$$package || exit 1; done
	@cd build/dist/$(DIST) && find . -type f | LC_ALL=C sort | xargs sha256sum >../SHA256SUMS && \
		mv ../SHA256SUMS .
	@cd build/dist && tar --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="$$(sed -n 's/^ -- .*>  //p' ../../debian/changelog | head -1)" \
		-c $(DIST) | gzip -n9 >$(DIST).tar.gz && sha256sum $(DIST).tar.gz >$(DIST).tar.gz.sha256
	@ls -l build/dist/*.tar.gz

# Not part of install: what they take the place of is other packages'.
NAMES = timeout dumb-init docker-init catatonit tini
install-names: install
	@test -n "$(DIR)" || { echo "make install-names DIR=: where?" >&2; exit 1; }
	install -d $(DESTDIR)$(DIR)
	@for name in $(NAMES); do \
		ln -sfn $(PREFIX)/bin/treewrap $(DESTDIR)$(DIR)/$$name || exit 1; \
	done

clean:
	rm -rf treewrap treewrapctl treewrap-static treewrapctl-static *.o *.d build tests/bin \
		compile_commands.json

.PHONY: all static demo check check-worlds check-kernels check-e2e chaos model lint sanitize \
	coverage fuzz adversaries examples install install-data install-names deb dist \
	clean build-packages test-packages e2e-packages static-packages deb-packages \
	worlds-packages lint-packages \
	bench bench-programs bench-packages
