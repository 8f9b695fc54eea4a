#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quietly.sh COMMAND...: run a command, and show what it says only when it fails. Test: tools/test_install.py.
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$@" >"$said" 2>&1 || {
  status=$?
  cat "$said" >&2
  exit $status
}
