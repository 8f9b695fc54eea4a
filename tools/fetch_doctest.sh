#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print an include folder that has doctest/doctest.h: the system's, or that of Debian's package
# doctest-dev, unpacked without root into the user's cache folder. Fails when there is neither.
set -euo pipefail

for include in /usr/include /usr/local/include; do
  if [[ -f $include/doctest/doctest.h ]]; then
    echo "$include"
    exit
  fi
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tvm-collage/doctest
include=$cache/usr/include
if [[ ! -f $include/doctest/doctest.h ]]; then
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 1
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  cd "$scratch"
  if ! apt-get -qq download doctest-dev >/dev/null 2>&1; then
    # No package lists on this machine: read them into the scratch folder, which needs no root.
    mkdir -p lists/partial archives/partial
    private=(-o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/archives")
    apt-get -qq "${private[@]}" update >/dev/null 2>&1
    apt-get -qq "${private[@]}" download doctest-dev >/dev/null 2>&1
  fi
  mkdir -p "$cache"
  dpkg-deb -x doctest-dev_*.deb "$cache"
fi
[[ -f $include/doctest/doctest.h ]] && echo "$include"
