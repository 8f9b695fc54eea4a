#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_host.sh PYTHON CXX: fail with one clear line when the machine lacks what a build needs.
# Test: tools/test_install.py.
python=$1
compiler=$2

fail() {
  echo "tvm-collage: $1" >&2
  exit 1
}

found=$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) ||
  fail "no Python at '$python': install Python 3.11, or run make PYTHON=<path of python3.11>"
[[ $found == 3.11.* ]] ||
  fail "needs Python 3.11, but '$python' is $found: run make PYTHON=<path of python3.11>"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  fail "'$python' cannot make environments: install its venv module (Debian: python3.11-venv)"
[[ $(uname -sm) == "Linux x86_64" ]] ||
  fail "needs Linux on x86-64, this is $(uname -sm): the base TVM package has no other build"
# The compiler may carry options, as in CXX="ccache g++".
echo 'int main() { return 0; }' | $compiler -x c++ -std=c++17 -fsyntax-only - 2>/dev/null ||
  fail "no C++17 compiler at '$compiler': install g++ (Debian: g++), or run make CXX=<compiler>"
