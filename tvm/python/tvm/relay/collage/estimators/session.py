# SPDX-License-Identifier: Apache-2.0
"""The means by which one search measures, as Collage's options say, made once and handed down.

Test: estimators/test_session.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tvm
from tvm.target import Target

from ..backends import BUILTIN, find_backend
from ..candidate.footprint import bytes_in_turn
from ..candidate.weights import CACHE_BYTES
from ..costs.kernel import KernelChoice
from ..errors import BackendUnavailableError, DeviceError
from ..exec.process import WorkerOptions
from ..exec.time_limit import NO_LIMIT, SEARCHED, TimeLimit
from ..measure.measured import MeasuredCostEstimator
from ..measure.options import MeasureOptions
from ..measure.progress import make_progress
from ..measure.runner import Runner
from ..options import CollageOptions, DeviceOptions, SessionOptions, StoreOptions
from ..options.named import option
from ..process_wide.logs import warn_once
from ..rpc import DeviceInfo, DeviceRunner
from ..store import CostStore, Environment, StoredCosts, StoreError, store_path
from ..store.key import stored_version
from ..tuning.run import TuningRun

_logger = logging.getLogger(__name__)

# More builds at once gain little and each holds a TVM in memory.
_MOST_WORKERS = 8


@dataclasses.dataclass(frozen=True)
class Session:
    """The means by which a search measures: workers with their store and their memory of costs, on
    devices or here, the run of a tuner where it tunes, by which kernels the steps of a backend's
    candidates run, and the limit of its time."""

    estimator: MeasuredCostEstimator
    options: SessionOptions
    tuning_run: TuningRun | None = None
    kernels: Callable[[str], tuple[KernelChoice, ...]] = lambda backend: ()
    limit: TimeLimit = NO_LIMIT

    @property
    def runner(self) -> Runner:
        return self.estimator.runner


@contextlib.contextmanager
def open_session(
    options: SessionOptions,
    external_targets: Iterable[Target] = (),
    network: tvm.IRModule | None = None,
    limit: TimeLimit = NO_LIMIT,
) -> Iterator[Session]:
    """Open a Session by these options for the block, after which its workers end. network:
    what the candidates are parts of, where that is known; what it touches decides how cold theirs
    is. limit: TimeIsUpError comes out of what is measured when the time of the search is over.

    Workers import the modules of the user's own backends among `external_targets`. Raises
    StoreError for a store that the options name and that will not do, and DeviceError.
    """
    network_bytes = CACHE_BYTES if network is None else bytes_in_turn(network)
    check = functools.partial(limit.check, SEARCHED)
    with _new_estimator(options, network_bytes, external_targets, check=check) as estimator:
        try:
            yield Session(estimator, options, limit=limit)
        finally:
            _logger.info("costs: %s", estimator.Summary())


class OwnSession:
    """The session of a CostEstimator that was given none, as one of TVM's API is.

    Its options come with the PassContext of the pass that asks, so it is made when it is first
    asked for; other options, or another size of the pass's network, make another. Its workers end
    with close(), with this object and with the interpreter.
    """

    def __init__(self) -> None:
        self._session: Session | None = None
        self._network_bytes = CACHE_BYTES
        self._made_for: Any = None

    def set_network(self, network: tvm.IRModule) -> int:
        """Note what candidates are parts of from now on; return the bytes that it touches in
        turn."""
        self._network_bytes = bytes_in_turn(network)
        return self._network_bytes

    def get(self) -> Session:
        """Return the session of the current PassContext's options."""
        options = CollageOptions.current().session
        # Who verifies and who asks for bounds is read at each question.
        measuring = dataclasses.replace(options.measuring, verify="", cost_bounds=False)
        made_for = (
            dataclasses.replace(options, measuring=measuring),
            measure_options(options, self._network_bytes),
        )
        if self._session is None or made_for != self._made_for:
            self.close()
            self._session = Session(_new_estimator(options, self._network_bytes), options)
            self._made_for = made_for
        self._session = dataclasses.replace(self._session, options=options)
        return self._session

    def close(self) -> None:
        """End the workers and forget the costs; the next measurement starts again."""
        if self._session is not None:
            self._session.estimator.close()
        self._session = None


