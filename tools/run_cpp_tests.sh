#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_cpp_tests.sh BUILD_DIR [CMAKE_OPTION...]: build and run the C++ unit tests, on all cores.
# Without doctest they are skipped with one line, or fail where CI=true.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

if ! include=$(tools/fetch_doctest.sh); then
  echo "C++ tests skipped: doctest/doctest.h is missing and apt-get could not fetch doctest-dev" >&2
  [[ ${CI:-} != true ]]
  exit
fi

tools/quietly.sh cmake -S tvm -B "$build" -G Ninja -DCOLLAGE_BUILD_TESTS=ON \
  -DCOLLAGE_DOCTEST_INCLUDE_DIR="$include" "${@:2}"
cmake --build "$build" --target collage_cpp_tests

# In an order of chance, so that each process gets its share of what takes long.
program=$build/collage_cpp_tests
cases=$("$program" --count --no-version | grep -oE '[0-9]+' | tail -1)
seq 0 $(($(nproc) - 1)) | xargs -P "$(nproc)" -I{} bash -c 'exec "$0" --no-version --order-by=rand \
  --rand-seed=1 --first=$(({} * $1 / $2 + 1)) --last=$((({} + 1) * $1 / $2))' "$program" "$cases" "$(nproc)"
