# gaplessd: every command a newcomer needs. `make` alone lists them.
SWIFT ?= swift
PACKAGES_BUILD = libhiredis-dev libnghttp2-dev libssl-dev
PACKAGES_RUN = redis-server redis-tools openssl curl
PACKAGES_BENCH = nghttp2-client nghttp2-server
PACKAGES_GATE = valgrind
RELEASE = .build/release
# SwiftPM leaves empty folders where temporary files go: let that be in the checkout.
export TMPDIR = $(CURDIR)/.build/tmp

.DEFAULT_GOAL := help
.PHONY: help temporary packages build demo test test-tsan bench bench-gate fuzz chaos mutants clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

temporary:
	@mkdir -p $(TMPDIR)

packages: temporary ## Debian packages that build and tests need (apt-get, only what is missing)
	@scripts/install-packages $(PACKAGES_BUILD) $(PACKAGES_RUN) $(PACKAGES_BENCH)

build: packages ## The daemon and its tools, for use (in .build/release), free of the Swift runtime
	@$(SWIFT) build -c release --static-swift-stdlib

demo: build ## 10,000 jobs through a Redis, the daemon and an APNs simulator of its own
	@$(RELEASE)/gapless-lab demo

test: packages ## The whole test suite
	@$(SWIFT) build
	@$(SWIFT) test

test-tsan: packages ## The test suite under Thread Sanitizer
	@SWIFT_BACKTRACE=enable=no $(SWIFT) build --sanitize=thread --scratch-path .build-tsan
	@SWIFT_BACKTRACE=enable=no TSAN_OPTIONS=halt_on_error=0 $(SWIFT) test --sanitize=thread --scratch-path .build-tsan

bench: build ## CPU per push, pushes per second and latencies, beside h2load in the same run
	@$(RELEASE)/gapless-lab bench --delivery --fleet --million --latency --json .build/bench.json

bench-gate: build ## Instructions per push by callgrind, against the figure in the code
	@scripts/install-packages $(PACKAGES_GATE)
	@$(RELEASE)/gapless-lab bench-gate

fuzz: packages ## The JSON scanner against Python's parser on random texts (MINUTES=10)
	@scripts/fuzz $(or $(MINUTES),10)

chaos: build ## The fault table (SEED=… and FAULT=… replay a row, FAULT=everything or fleet MINUTES=60 goes on for an hour)
	@$(RELEASE)/gapless-lab chaos --markdown .build/chaos.md $(if $(SEED),--seed $(SEED)) $(if $(FAULT),--fault $(FAULT)) $(if $(MINUTES),--minutes $(MINUTES))

mutants: packages ## Breaks copies of the daemon in one place each, and shows which row of the fault table catches it
	@scripts/broken-builds $(MUTANT)

clean: ## Everything that was built
	@rm -rf .build .build-tsan
