# Included by the Makefile. bench/README.md says how to read what these print.

BENCH       ?= .
BENCH_COUNT ?= 10
BENCH_TIME  ?= 300ms
BENCH_SLACK ?= 1

.PHONY: bench
bench: ## Benchmarks as a table; BENCH=Match chooses, BENCH_COUNT and BENCH_TIME how long
	@mkdir -p build
	@go test -run '^$$' -bench '$(BENCH)' -count $(BENCH_COUNT) -benchtime $(BENCH_TIME) \
		-timeout 2h ./bench | tee build/bench.txt
	@echo
	@go run ./bench/check -table build/bench.txt

# What is quick to set up runs once a round, so that a noisy minute falls on a row and
# its base alike; the rest counts within one process, where its gigabytes are set up
# once.
.PHONY: bench-check
bench-check: ## Benchmarks against their budgets; fails on a miss
	@mkdir -p build
	@go test -c -o build/bench.test ./bench
	@pattern=$$(go run ./bench/check -pattern) || exit 1; \
	run() { \
		size=$$1; shift; \
		BENCH_SIZE=$$size build/bench.test -test.run '^$$' -test.bench "$$pattern" \
			-test.benchtime $(BENCH_TIME) -test.timeout 1h "$$@" >>build/bench-check.txt; \
	}; \
	: >build/bench-check.txt; \
	for round in $$(seq $(BENCH_COUNT)); do \
		echo "round $$round of $(BENCH_COUNT)" >&2; \
		run small || { tail -n 20 build/bench-check.txt; exit 1; }; \
	done; \
	echo 'large indexes' >&2; \
	run large -test.count $(BENCH_COUNT) || { tail -n 20 build/bench-check.txt; exit 1; }
	@go run ./bench/check -count $(BENCH_COUNT) -slack $(BENCH_SLACK) build/bench-check.txt

.PHONY: bench-rivals
bench-rivals: ## What one would otherwise use, on the same harness, as a table
	@mkdir -p build
	@go test -run '^$$' -bench '$(BENCH)' -count $(BENCH_COUNT) -benchtime $(BENCH_TIME) \
		-timeout 2h ./bench/rivals | tee build/bench-rivals.txt
	@echo
	@go run ./bench/check -table build/bench-rivals.txt

REPORT_FLAGS ?=

.PHONY: report
report: ## Simulate a fleet with all policies: build/report/report.html and .md
	@mkdir -p build
	@go build -o build/fleet ./bench/fleet
	build/fleet -seeds 10 -report build/report $(REPORT_FLAGS)
	@echo build/report/report.html
