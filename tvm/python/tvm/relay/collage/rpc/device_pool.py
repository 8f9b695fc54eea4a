# SPDX-License-Identifier: Apache-2.0
"""Jobs for all devices of a tracker's key, one at a time on each; the jobs of a device that is lost
go to another.

A device is reached through a local worker of its own. Test: rpc/test_devices.py.
"""

from __future__ import annotations

import dataclasses
import logging
import signal
import time

from ..errors import DeviceError
from ..exec.machine_fault import DEVICE
from ..exec.pool import ATTEMPTS, Job, Task, WorkerPool
from ..exec.process import WorkerOptions, WorkerProcess
from ..exec.reply import Reply
from ..exec.resolve import call_of
from ..messages.foreign import is_end_of_session
from ..options.named import option
from .device_info import DeviceInfo, check_alike
from .session import SILENCE_SECONDS, call_with_device, open_device, run_on_device
from .tracker import Address, Tracker

_logger = logging.getLogger(__name__)

# Over what a job takes on the device: its start, and what else may be slow there.
_GRACE_SECONDS = 2.0 * SILENCE_SECONDS
_LOOK_SECONDS = 0.1
_SETTLING_SECONDS = 1.0


class DevicePool(WorkerPool):
    """Takes devices when first needed, up to all that are free, and others when all are lost; those
    that it gave back it takes again.

    `wait_seconds`: how long a device may take to register or to become free. Methods that need a
    device raise DeviceError when there is none, or when they are not alike.
    """

    def __init__(
        self,
        tracker: Address,
        key: str,
        options: WorkerOptions | None = None,
        wait_seconds: float = 10.0,
    ) -> None:
        super().__init__(1, options)
        self.lost: list[str] = []
        self._tracker, self._key, self.wait_seconds = tracker, key, wait_seconds
        self._devices: dict[WorkerProcess, DeviceInfo] = {}
        self._info: DeviceInfo | None = None
        # How many were let go since these were taken, none of which is lost.
        self._given_back = 0

    @property
    def info(self) -> DeviceInfo:
        """Return what the devices have in common; `address` is the first one's."""
        return self._info or self._take_devices(self._count_free())

    def _take_devices(self, count: int) -> DeviceInfo:
        """Take so many devices of the key, and return what they have in common."""
        options = WorkerOptions(imports=self._options.imports)
        workers = [WorkerProcess(options) for _ in range(count)]
        try:
            found = self._open_all(workers)
            infos = [*filter(None, [self._info]), *found.values()]
            if not found:
                raise DeviceError(
                    f"all devices of key {self._key!r} at RPC tracker {self._tracker} are in use, "
                    f"and none got free in {self.wait_seconds:g} s ("
                    + option("rpc_wait", "relay.collage.rpc_wait")
                    + ")"
                )
            check_alike(infos)
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
        self._info, self._given_back = infos[0], 0
        self._devices.update(found)
        self._idle += found
        _logger.info("measuring on %s", "; ".join(device.Summary() for device in found.values()))
        return self._info

    def call_with_device(self, job: Job) -> Reply:
        """Call here, in the worker that has a device's session (see session.call_with_device),
        while no other job runs.

        "lost" where the device was lost meanwhile; a call that ends its worker otherwise gives the
        device back. One whose worker dies gets one more try, as a job of a WorkerPool.
        """
        for _ in range(ATTEMPTS):
            reply = self._call_once(job)
            if reply.outcome != "died" and not reply.fault:
                break
            _logger.info("a worker with a device %s (%s)", reply.outcome, reply.message)
        return reply

    def _call_once(self, job: Job) -> Reply:
        self._need_devices()
        worker = self._idle.pop()
        try:
            call = call_of(call_with_device, **job.arguments)
            reply = worker.call("call", call, job.seconds)
        except BaseException:
            self._give_back(worker)
            raise
        if reply.fault == DEVICE or reply.code == -signal.SIGALRM:
            return Reply("lost", message=f"device {self._lose(worker, _why_lost(reply))} is lost")
        if worker.is_alive:
            self._idle.append(worker)
        else:
            self._give_back(worker)
        return reply

    def _give_back(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._devices.pop(worker, None)
        self._given_back += 1

    def _lose(self, worker: WorkerProcess, reason: str) -> str:
        """Note that a worker's device is lost, and return its name with the reason."""
        worker.kill()
        self.lost.append(f"{self._devices.pop(worker).address} ({reason})")
        return self.lost[-1]

    def close(self) -> None:
        super().close()
        self._given_back += len(self._devices)
        self._devices.clear()

    def _abort(self) -> None:
        for worker in self._busy:
            self._give_back(worker)
        super()._abort()

    def _count_free(self) -> int:
        """Return how many devices to ask for; 1, to queue for it, when all are in use."""
        began = time.monotonic()
        while True:
            with Tracker(self._tracker) as tracker:
                devices, free = tracker.devices(), tracker.free(self._key)
            waited = time.monotonic() - began
            registered = len(devices.get(self._key, ()))
            # Those that somebody has just let go are not free at once.
            if registered and (free >= registered or waited > _SETTLING_SECONDS):
                return max(1, free)
            if not registered and waited > self.wait_seconds:
                break
            time.sleep(_LOOK_SECONDS)
        keys = f"those of {', '.join(map(repr, sorted(devices)))}" if devices else "none"
        raise DeviceError(
            f"no device of key {self._key!r} is registered at RPC tracker {self._tracker}; "
            f"it has {keys}. Set "
            + option("rpc_key", "relay.collage.rpc_key")
            + ", or start a server on the device: `python -m "
            f"tvm.relay.collage.rpc_server --tracker {self._tracker} --key {self._key}`"
        )

    def _open_all(self, workers: list[WorkerProcess]) -> dict[WorkerProcess, DeviceInfo]:
        """Return devices by worker; those that do not answer are left out unless all are such."""
        call = call_of(
            open_device,
            tracker=self._tracker,
            key=self._key,
            seconds=self.wait_seconds,
            options=dataclasses.asdict(self._options),
        )
        seconds = self.wait_seconds + self._options.startup_seconds + _GRACE_SECONDS
        for worker in workers:  # all at the same time
            worker.send("call", call, seconds)
        found, problems = {}, []
        for worker in workers:
            reply = worker.answer()
            if reply.outcome != "ok":
                problems.append(reply.message)
            elif reply.value is not None:
                found[worker] = DeviceInfo.from_json(**reply.value)
        for worker in set(workers) - set(found):
            worker.kill()
        for problem in problems:
            _logger.warning(
                "a device of key %r is left out: %s; restart its server", self._key, problem
            )
        if problems and not found:
            raise DeviceError("; ".join(dict.fromkeys(problems)))
        return found

    def _start(self, concurrency: int | None) -> None:
        if self._waiting:
            self._need_devices()
            self._take_again()
        self.size = max(1, len(self._devices))
        super()._start(concurrency)

    def _take(self) -> WorkerProcess:
        return self._idle.pop()

    def _send(self, worker: WorkerProcess, job: Job) -> None:
        seconds = ATTEMPTS * (job.seconds + self._options.startup_seconds) + _GRACE_SECONDS
        worker.send("call", call_of(run_on_device, job=dataclasses.asdict(job)), seconds)

    def _end(self, worker: WorkerProcess, task: Task, reply: Reply) -> None:
        answer = _reply_of(reply)
        if answer.outcome != "lost":
            self._idle.append(worker)
            task.on_reply(answer)
            return
        name = self._lose(worker, answer.message)
        _logger.warning("device %s is lost; what it measured goes to another", name)
        if not self._devices:
            self._replace()
        if task.attempts < ATTEMPTS:
            self._waiting.appendleft(task)
        else:
            task.on_reply(Reply("lost", message=f"{ATTEMPTS} devices were lost while it ran"))

    def _need_devices(self) -> None:
        if not self._devices and self.lost:
            self._replace()
        elif not self._devices:
            self._take_devices(self._count_free())

    def _take_again(self) -> None:
        """Take what was given back beside those that there are."""
        if not self._given_back:
            return
        try:
            self._take_devices(self._given_back)
        except DeviceError as error:
            _logger.warning("a device that was let go stays out of the search: %s", error.text)
        self._given_back = 0

    def _replace(self) -> None:
        """Take other devices after these are lost, all but those given back."""
        try:
            self._take_devices(self._count_free())
        except DeviceError as error:
            all_ = "" if self._given_back else "all "
            raise DeviceError(
                f"{all_}devices of key {self._key!r} are lost: {'; '.join(self.lost)}. "
                "Costs measured so far are kept: start servers and run again. (" + error.text + ")"
            ) from error


def _reply_of(reply: Reply) -> Reply:
    """Return a job's reply on the device, or "lost" with the reason why there is none; what failed
    here is not the device's doing."""
    if reply.outcome == "ok":
        return Reply(**reply.value)
    if reply.outcome == "failed" and reply.fault != DEVICE:
        return reply
    return Reply("lost", message=_why_lost(reply))


def _why_lost(reply: Reply) -> str:
    if reply.code == -signal.SIGALRM:
        return f"it did not answer for {SILENCE_SECONDS} s"
    return "its session ended" if is_end_of_session(reply.message) else reply.message