def measure_options(
    options: SessionOptions,
    network_bytes: int = CACHE_BYTES,
    external_targets: Iterable[Target] = (),
) -> MeasureOptions:
    """Return how the options say that candidates for these targets are measured, in a network
    that touches so many bytes."""
    how = options.measuring
    return MeasureOptions(
        workers=how.workers or default_workers(),
        build_timeout=how.timeout,
        run_timeout=how.timeout,
        budget_seconds=how.seconds,
        seed=how.seed,
        compiler=options.devices.compiler,
        imports=own_backend_modules(external_targets),
        network_bytes=network_bytes,
    )


def default_workers() -> int:
    """Return one worker a thread of TVM's, up to 8; ValueError when TVM_NUM_THREADS is no
    number."""
    text = os.environ.get("TVM_NUM_THREADS", "").strip() or str(len(os.sched_getaffinity(0)))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"TVM_NUM_THREADS is {text!r}: set it to a number of threads, 1 or more")
    return min(int(text), _MOST_WORKERS)


def own_backend_modules(external_targets: Iterable[Target]) -> tuple[str, ...]:
    """Return the modules that define the user's own backends of these targets, for workers to
    import.

    A script itself is none: its backends cannot be measured, which is logged. In place of one that
    comes with Collage, which workers would measure instead, such is a BackendUnavailableError.
    """
    modules = set()
    for name in {target.kind.name for target in external_targets}:
        backend = find_backend(name)
        if backend is None or _is_ours(type(backend).__module__):
            continue
        module = type(backend).__module__
        if module != "__main__":
            modules.add(module)
            continue
        message = (
            f"backend {name!r} is defined in the script that runs (__main__), which worker "
            "processes cannot import, so none of its candidates can be measured: move the "
            "backend and its registration into a module of their own and import that"
        )
        if name in BUILTIN:
            raise BackendUnavailableError(message)
        warn_once(message)
    return tuple(sorted(modules))


def open_store(
    options: StoreOptions, measuring: MeasureOptions, device: DeviceInfo | None
) -> StoredCosts | None:
    """Return the store of costs that the options name, None for none; keys are those of the device.

    A file that the user named must do: StoreError otherwise. Without the default one, a search
    just measures.
    """
    path, is_named = store_path(options.file)
    if path is None:
        return None
    try:
        store = CostStore(path)
    except StoreError as error:
        if is_named:
            raise
        warn_once(f"{error}; costs are measured and not kept")
        return None
    environment = None
    if device is not None:
        environment = Environment.of_device(device.cpu, device.threads, measuring)
    return StoredCosts(
        store,
        measuring,
        functools.partial(version_of, device=device),
        retry_failed=options.retry_failed,
        environment=environment,
    )


def version_of(backend: str, device: DeviceInfo | None) -> str | None:
    """Return the version that keys a backend's stored costs, the device's where one measures; None
    when they cannot be stored."""
    own = stored_version(backend)
    return own if device is None else own and device.backends.get(backend)


def _is_ours(module: str) -> bool:
    """Return whether a module is of Collage's own package, which workers have."""
    return f"{module}.".startswith(__package__.rpartition(".")[0] + ".")


def _new_estimator(
    options: SessionOptions,
    network_bytes: int,
    external_targets: Iterable[Target] = (),
    check: Callable[[], None] = lambda: None,
) -> MeasuredCostEstimator:
    measuring = measure_options(options, network_bytes, external_targets)
    with contextlib.ExitStack() as held:
        runner = _device_runner(options.devices, measuring)
        if runner is not None:
            held.callback(runner.close)
            runner.check_compiler(options.devices.compiler)
        estimator = MeasuredCostEstimator(
            measuring,
            progress=make_progress(options.progress),
            store=open_store(options.storing, measuring, runner.info if runner else None),
            runner=runner,
            check=check,
        )
        held.pop_all()
        return estimator


def _device_runner(options: DeviceOptions, measuring: MeasureOptions) -> DeviceRunner | None:
    """Return the devices to measure on, None for this machine. Raises DeviceError."""
    if not options.tracker:
        if options.key:
            raise DeviceError(
                option("rpc_key")
                + " is set, "
                + option("rpc_tracker", "relay.collage.rpc_tracker")
                + " is not: give the "
                "tracker's 'host:port' as well, or neither"
            )
        return None
    worker_options = WorkerOptions(
        imports=measuring.imports,
        memory_limit_bytes=measuring.memory_limit_bytes,
        startup_seconds=measuring.startup_timeout,
    )
    return DeviceRunner(
        options.tracker, options.key, wait_seconds=options.wait, options=worker_options
    )
