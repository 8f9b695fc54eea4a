# SPDX-License-Identifier: Apache-2.0
"""Where the tree and these helpers lie, and how a process of a test's own finds them."""

import os
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[3]


def child_environment(*folders, **variables):
    """This process's environment, with the folders and this one on Python's path."""
    path = [*map(str, folders), str(SUPPORT), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **variables}
