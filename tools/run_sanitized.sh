#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_sanitized.sh BUILD_DIR: run tests of damaged files on runtime libraries with sanitizers.
# `python` and `cmake` are the environment's.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

tools/quietly.sh cmake -S tvm -B "$build" -G Ninja -DCOLLAGE_SANITIZE=ON
cmake --build "$build" --target tvm_collage_pool tvm_collage_runtime

# Python has no sanitizer, so that theirs is loaded first. libstdc++ comes before it: its `new` throws
# where there is no memory, which is an answer to damaged sizes, and the sanitizer's ends the process.
compiler=${CXX:-g++}
LD_PRELOAD="$($compiler -print-file-name=libstdc++.so.6) $($compiler -print-file-name=libasan.so)"
options=(verify_asan_link_order=0 allocator_may_return_null=1 max_allocation_size_mb=4096)
options+=(alloc_dealloc_mismatch=0 detect_leaks=0) # Python and TVM keep much to a process's end
export LD_PRELOAD TVM_COLLAGE_LIBRARY_PATH=$PWD/$build UBSAN_OPTIONS=print_stacktrace=1
ASAN_OPTIONS=$(IFS=:; echo "${options[*]}")
export ASAN_OPTIONS

# OpenVINO opens libraries in a way (RTLD_DEEPBIND) that the sanitizers refuse.
python -m pytest --durations=5 -k "not openvino" \
  tvm/tests/python/runtime/test_partition_checks.py tvm/tests/python/runtime/test_damaged_libraries.py
