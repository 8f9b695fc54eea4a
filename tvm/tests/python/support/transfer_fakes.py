# SPDX-License-Identifier: Apache-2.0
"""Trials without builds, which tests put into workers by name."""

import json
import os
import signal

from transfer_nets import conv, kernel


def list_kernels(candidate):
    if "dense" in candidate:
        raise ValueError("it is a product")
    return [kernel(conv).to_json()]


def transfer(candidate, workload, source, log):
    if "crash" in json.dumps(source["line"]):
        os.kill(os.getpid(), signal.SIGSEGV)
    return {"outcome": "adapted", "seconds": 2e-3, "reason": ""}
