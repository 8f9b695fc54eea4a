# SPDX-License-Identifier: Apache-2.0
"""Trials without builds, which tests put into workers by name."""

import errno
import json
import os
import signal

from transfer_nets import conv, kernel


def list_tasks(candidate, tuner):
    if "dense" in candidate["module"]:
        raise ValueError("it is a product")
    return [{"kernel": kernel(conv).to_json()}]


def transfer(candidate, workload, source, log):
    line = json.dumps(source["line"])
    if "crash" in line:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "killed" in line:
        os.kill(os.getpid(), signal.SIGKILL)
    if "full" in line:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "broken" in line:
        raise LookupError("the candidate has no such kernel")
    return {"outcome": "adapted", "seconds": 2e-3, "reason": ""}
