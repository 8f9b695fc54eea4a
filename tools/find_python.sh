#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print the command of a Python 3.11 on PATH, or "python3" so that check_host.sh can name it.
for command in python3.11 python3 python; do
  if "$command" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    echo "$command"
    exit
  fi
done
echo python3
