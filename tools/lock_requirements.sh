#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write requirements*.txt (exact versions, sha256 of every file) from pyproject.toml and the .in
# files. Run it in the environment that `make build` made, after changing a version there.
set -euo pipefail
cd "$(dirname "$0")/.."

lock() {
  local output=$1
  shift
  uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
    --generate-hashes --no-emit-index-url --no-emit-find-links --only-binary :all: \
    --no-header --output-file "$output" "$@"
}

lock requirements.txt pyproject.toml requirements-build.in
lock requirements-demo.txt requirements-demo.in --constraint requirements.txt
lock requirements-models.txt requirements-models.in --no-deps
lock requirements-xnnpack.txt requirements-xnnpack.in --no-deps
lock requirements-bench.txt pyproject.toml --extra bench --constraint requirements-demo.txt \
  --constraint requirements.txt
lock requirements-dev.txt pyproject.toml --extra dev --constraint requirements.txt
lock requirements-docs.txt pyproject.toml --extra docs --constraint requirements-dev.txt \
  --constraint requirements-demo.txt --constraint requirements.txt
lock requirements-tune.txt pyproject.toml --extra tune --constraint requirements-dev.txt \
  --constraint requirements.txt
lock requirements-mkl.txt pyproject.toml --extra mkl --constraint requirements.txt
lock requirements-pdf.txt pyproject.toml --extra pdf --constraint requirements-dev.txt \
  --constraint requirements-demo.txt --constraint requirements.txt
lock requirements-precision.txt pyproject.toml --extra precision \
  --constraint requirements-dev.txt --constraint requirements-demo.txt --constraint requirements.txt
lock requirements-peers.txt pyproject.toml --extra peers --constraint requirements-dev.txt \
  --constraint requirements-demo.txt --constraint requirements.txt
# torch for CPUs is not on PyPI: UV_EXTRA_INDEX_URL or UV_FIND_LINKS says where it is.
lock requirements-zoo.txt requirements-zoo.in --constraint requirements-dev.txt \
  --constraint requirements-demo.txt --constraint requirements.txt
