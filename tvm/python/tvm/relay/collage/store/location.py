# SPDX-License-Identifier: Apache-2.0
"""Where the store lies: the option, else the environment, else the user's cache directory.

Test: store/test_database.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "COLLAGE_STORE"
# A name instead of a path: nothing is looked up or kept.
NO_STORE = "none"


def default_path() -> Path:
    """The user's own store, e.g. ~/.cache/tvm-collage/costs.sqlite."""
    return Path(platformdirs.user_cache_dir("tvm-collage", appauthor=False), "costs.sqlite")


def store_path(option: str = "") -> tuple[Path | None, bool]:
    """The file that `option` (relay.collage.store) stands for, None for no store; and whether the
    user named it, by the option or by the variable COLLAGE_STORE."""
    name = option or os.environ.get(VARIABLE, "")
    if name == NO_STORE:
        return None, True
    return (Path(name).expanduser(), True) if name else (default_path(), False)
