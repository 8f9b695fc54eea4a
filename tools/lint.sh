#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD_DIR: check format, style and types of the whole tree; every check runs, then fails.
# BUILD_DIR is clang-tidy's, which reads each C++ file without precompiled headers.
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
failed=0

check() {
  echo "lint: $1"
  shift
  "$@" || failed=1
}

mapfile -t cpp < <(find tvm/src tvm/tests/cpp bench demos -name '*.cc' -o -name '*.h' \
  2>/dev/null | sort)
check "ruff format" ruff format --quiet --check .
check "ruff check" ruff check --quiet .
check "types" python tools/check_types.py
check "sources" python tools/check_sources.py
check "includes" python tools/check_includes.py
check "tests" python tools/check_tests.py
check "scripts of the page" python tools/check_scripts.py
check "imports" python tools/check_imports.py
check "docstrings" python tools/check_docstrings.py
check "docs" tools/make_docs.sh build/site
if ((${#cpp[@]})); then
  check "clang-format" clang-format --dry-run -Werror "${cpp[@]}"
fi
tools/quietly.sh cmake -S tvm -B "$build" -G Ninja -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON || failed=1
check "clang-tidy" python tools/clang_tidy.py "$build"
exit $failed
