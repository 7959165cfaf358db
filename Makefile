# Berth's commands. "make" alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.ONESHELL:

export PATH := $(PATH):/usr/local/go/bin

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The packages where goroutines meet are tested with the race detector.
RACE := /internal/(engine|chat|store|workspace|guest)(/|$$)
# But these of ./internal/store, which take too long with it, run without.
NORACE := ^TestNoListWalksALargeTable$$

# The packages without it that take minutes. They start first, so that none of them is left alone at the end.
SLOW := /internal/(app|httpapi|agent/(acp|claudecli|sandboxagent)|driver/local|testkit/fleet)$$

# The packages of make quick.
QUICK := ./api ./client ./internal/fault ./internal/sandbox ./internal/config ./internal/template ./internal/egress \
	./internal/auth ./internal/seal ./internal/outbox ./internal/telemetry ./internal/testkit/archtest ./internal/store

# How long a package's tests may take. Go's own 10 minutes are too few on a busy machine.
TIMEOUT := 45m

# The newest results of make test, for make requirements.
EVENTS := bin/test-events.json

.PHONY: help
help: ## list these commands
	@bold=; plain=
	if [ -t 1 ]; then bold=$$'\033[1m'; plain=$$'\033[0m'; fi
	echo "Berth: a control plane for AI-agent sandboxes"
	echo
	awk -v b="$$bold" -v p="$$plain" 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  %smake %-13s%s %s\n", b, $$1, p, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## install what is missing, build, and serve on 127.0.0.1:7070 (ARGS="--listen ...")
	@scripts/setup run
	$(MAKE) --no-print-directory build
	exec bin/berth serve $(ARGS)

.PHONY: build
build: console ## build bin/berth, static, with the console
	@make_it() { CGO_ENABLED=0 go build "$$@" -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/berth ./cmd/berth; }
	if make_it -n 2>&1 | grep /link >/dev/null; then echo "building bin/berth …"; fi
	make_it

# The console's files are embedded. Without npm a page in their place says how to build them.
.PHONY: console
console: ## build the console's pages into web/dist
	@if ! command -v npm >/dev/null; then
	  echo "the console is left out: npm is not installed"
	  exit 0
	fi
	if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || a == 22 && b >= 12 || a == 20 && b >= 19 ? 0 : 1)'; then
	  echo "the console is left out: it needs Node.js 20.19 or 22.12 or later, and this is $$(node --version)"
	  exit 0
	fi
	go run ./internal/testkit/cmd/openapi >web/openapi.new
	if cmp -s web/openapi.new web/openapi.json; then rm web/openapi.new; else mv web/openapi.new web/openapi.json; fi
	cd web
	if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
	  install() { npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier; }
	  install || { sleep 10; install; } || { echo "the console is left out: its packages could not be installed"; exit 0; }
	fi
	if [ ! -e dist/index.html ] || [ -n "$$(find openapi.json index.html package-lock.json *.mjs *.ts src public -newer dist/index.html -type f ! -name schema.d.ts)" ]; then
	  npm run --silent build
	fi

.PHONY: test
test: ready ## run everything: lint, all tests on real servers, three seeded bugs
	@$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory suite
	bin/tools/seeded -always

.PHONY: suite
suite: tools console
	@echo "== tests"
	all=$$(go list ./...)
	race=$$(grep -E '$(RACE)' <<<"$$all" || true)
	plain=$$(grep -vE '$(RACE)' <<<"$$all" || true)
	plain="$$(grep -E '$(SLOW)' <<<"$$plain") $$(grep -vE '$(SLOW)' <<<"$$plain")"
	bench=$$(go -C bench list ./...)
	{ # testreport judges the results; it fails if a package has none
	  CGO_ENABLED=1 go test -p 3 -json -count=1 -timeout $(TIMEOUT) -race $$race || true
	  go test -p 4 -json -count=1 -timeout $(TIMEOUT) $$plain || true
	  go -C bench test -json -count=1 -timeout $(TIMEOUT) ./... || true
	  go test -json -count=1 -timeout $(TIMEOUT) -run '$(NORACE)' ./internal/store || true
	} | bin/tools/testreport -packages "$$all $$bench" -save $(EVENTS) -again 5 -race '$(RACE)' -requirements docs/requirements.md -skips internal/testkit/allowed_skips.txt

