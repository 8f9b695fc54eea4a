# SPDX-License-Identifier: Apache-2.0
"""A local worker's session with one device; the worker dies when the device does not answer, so
that no call into TVM's RPC, which waits for ever, holds the user's process.

What a job does there, failures too, is a value; a MachineFault is the device's, and what else is
raised is not. Test: rpc/test_devices.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from typing import Any

from tvm import TVMError, rpc

from ..errors import DeviceError
from ..exec.machine_fault import DEVICE, MachineFault
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of, resolve
from .device_info import describe_this_device
from .service import PREFIX
from .tracker import Address, Tracker

# Seconds that a device may stay silent; a poll asks it to answer after one.
SILENCE_SECONDS = 60
_POLL_SECONDS = 1.0
# An upload slower than this is a device that does not answer.
_BYTES_PER_SECOND = 100_000

# The worker's one session.
_sessions: list[rpc.RPCSession] = []


def open_device(
    tracker: list[Any], key: str, seconds: float, options: dict[str, Any]
) -> dict[str, Any] | None:
    """Get a device of the key and ready its worker (WorkerOptions' fields); return what
    DeviceInfo.from_json takes, None when none gets free in so many seconds. DeviceError for one
    that cannot be used."""
    _sessions.clear()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it ends the process, whatever that waits for
    with Tracker(Address(*tracker)) as connection:
        ticket = connection.request(key, seconds)
    if ticket is None:
        return None
    signal.alarm(SILENCE_SECONDS)
    session = rpc.connect(*ticket.device, ticket.match)
    try:
        session.get_function(PREFIX + "open")(json.dumps(options))
    except AttributeError:
        raise DeviceError(
            f"device {ticket.device} has no tvm-collage: install it there and start the server "
            "with `python -m tvm.relay.collage.rpc_server`"
        ) from None
    _sessions.append(session)
    job = Job("call", call_of(describe_this_device), options["startup_seconds"])
    described = _run(job)
    if described.outcome != "ok":
        raise DeviceError(f"device {ticket.device} does not say what it is: {described.message}")
    return {"address": str(ticket.device), "fields": described.value}


def run_on_device(job: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a device's Reply to a job (its fields), with copies of its files."""
    names = {path: f"file_{i}_{os.path.basename(path)}" for i, path in enumerate(job["files"])}
    bytes_of = {path: os.path.getsize(path) for path in names}
    request = json.dumps({"job": {**job, "files": []}, "names": names})
    (session,) = _sessions
    try:
        for path, name in names.items():
            signal.alarm(SILENCE_SECONDS + bytes_of[path] // _BYTES_PER_SECOND)
            session.upload(path, name)
        session.get_function(PREFIX + "submit")(request)
        poll = session.get_function(PREFIX + "poll")
        reply = ""
        while not reply:
            signal.alarm(SILENCE_SECONDS)
            reply = str(poll(_POLL_SECONDS))
        for name in names.values():
            session.remove(name)
    except TVMError as error:  # all that its RPC raises
        raise MachineFault(DEVICE, str(error)) from error
    finally:
        signal.alarm(0)
    return json.loads(reply)


def call_with_device(function: str, arguments: dict[str, Any]) -> Any:
    """Call a function in this process that gets, as `run`, what has the device reply to a job."""
    return resolve(function)(run=_run, **arguments)


def _run(job: Job) -> Reply:
    return Reply(**run_on_device(dataclasses.asdict(job)))
