# The front door. `make help` lists what can be done; docs/layout.md says where things are.
# Everything is built under build/, Python packages live in .venv, reports in report/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.ONESHELL:
# The programs started here use all cores; two targets at once would only build the same twice.
.NOTPARALLEL:

# Variables to set on the command line, as in `make install PREFIX=$HOME/.local`.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
BENCH_ARGS ?=
DEMO_ARGS ?=
# What `make chat` asks; empty: a conversation in the terminal.
PROMPT ?=
CHAT_ARGS ?=

# The Python that draws the demo's figures.
export MPFA_PYTHON ?= $(CURDIR)/.venv/bin/python
export PROMPT

say = printf '\n== %s\n' '$(1)'
build_all = cmake --build build/$(1) -j $(JOBS)
run_tests = ctest --preset $(1) -j $(JOBS)

.PHONY: help build demo test python chat simrun interop bench format lint fuzz asan tsan clean install build-tests \
  setup-demo setup-test setup-dev

help:  ## List the targets
	@printf 'make [TARGET] [VARIABLE=VALUE ...]\n\nTargets:\n'
	awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-10s %s\n", $$1, $$2 }' '$(firstword $(MAKEFILE_LIST))'
	printf '\nVariables: JOBS=%s PREFIX=%s FUZZ_SECONDS=%s BENCH_ARGS= DEMO_ARGS= PROMPT= CHAT_ARGS=\n' \
	  '$(JOBS)' '$(PREFIX)' '$(FUZZ_SECONDS)'

setup-demo setup-test setup-dev:
	@scripts/setup.sh $(@:setup-%=%)

build: setup-demo  ## Build the mpfa command into build/bin/mpfa (the default)
	@$(call say,Building the mpfa command: build/bin/mpfa)
	[[ -f build/release/build.ninja ]] || scripts/configure.sh demo build/release
	$(call build_all,release) --target mpfa_cli

demo: build  ## Run the demo on real activations: a table here, figures in report/demo.html
	@$(call say,Running the demo: build/bin/mpfa demo)
	build/bin/mpfa demo $(DEMO_ARGS)

build-tests: setup-test
	@$(call say,Building everything: build/release)
	scripts/configure.sh release build/release
	$(call build_all,release)

test: lint  ## Build everything, lint it and run all tests
	@$(call say,Running the tests of build/release)
	$(call run_tests,release)
	$(call say,Testing the Python package: build/python)
	scripts/test_python.sh

python: setup-test  ## Build the Python package's wheel (build/python/dist) and run its tests
	@$(call say,Testing the Python package: build/python)
	scripts/test_python.sh

chat: setup-demo  ## Let a real model answer from the low-bit cache: make chat PROMPT='...', or a conversation
	@$(call say,Installing the Python package and a model: build/python)
	scripts/python_package.sh model
	$(call say,SmolLM2-135M-Instruct on a cache with K in NVFP4 and V in FP8)
	cd build/python && venv/bin/python -m mpfa.demo $(CHAT_ARGS) $(if $(PROMPT),"$$PROMPT")

simrun: setup-test  ## Build the GPU simulator: build/release/bin/simrun runs CUDA programs without a GPU
	@$(call say,Building the simulator: build/release/bin/simrun)
	[[ -f build/release/bin/simrun ]] || scripts/configure.sh release build/release
	$(call build_all,release) --target simulator

# Compiling them takes hours of nvcc, once.
interop: build-tests  ## Run other people's CUDA programs (CUB, all of CUTLASS's examples) in the simulator
	@$(call say,Compiling CUDA programs of tests/interop)
	$(call build_all,release) --target interop_programs
	$(call say,Running them in the simulator)
	ctest --preset interop -j $(JOBS)

lint: build-tests  ## Check formatting, clang-tidy, ruff and shellcheck (builds first)
	@$(call say,Linting)
	scripts/lint.sh --jobs $(JOBS)

format: setup-test  ## Format all C++ and Python files in place
	@$(call say,Formatting C++ and Python files)
	scripts/lint.sh --format

asan: setup-test  ## Run all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call say,Building for AddressSanitizer and UndefinedBehaviorSanitizer: build/asan)
	scripts/configure.sh asan build/asan
	$(call build_all,asan)
	$(call say,Running the tests of build/asan)
	$(call run_tests,asan)

tsan: setup-test  ## Run all tests under ThreadSanitizer
	@$(call say,Building for ThreadSanitizer: build/tsan)
	scripts/configure.sh tsan build/tsan
	$(call build_all,tsan)
	$(call say,Running the tests of build/tsan)
	$(call run_tests,tsan)

fuzz: build-tests  ## Fuzz for FUZZ_SECONDS a target: differential tests, then libFuzzer programs
	@$(call say,Building the libFuzzer programs: build/fuzz)
	scripts/configure.sh fuzz build/fuzz
	$(call build_all,fuzz) --target tests/fuzz/all
	scripts/fuzz.sh $(FUZZ_SECONDS)

bench: build-tests  ## Run the benchmarks of bench/ (BENCH_ARGS goes to each)
	@$(call say,Running the benchmarks of build/release/bench)
	scripts/bench.sh $(BENCH_ARGS)

install: build  ## Install the library, its headers and the mpfa command under PREFIX
	@$(call say,Installing under $(PREFIX))
	$(call build_all,release) --target mpfa mpfa_cli
	cmake --install build/release --prefix '$(PREFIX)'

clean:  ## Remove build/ and report/ (the Python environment .venv stays)
	@$(call say,Removing build/ and report/)
	rm -rf build report
