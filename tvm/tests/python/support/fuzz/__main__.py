# SPDX-License-Identifier: Apache-2.0
"""`python -m fuzz`, or `make fuzz`: fuzzing of the real backends. Docs: docs/testing.md."""

import os
import sys

if "MALLOC_PERTURB_" not in os.environ:
    # glibc then fills new memory with bytes that are large floats: what reads it is seen.
    environment = {**os.environ, "MALLOC_PERTURB_": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "fuzz", *sys.argv[1:]], environment)

from .run import main

sys.exit(main(sys.argv[1:]))
