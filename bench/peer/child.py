# SPDX-License-Identifier: Apache-2.0
"""One run in a fresh process that prints its result as JSON, in its last line. Test:
bench/test_replay.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def run_child(
    script: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What the script prints; CalledProcessError when it fails, its errors being on stderr. The
    variables are added to ours but for COLLAGE_DISABLE, and no schedules are downloaded."""
    ours = {name: value for name, value in os.environ.items() if name != "COLLAGE_DISABLE"}
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env={"TOPHUB_LOCATION": "NONE", **ours, **(environment or {})},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
