#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_sanitized.sh BUILD_DIR WORKERS: with sanitizers in our libraries, run tests of damaged files, and
# those that work the adapter: partitioning, rules, views and placements.
# `python` and `cmake` are the environment's. WORKERS: processes that run tests.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

tools/quietly.sh cmake -S tvm -B "$build" -G Ninja -DCOLLAGE_SANITIZE=ON
cmake --build "$build" --target tvm_collage_pool tvm_collage_runtime tvm_collage

# Python has no sanitizer, so that theirs is loaded first. libstdc++ comes before it: its `new` throws
# where there is no memory, which is an answer to damaged sizes, and the sanitizer's ends the process.
compiler=${CXX:-g++}
LD_PRELOAD="$($compiler -print-file-name=libstdc++.so.6) $($compiler -print-file-name=libasan.so)"
# A process that ends by a report may be one that a test does without, so that reports are kept.
reports=$PWD/$build/reports
rm -rf "$reports"
mkdir "$reports"
options=(verify_asan_link_order=0 allocator_may_return_null=1 max_allocation_size_mb=4096)
options+=(alloc_dealloc_mismatch=0 detect_leaks=0) # Python and TVM keep much to a process's end
options+=("log_path=$reports/address")
ASAN_OPTIONS=$(IFS=:; echo "${options[*]}")
UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/undefined
export LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS TVM_COLLAGE_LIBRARY_PATH=$PWD/$build

tests=(
  tvm/tests/python/runtime/test_partition_checks.py
  tvm/tests/python/runtime/test_damaged_libraries.py
  tvm/tests/python/collage/api
  tvm/tests/python/collage/inspect
  tvm/tests/python/collage/match
  tvm/tests/python/collage/plan
  tvm/tests/python/collage/relay
  tvm/tests/python/collage/rules
  tvm/tests/python/collage/search
  tvm/tests/python/collage/views
  tvm/tests/python/collage/estimators/test_estimator.py
  tvm/tests/python/collage/files/test_records.py
  tvm/tests/python/collage/plans/test_greedy.py
  tvm/tests/python/collage/plans/placement/test_file.py
  tvm/tests/python/collage/plans/placement/test_parts.py
  tvm/tests/python/collage/plans/placement/test_replay.py
  tvm/tests/python/collage/test_any_module.py
  tvm/tests/python/collage/test_collage_partition.py
)
# OpenVINO opens libraries in a way (RTLD_DEEPBIND) that the sanitizers refuse.
status=0
python -m pytest --numprocesses "$2" --dist loadfile --max-worker-restart 0 --durations=5 \
  -m "not slow" -k "not openvino" "${tests[@]}" || status=$?

unset LD_PRELOAD
if grep --recursive --files-with-matches -e "ERROR: AddressSanitizer" -e "runtime error:" "$reports" |
  xargs --no-run-if-empty cat | grep .; then
  exit 1
fi
exit "$status"
