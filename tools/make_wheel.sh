#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_wheel.sh LIBRARIES FOLDER: write a wheel around the compiled libraries in LIBRARIES to FOLDER.
# Its tag, manylinux_2_x, names the oldest glibc that has all symbols which these libraries need, as
# auditwheel finds it. Runs in the environment that `make build` made. Test: tools/test_install.py.
set -euo pipefail
libraries=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tools/quietly.sh python -m pip wheel --disable-pip-version-check --quiet --no-build-isolation \
  --no-deps --wheel-dir "$scratch" --config-settings "cmake.define.COLLAGE_PREBUILT_DIR=$libraries" \
  --config-settings "build-dir=$scratch/build" .
# TVM and oneDNN come as packages, and no library of ours names theirs. Of OpenMP there can be only
# one copy in a process, so that the system's is not copied into the wheel (docs/thread_pool.md).
tools/quietly.sh auditwheel repair --exclude libgomp.so.1 --wheel-dir "$scratch/tagged" "$scratch"/*.whl
for wheel in "$scratch"/tagged/*.whl; do
  mv "$wheel" "$folder"
  echo "$folder/${wheel##*/}"
done