.PHONY: lint
lint: tools ## gofmt, go mod tidy, vet, staticcheck, revive, the architecture tests
	@echo "== gofmt"
	unformatted=$$(gofmt -l .)
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	echo "== go mod tidy"
	for module in . bench; do
	  untidy=$$(go -C $$module mod tidy -diff 2>/dev/null) && continue
	  if [ -n "$$untidy" ]; then echo "run go -C $$module mod tidy:"; echo "$$untidy"; exit 1; fi
	  echo "not checked: modules that only this needs cannot be downloaded"
	done
	echo "== go vet"
	go vet ./...
	go -C bench vet ./...
	echo "== staticcheck"
	go tool -modfile=tools/go.mod staticcheck ./...
	(cd bench && go tool -modfile=../tools/go.mod staticcheck ./...)
	echo "== revive"
	go tool -modfile=tools/go.mod revive -config tools/revive.toml ./...
	echo "== architecture"
	go test ./internal/testkit/archtest
	bin/tools/seeded -check

.PHONY: quick
quick: ## half a minute: gofmt, vet, and the tests of packages that need no server (SQLite only)
	@unformatted=$$(gofmt -l .)
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go test -short -skip '/postgres$$|$(NORACE)' $(QUICK)

.PHONY: vuln
vuln: ## known vulnerabilities in what is used; needs the vulnerability database (GOVULNDB, or the internet)
	@go tool -modfile=tools/go.mod govulncheck $${GOVULNDB:+-db $$GOVULNDB} ./...

.PHONY: bench
bench: ## measure, one line per figure: name, ours, peer, ratio, n, load (ARGS="-only sandboxes")
	@scripts/setup bench
	$(MAKE) --no-print-directory build
	CGO_ENABLED=0 go build -buildvcs=false -o bin/tools/ ./internal/testkit/attack/cmd/attacker
	CGO_ENABLED=0 go -C bench build -buildvcs=false -o ../bin/tools/ .
	exec bin/tools/bench -berth bin/berth -attacker bin/tools/attacker $(ARGS)

.PHONY: torture
torture: ready tools ## the tests that take their size from the table, in its long column; those of the bench
	@scripts/setup bench
	go -C bench test -count=1 -tags docker ./...
	packages=$$(grep -rl --include=*_test.go 'testkit\.Size(' . | xargs -n1 dirname | sort -u)
	BERTH_TORTURE=1 go test -json -count=1 -timeout 4h $$packages | bin/tools/testreport -skips internal/testkit/allowed_skips.txt

.PHONY: seeded
seeded: ready tools ## build every seeded bug and check that its test notices
	@bin/tools/seeded -sound

.PHONY: cover
cover: ready tools ## all tests with coverage; a package below 90 % fails
	@go test -json -count=1 -timeout $(TIMEOUT) -cover $$(go list ./...) | bin/tools/testreport -min-coverage 90

.PHONY: requirements
requirements: tools ## write the tests column of docs/requirements.md from the newest make test
	@[ -f $(EVENTS) ] || { echo "there are no results: run make test first"; exit 1; }
	bin/tools/testreport -requirements docs/requirements.md -update $(EVENTS)

.PHONY: generate
generate: ## write the files that tests compare anew: the reference page, the help texts
	@BERTH_UPDATE_GOLDEN=1 go test -count=1 ./internal/config ./internal/cli

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin web/node_modules web/dist/assets web/dist/index.html

.PHONY: ready
ready:
	@scripts/setup test

.PHONY: tools
tools:
	@go build -buildvcs=false -o bin/tools/ ./internal/testkit/cmd/...
