# SPDX-License-Identifier: Apache-2.0
# One command per job: build, test, test-all, fuzz, demo, bench, wheel, docs, lint, clean. Each is quick when
# nothing changed.
# PYTHON, CXX and VENV can be set: `make build PYTHON=/opt/python3.11/bin/python3.11`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

PYTHON ?= $(shell tools/find_python.sh)
VENV ?= .venv
ZOO_VENV ?= .venv-zoo
BIN := $(VENV)/bin
STAMPS := $(VENV)/.tvm-collage
BUILD := build/editable
SANITIZED := build/sanitized
LOCKS := $(addprefix requirements,.txt -demo.txt -dev.txt -docs.txt -bench.txt -mkl.txt -pdf.txt -peers.txt -precision.txt -xnnpack.txt)
PIP := -m pip install --disable-pip-version-check --quiet --no-deps
LOCKED := --only-binary :all: --require-hashes
# More arguments for pytest, the demo or the benchmark: make test-python ARGS="-k hook -x".
ARGS ?=
# Processes that run tests, whole files each, since a file's tests share its builds. 0 for a debugger.
# One that dies is not replaced: pytest-xdist would wait for ever (its issue 1378).
WORKERS ?= 2
# Where `make wheel` writes.
DIST ?= dist
BENCHES ?= bench/zoo.py --depth minutes --models mobilenetv2,dcgan,resnet50
ifneq ($(origin CXX),default)
export CXX
endif

.PHONY: build test test-all test-python test-cpp test-sanitized test-torch fuzz test-upstream demo demo-autotune demo-performance demo-customization demo-precision notebooks bench wheel zoo-environment docs lint clean lock

# Printed after a build that was asked for by name, as a plain `make` does.
NEXT = Next: `make demo`, or `source $(BIN)/activate` and `collage --help`.

build: $(STAMPS)/installed
	@$(BIN)/cmake --build $(BUILD) | { grep -v -e 'no work to do' -e 'Re-checking globbed' || true; }
	@$(BIN)/cmake --install $(BUILD) --prefix "$$($(BIN)/python -c \
	  'import sysconfig; print(sysconfig.get_path("platlib"))')" | { grep Installing || true; }
	@$(if $(filter build,$(or $(MAKECMDGOALS),build)),echo '$(NEXT)')

$(STAMPS)/venv:
	@tools/check_host.sh "$(PYTHON)" "$(CXX)"
	@echo "Creating $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# The lock files list everything, so nothing has to be resolved: --no-deps. Which they are stands here.
$(STAMPS)/requirements: $(STAMPS)/venv $(LOCKS) requirements-models.txt Makefile
	@echo "Installing requirements into $(VENV)"
	@tools/quietly.sh $(BIN)/python $(PIP) $(LOCKED) $(addprefix -r ,$(LOCKS)) -r requirements-models.txt
	@touch $@

# Also due when somebody has uninstalled the tree.
ifeq ($(wildcard $(VENV)/lib/python3.11/site-packages/tvm_collage-*.dist-info),)
.PHONY: $(STAMPS)/installed
endif
$(STAMPS)/installed: $(STAMPS)/requirements pyproject.toml tvm/CMakeLists.txt \
                     $(wildcard tvm/cmake/* tvm/python/tvm_collage/* tvm/python/*.p*)
	@tools/check_host.sh "$(BIN)/python" "$(CXX)"
	@echo "Building the libraries (about two minutes on two cores) and installing the tree (editable)"
	@PATH="$(abspath $(BIN)):$$PATH" tools/quietly.sh $(BIN)/python $(PIP) --no-build-isolation --editable .
	@touch $@

test: test-cpp test-python

# With the slow tests as well: docs/testing.md lists them.
test-all: SELECTED =
test-all: test-sanitized test-python

SELECTED = -m "not slow"
test-python: build
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
		$(SELECTED) $(ARGS)

test-cpp: build
	@PATH="$(abspath $(BIN)):$$PATH" tools/run_cpp_tests.sh $(BUILD)

# The C++ tests, tests of damaged files and of the adapter, on what is built once more with sanitizers.
test-sanitized: build
	@PATH="$(abspath $(BIN)):$$PATH" tools/run_cpp_tests.sh $(SANITIZED) -DCOLLAGE_SANITIZE=ON
	@PATH="$(abspath $(BIN)):$$PATH" tools/run_sanitized.sh $(SANITIZED) $(WORKERS)

# What needs torch, which is large: with the packages of the zoo's environment.
test-torch: build
	@test -d $(ZOO_VENV) || { echo "make zoo-environment first"; exit 2; }
	PYTHONPATH="$(abspath $(ZOO_VENV))/lib/python3.11/site-packages" $(BIN)/python -m pytest -k torch $(ARGS)

# For hours: make fuzz ARGS="--seeds 300: --minutes 480".
fuzz: build
	@cd tvm/tests/python/support && $(abspath $(BIN))/python -m fuzz $(ARGS)

# TVM's own tests of tvmc, of its Collage and of its oneDNN backend: make test-upstream TVM=<checkout
# of TVM v0.19.0>. The last take the longest by far; ARGS="-k 'not dnnl'" leaves them out.
test-upstream: build
	@test -d "$(TVM)/tests/python" || { echo "make test-upstream TVM=<checkout of TVM v0.19.0>"; exit 2; }
	COLLAGE_TVM_TESTS="$(abspath $(TVM))" $(BIN)/python -m pytest tvm/tests/python/upstream $(ARGS)

demo: build
	@$(BIN)/python demos/demo.py $(ARGS)

# One backend more at a time; a backend of one's own; fewer bits. Pictures go to build/demo.
demo-performance demo-customization demo-precision: build
	@$(BIN)/python demos/$(@:demo-%=%).py

# These demos as notebooks, run: the scripts are their source.
notebooks: build
	@mkdir -p build/notebooks
	@for name in performance customization precision autotune; do \
	  $(BIN)/jupytext --quiet --to ipynb --output build/notebooks/$$name.ipynb demos/$$name.py; \
	  PYTHONPATH="$(abspath demos)" $(BIN)/jupyter-execute --inplace build/notebooks/$$name.ipynb; \
	done

# One net untuned, with schedules of other nets, tuned for two minutes.
demo-autotune: build
	@$(BIN)/python demos/demo_autotune.py $(ARGS)

bench: build
	@$(BIN)/python $(BENCHES) $(ARGS)

# What exports the nets of bench/zoo.py: torch for CPUs, from an index that PIP_EXTRA_INDEX_URL names.
zoo-environment:
	@"$(PYTHON)" -m venv $(ZOO_VENV)
	@tools/quietly.sh $(ZOO_VENV)/bin/python $(PIP) $(LOCKED) -r requirements-zoo.txt

# A wheel of the libraries as they are built, for machines without a compiler (docs/install.md).
wheel: build
	@PATH="$(abspath $(BIN)):$$PATH" tools/make_wheel.sh $(BUILD) $(DIST)

# The pages of docs/ as a site; any warning fails. `make lint` does the same.
docs: build
	@PATH="$(abspath $(BIN)):$$PATH" tools/make_docs.sh build/site
	@echo "build/site/index.html"

lint: build
	@PATH="$(abspath $(BIN)):$$PATH" tools/lint.sh build/lint

# Write the lock files again after changing a version in pyproject.toml or a .in file.
lock:
	@PATH="$(abspath $(BIN)):$$PATH" tools/lock_requirements.sh

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
	rm -f $(STAMPS)/installed
