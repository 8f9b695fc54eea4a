# SPDX-License-Identifier: Apache-2.0
"""How long the demos measure, and where they write: by variables, as a notebook has no arguments.

COLLAGE_DEMO_QUICK=1: only to see that everything works. COLLAGE_DEMO_OUTPUT: the folder of pictures
and of measured costs, build/demo by default. Test: demos/test_notebooks.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Less than the defaults, so that a demo takes minutes on two cores: candidates of up to so
# many calls, each timed for so long, and so much time for each search and each guard.
BOUNDED: dict[str, Any] = {
    "tvm_max_depth": 4,
    "byoc_max_depth": 4,
    "measure_seconds": 0.05,
    "time_limit": 60.0,
    "guard_rounds": 10,
    "guard_seconds": 4.0,
}
# Only to see that everything works: speed is not judged.
QUICK: dict[str, Any] = {
    "tvm_max_depth": 1,
    "byoc_max_depth": 1,
    "measure_seconds": 0.01,
    "time_limit": 90.0,
    "guard_rounds": 2,
    "guard_seconds": 0.1,
}

IS_QUICK = bool(os.environ.get("COLLAGE_DEMO_QUICK"))
OPTIONS = QUICK if IS_QUICK else BOUNDED
ROUNDS = 4 if IS_QUICK else 30
OUTPUT = Path(os.environ.get("COLLAGE_DEMO_OUTPUT", Path(__file__).parents[1] / "build/demo"))
OUTPUT.mkdir(parents=True, exist_ok=True)
