# What developers and CI run. `make check test` is what must pass.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# TAGGED needs the failpoints; RACE= and PKG=./x/... narrow a run.
# SQLite is C translated to Go: the race detector has nothing to find in it, and
# makes it four times as slow. What calls it is watched.
RACE   ?= -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
PKG    ?= ./...

# A program with the race detector in it sleeps a second before it exits unless
# told otherwise, and the tests run hundreds of programs.
export GORACE ?= atexit_sleep_ms=0

TAGGED := $(wildcard internal/fault e2e)
FAULTS := -tags daybook_faults

.PHONY: release-check help test test-run check fmt vet tidy staticcheck arch generate models mutations mutations-quick simulation torture bench images fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## all tests with the race detector, on one PostgreSQL server for the whole run
	go run ./internal/testenv/cmd/withpostgres -- $(MAKE) --no-print-directory test-run

test-run: # with DAYBOOK_TEST_POSTGRES_URL set, or a server for each package that wants one
	@{ failed=0; \
	  go test $(RACE) -shuffle=on -timeout 20m -json $(PKG) || failed=1; \
	  if [ "$(PKG)" = ./... ]; then \
	    go test $(RACE) -shuffle=on -timeout 30m -json $(FAULTS) $(TAGGED:%=./%/...) || failed=1; \
	  fi; \
	  exit $$failed; } | go run ./internal/testenv/cmd/testsummary

check: fmt vet tidy staticcheck arch generate ## everything but the tests

fmt: ## gofumpt has nothing to say
	@unformatted=$$(go tool gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run go tool gofumpt -w:"; echo "$$unformatted"; exit 1; fi

vet: ## go vet, with and without failpoints, and of what runs against real endpoints
	go vet ./...
	go vet -tags live ./model/...
	go vet $(FAULTS) $(TAGGED:%=./%/...)

tidy: ## go.mod and go.sum are what go mod tidy would make
	go mod tidy -diff

staticcheck: ## staticcheck, with and without failpoints
	go tool staticcheck ./...
	go tool staticcheck $(FAULTS) $(TAGGED:%=./%/...)

arch: ## the rules of internal/arch
	go test ./internal/arch

generate: ## go generate changes nothing
	@before=$$(git diff | sha256sum); go generate ./...; \
	if [ "$$before" != "$$(git diff | sha256sum)" ]; then git --no-pager diff --stat; echo "generated files were not up to date; commit them"; exit 1; fi

models: ## the protocol and its wrong designs in Spin: each comes out as it must (models/check.sh)
	models/check.sh

MUTATIONS ?= # flags, such as -bugs early_probe,no_fence or -all
mutations: ## every seeded bug of internal/bug is found by the tests that must find it
	go run ./internal/bug/cmd/mutations $(MUTATIONS)

mutations-quick: ## eight of them, each against its quickest layer; in CI
	go run ./internal/bug/cmd/mutations -quick

SIM ?= -seeds 400 # flags; -seeds 1 -seed N repeats one
simulation: ## whole systems in virtual time, a seed each (SIM='-seeds 2000'); in CI
	go test -count=1 -timeout 2h -run '^TestSimulation$$' ./runtime/simulation $(SIM)

failpoints: ## every action at every failpoint, every seed of the chaos: an hour or more
	DAYBOOK_E2E_ALL=1 go test $(FAULTS) -timeout 4h -v -run '^TestFailpoint(Actions|Errands)$$' ./e2e
	DAYBOOK_E2E_ALL=1 go test -timeout 1h -v -run '^TestChaosOfTheLedger$$' ./runtime

PROPERTIES ?= 2500 # sequences for each kind of recovery and for claims; 10,000 of effects
properties: ## random operations on effects, claims and barriers beside their models: 10,000 sequences of 50, on both databases
	go test -count=1 -timeout 6h -v -run '^TestLedger$$/^(effects|runs_against_a_model)$$/^property$$' ./ledger/sqlite ./ledger/postgres -rapid.checks=$(strip $(PROPERTIES)) -rapid.steps=50

refunds: ## 209 refunds, each with a crash between effect and record (microsoft/agent-framework#3938)
	go test -count=1 -v -run '^TestRefundsOverACrash$$' ./runtime

FUZZ     ?= . # the folder, such as ./tools/extract
FUZZTIME ?= 60s
# The engine makes each new input smaller for up to a minute by itself, during which it
# tries no others: for documents of a few KiB that was the whole time.
fuzz: ## every fuzz target for a minute, one at a time (FUZZ=./tools/extract FUZZTIME=10m)
	@grep -rn --include='*_test.go' --exclude-dir=arch -o '^func Fuzz[A-Za-z0-9]*' $(strip $(FUZZ)) | \
	sed -E 's|^(.*)/[^/]*:[0-9]+:func (.*)|\1 \2|' | sort | while read -r dir target; do \
	  echo "== $$dir $$target"; \
	  if out=$$(nice -n 5 go test ./$$dir -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x 2>&1 </dev/null); \
	  then echo "$$out" | grep '^fuzz:' | tail -1; else echo "$$out"; exit 1; fi; \
	done

BENCH ?= # flags, such as -parts=calls,effects -time=20s -o json
bench: ## ratios to raw publishes and commits (docs/performance.md), on a PostgreSQL server whose data is on disk
	go run ./internal/testenv/cmd/withpostgres -disk -- go run ./bench $(BENCH)

PLATFORMS ?= linux/amd64 # GOOS/GOARCH, several with spaces between
release-check: check test ## check, tests, and every program for the platforms that we name; publishes nothing
	@for p in $(PLATFORMS); do \
	  for c in runner ledgerctl; do \
	    echo "== $$c for $$p"; \
	    GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -trimpath -o /dev/null ./cmd/$$c; \
	  done; \
	done

images: ## the container image of docker-compose.yml
	docker compose build

TORTURE ?= --for 5m
torture: ## faults for 5 minutes on a system of its own (TORTURE='--for 30m --seed 1'); see docs/guarantees.md
	go run ./cmd/runner torture $(TORTURE)
