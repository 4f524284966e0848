# `make help` lists what there is. Nothing needs to be set up before: what a
# target needs is built or installed, pinned, into a cache outside the tree.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/dynk8s

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(CACHE)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint

# The run folder of `make up`, `down` and `status`; another one is another stack.
DIR ?= $(CURDIR)/.cache/stack

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v "$$(go env CC)"),-race)
ifeq ($(RACE),)
$(warning no C compiler: the tests run without the race detector)
endif

# Runs `go test` with the given arguments in the given folder and fails also
# when a test was skipped. Shows failures, skips and Go's line for each package.
define gotest
	@mkdir -p .cache
	@log=$(CURDIR)/.cache/$@.log; \
	cd $(1) && go test $(RACE) -v $(2) 2>&1 | tee "$$log" \
	  | awk '!/^(=== |PASS$$| *--- PASS)|\[no test files\]$$/ { print; fflush() }'; \
	if grep -E '^ *--- SKIP' "$$log"; then echo 'FAIL: a test was skipped'; exit 1; fi
endef

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build bin/dynk8s-provisioner.
	CGO_ENABLED=0 go build -trimpath -o bin/dynk8s-provisioner ./cmd/dynk8s-provisioner

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# Tags of images have no + and no /.
IMAGE ?= dynk8s-provisioner:$(or $(subst +,-,$(subst /,-,$(VERSION))),dev)
# docker, podman or buildah: what builds the image.
IMAGE_BUILDER ?= $(shell if docker info >/dev/null 2>&1; then echo docker; \
  elif command -v podman >/dev/null; then echo podman; elif command -v buildah >/dev/null; then echo buildah; fi)
BUILD_docker := docker build
BUILD_podman := podman build
BUILD_buildah := buildah bud --isolation chroot

# Keeps a version that the shell or the linker would take apart out of both.
image release: export GIVEN_VERSION = $(VERSION)
define checkversion
	@case "$$GIVEN_VERSION" in *[!A-Za-z0-9._+/-]*) \
	  echo 'VERSION may have letters, digits and . _ + / - only: write another' >&2; exit 1;; esac
endef

.PHONY: image
image: ## Build the image IMAGE, by docker, podman or buildah, whichever is there.
	$(if $(IMAGE_BUILDER),,$(error no docker daemon, podman or buildah is here: install one (Debian: apt-get install buildah)))
	$(checkversion)
	$(BUILD_$(IMAGE_BUILDER)) --build-arg VERSION='$(VERSION)' $(IMAGE_FLAGS) -t '$(IMAGE)' .

# Where `make release` puts its files.
DIST ?= dist

.PHONY: release
release: ## Build DIST: the program for linux amd64 and arm64, an SBOM of each, checksums.
	$(checkversion)
	@rm -rf '$(DIST)' && mkdir -p '$(DIST)'
	@for arch in amd64 arm64; do \
	  out='$(DIST)'/dynk8s-provisioner-linux-$$arch; \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X main.version=$(VERSION)' \
	    -o "$$out" ./cmd/dynk8s-provisioner; \
	  $(SBOM) bin -json -noserial -version '$(VERSION)' -output "$$out.cdx.json" "$$out"; \
	done
	@cd '$(DIST)' && sha256sum * > SHA256SUMS && cat SHA256SUMS

# Lists the modules in a Go program, CycloneDX.
SBOM := GOFLAGS= go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: demo
demo: linux ## Show the main job on real parts (the first run builds them, up to 20 min); DEMO=boot: the first boot.
	@cd test && go run ./cmd/demo

.PHONY: up
up: linux ## Start the local stack; its settings go to .cache/stack.env.
	@cd test && go run ./cmd/stack up --dir '$(DIR)'

.PHONY: down
down: linux ## Stop the local stack.
	@cd test && go run ./cmd/stack down --dir '$(DIR)'

.PHONY: status
status: linux ## Show the local stack's programs.
	@cd test && go run ./cmd/stack status --dir '$(DIR)'

.PHONY: test
test: test-unit test-system ## Run all tests.

.PHONY: test-unit
test-unit: ## Run the tests that need no real parts.
	@go vet ./...
	$(call gotest,.,./...)
	$(call gotest,test,./parts/... ./property/... ./cmd/...)

.PHONY: test-system
test-system: parts ## Run the tests on real parts.
	@cd test && go vet ./...
	$(call gotest,test,-count=1 -timeout=45m ./...)

.PHONY: chart-test
chart-test: linux parts ## Run the chart's tests and show what breaks without which right.
	@cd test && go test $(RACE) -count=1 -v -timeout=30m ./chart ./system -run 'TestLint|TestGolden|TestRefusals|TestNames|TestDashboards|TestRendered|TestReadme|TestHelm3|TestServer|TestChart' 2>&1 \
	  | grep -vE '^(=== |PASS$$| *--- PASS: TestGolden/)'; exit $${PIPESTATUS[0]}

.PHONY: image-test
image-test: linux ## Build the release and the image, and look into both.
	@cd test && go test -count=1 -v -timeout=30m ./image

.PHONY: aws-test
aws-test: linux parts ## Test the AWS side and the first boot, and show what was covered.
	@cd test && go test $(RACE) -count=1 -v -timeout=30m ./terraform ./userdata ./boot 2>&1 \
	  | grep -vE '^(=== |PASS$$)'; exit $${PIPESTATUS[0]}

.PHONY: parts
parts: linux ## Build the real parts, if the cache does not hold them.
	@cd test && go run ./cmd/parts

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters on both modules.
	@$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	@cd test && $(GOLANGCI_LINT) run --allow-parallel-runners --config ../.golangci.yml ./...

$(GOLANGCI_LINT):
	@echo 'building golangci-lint $(GOLANGCI_LINT_VERSION) once for this machine, about 5 min on two cores'
	@mkdir -p $(@D)
	@GOBIN=$(@D) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

.PHONY: clean
clean: ## Stop the local stack and remove what was built in the tree.
	@if [ -e '$(DIR)' ]; then $(MAKE) down; fi
	rm -rf bin .cache

.PHONY: linux
linux:
	@[ "$$(uname -s)" = Linux ] || { echo 'The local stack needs Linux: use a Linux machine, virtual machine or container.' >&2; exit 1; }
