# SPDX-License-Identifier: Apache-2.0
"""Measuring on devices while this machine builds. Test: rpc/test_devices.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import tvm

from ..candidate.candidate import CandidateModule
from ..errors import DeviceError
from ..exec.pool import Job, OnReply, WorkerPool, drive
from ..exec.process import WorkerOptions
from ..exec.reply import Reply
from ..exec.spent import phase
from ..machine.environment import MachineTraits
from ..measure.race.comparison import Comparison, RightOutputs
from ..measure.race.race import Contestant, RaceOptions
from ..options.named import option
from .comparison import compare_on_device
from .device_info import DeviceInfo, check_compiler
from .device_pool import DevicePool
from .tracker import Address, check_key


class DeviceRunner:
    """The devices of a key as a measure.Runner, each measuring one candidate at a time.

    Builds here go on meanwhile. Devices are taken when first needed and held until close(), after
    which others may have them.
    """

    def __init__(
        self,
        tracker: str,
        key: str,
        *,
        wait_seconds: float = 10.0,
        options: WorkerOptions | None = None,
    ) -> None:
        """`tracker`: "host:port". `options`: of the worker on each device. DeviceError for what is
        no address or no key."""
        if not key:
            missing = option("rpc_key", "relay.collage.rpc_key")
            advice = "give the key under which the devices' servers registered"
            raise DeviceError(option("rpc_tracker") + " is set, " + missing + " is not: " + advice)
        check_key(key)
        self._address, self._key, self._wait_seconds = Address.parse(tracker), key, wait_seconds
        self._options = options or WorkerOptions()
        self.pool = self._new_pool()

    @property
    def info(self) -> DeviceInfo:
        """Return what the devices are. DeviceError when there is none, or when they differ."""
        return self.pool.info

    is_here = False

    def load(self) -> float:
        """Return none: nobody looks, nor is a cost measured again for that."""
        return 0.0

    def is_quiet(self) -> bool:
        return False

    def machine(self) -> MachineTraits:
        return MachineTraits(self.info.cpu, self.info.features, self.info.num_threads)

    def check(self, candidates: Iterable[CandidateModule]) -> None:
        """HostTargetError or DeviceError for a target or backend that the devices lack."""
        candidates = list(candidates)
        for target in dict.fromkeys(candidate.target for candidate in candidates):
            self.info.check_target(tvm.target.Target(target))
        self.info.check_backends(list(dict.fromkeys(each.backend for each in candidates)))

    def check_compiler(self, compiler: str) -> None:
        """See device_info."""
        check_compiler(self.info, compiler)

    def submit(self, job: Job, on_reply: OnReply) -> None:
        self.pool.submit(job, on_reply)

    def drive(self, builds: WorkerPool) -> None:
        with phase("build and measure"):
            drive(builds, self.pool)

    def call_with_device(self, job: Job) -> Reply:
        """See DevicePool."""
        return self.pool.call_with_device(job)

    def compare(
        self, contestants: Sequence[Contestant], right: RightOutputs, options: RaceOptions
    ) -> list[Comparison]:
        return compare_on_device(self.pool, contestants, right, options=options)

    def require(self, modules: Sequence[str]) -> None:
        """Have the devices' workers import these modules too."""
        new = [name for name in modules if name not in self._options.imports]
        if new:
            self.close()
            imports = (*self._options.imports, *new)
            self._options = dataclasses.replace(self._options, imports=imports)
            self.pool = self._new_pool()

    def close(self) -> None:
        self.pool.close()

    def _new_pool(self) -> DevicePool:
        return DevicePool(self._address, self._key, self._options, wait_seconds=self._wait_seconds)


def find_device(tracker: str, key: str, wait_seconds: float = 10.0) -> DeviceInfo:
    """Return what the devices of a tracker's key are; they are asked and let go.

    `tracker`: "host:port". DeviceError when none answers in `wait_seconds`, or when they differ.
    """
    runner = DeviceRunner(tracker, key, wait_seconds=wait_seconds)
    try:
        return runner.info
    finally:
        runner.close()
