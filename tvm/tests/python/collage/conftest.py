# SPDX-License-Identifier: Apache-2.0
"""Lets tests import the real tvm and helper modules beside them; their worker processes as well.

The user's store of costs stays out of it: a test that wants a store names one of its own.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["COLLAGE_STORE"] = "none"
# Tests that run at once do not wait for each other, nor for a search of the user's.
os.environ["COLLAGE_CPU_LOCKS"] = "none"

# pytest's importlib mode takes this tree's folder tvm/ for the package of that name.
if getattr(sys.modules.get("tvm"), "__file__", None) is None:
    sys.modules.pop("tvm", None)
    import tvm  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def quiet_machine():
    """What is warned of, and measured again, must not depend on what else the machine does."""
    from tvm.relay.collage.machine import load

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
        patch.setattr(load, "read_usage", lambda workers: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_workers():
    """Worker processes are forked from a clean process that has imported TVM (tvm_forks.py)."""
    import tvm_forks
    from tvm.relay.collage.exec import launch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "subprocess", tvm_forks.WORKERS)
        yield
    tvm_forks.close()


@pytest.fixture(scope="module")
def forked_workers():
    """Worker processes are forked from this one and need not import TVM, nor can they run its
    kernels: for tests whose workers do nothing real."""
    from fault_search import FORKED
    from tvm.relay.collage.exec import launch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "subprocess", FORKED)
        yield
