# SPDX-License-Identifier: Apache-2.0
"""Functions that a worker calls to say what it is."""

import ctypes
import os
import sys
from pathlib import Path


def state():
    """In a worker: what it has from the driver."""
    address = ctypes.c_void_p()
    ctypes.CDLL(None).prctl(40, ctypes.byref(address), 0, 0, 0)  # PR_GET_TID_ADDRESS
    status = Path("/proc/self/status").read_text().splitlines()
    lines = ("Umask", "Sig", "Cpus_allowed", "Uid", "Groups", "NoNewPrivs")
    return {
        "folder": os.getcwd(),
        "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],  # the listing's own
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "parent": os.getppid(),
        "knows itself": ctypes.c_int.from_address(address.value).value == os.getpid(),
        "status": [line for line in status if line.startswith(lines)],
        "limits": Path("/proc/self/limits").read_text(),
        "first to go": Path("/proc/self/oom_score_adj").read_text(),
        "path": sys.path,
        "variables": {name: value for name, value in os.environ.items() if name != "TMPDIR"},
        "temporary": Path(os.environ["TMPDIR"]).name.startswith("collage-"),
    }


def maps():
    return Path("/proc/self/maps").read_text()


def drawn():
    """In a worker: a number of numpy's generator."""
    import numpy as np

    return np.random.rand()


def read_variable(name):
    """In a worker: a variable, as Python and as C have it."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    in_c = getenv(name.encode())
    return [os.environ.get(name), in_c and in_c.decode()]
