# SPDX-License-Identifier: Apache-2.0
"""Where TVM's own tests lie, which are not copied here."""

import os
from pathlib import Path

import pytest


def tvm_file(path):
    """That file or folder of the checkout of TVM which COLLAGE_TVM_TESTS names; a test without it
    is skipped."""
    given = os.environ.get("COLLAGE_TVM_TESTS")
    if not given:
        pytest.skip("COLLAGE_TVM_TESTS names no checkout of TVM v0.19.0")
    if not Path(given, path).exists():
        pytest.skip(f"COLLAGE_TVM_TESTS={given} has no {path}")
    return Path(given, path)
