#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_cpp_tests.sh BUILD_DIR: build and run the C++ unit tests with sanitizers.
# Without doctest they are skipped with one line, or fail where CI=true.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

if ! include=$(tools/fetch_doctest.sh); then
  echo "C++ tests skipped: doctest/doctest.h is missing and apt-get could not fetch doctest-dev" >&2
  [[ ${CI:-} != true ]]
  exit
fi

tools/quietly.sh cmake -S tvm -B "$build" -G Ninja -DCOLLAGE_BUILD_TESTS=ON -DCOLLAGE_SANITIZE=ON \
  -DCOLLAGE_DOCTEST_INCLUDE_DIR="$include"
cmake --build "$build" --target collage_cpp_tests
"$build/collage_cpp_tests"
