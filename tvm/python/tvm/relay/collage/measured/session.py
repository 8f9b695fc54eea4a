# SPDX-License-Identifier: Apache-2.0
"""What one search measures with, made once and handed down. Test: measured/test_session.py."""

import contextlib
import contextvars
import dataclasses
import logging

from ..costs.kernel import KernelChoice
from ..errors import DeviceError
from ..exec.process import WorkerOptions
from ..options import CollageOptions
from ..rpc import DeviceRunner
from ..tuner.tuner import Tuner
from .estimator import MeasuredCostEstimator
from .from_options import measure_options, own_backend_modules
from .progress import make_progress
from .stored import open_store

_logger = logging.getLogger(__name__)
_shared = contextvars.ContextVar("collage_measuring_session", default=None)

# Options of a session that are none of measuring.
_OF_SESSION = (
    "progress",
    "store",
    "retry_failed",
    "rpc_tracker",
    "rpc_key",
    "rpc_wait",
    "rpc_compiler",
)


@dataclasses.dataclass(frozen=True)
class Session:
    """What a search measures with: workers with their store and their memory of costs, on devices
    or here, a tuner where it tunes, and the kernels that candidates' steps run by. It is made once
    and handed down."""

    estimator: MeasuredCostEstimator
    tuner: Tuner | None = None
    kernels: tuple[KernelChoice, ...] = ()

    @property
    def runner(self):
        return self.estimator.runner


@contextlib.contextmanager
def measuring_session(options=None, external_targets=()):
    """Keep worker processes and their memory of costs for the block, which gets the Session.

    Searches in the block use its workers, nested blocks too: `relay.build` has no argument by which
    several builds could share them. Workers import the modules of the user's own backends among
    ``external_targets``.
    """
    if _shared.get() is not None:
        yield _shared.get()
        return
    with _new_estimator(options or CollageOptions.current(), external_targets) as estimator:
        session = Session(estimator)
        token = _shared.set(session)
        try:
            yield session
        finally:
            _shared.reset(token)
            _logger.info("costs: %s", estimator.Summary())


class OwnSession:
    """The session of an estimator that was given none: that of the `measuring_session` around its
    use, else one of its own, from the first use outside of any on.

    Its workers end with ``close()``, with this object and with the interpreter; other measuring
    options start them anew.
    """

    def __init__(self):
        self._session = None
        self._options = None

    def get(self):
        """The session to measure with now."""
        if _shared.get() is not None:
            return _shared.get()
        current = CollageOptions.current()
        options = (measure_options(current), *(getattr(current, name) for name in _OF_SESSION))
        if options != self._options:
            self.close()
            self._session, self._options = Session(_new_estimator(current, ())), options
        return self._session

    def close(self):
        """End the workers and forget the costs; the next measurement starts again."""
        if self._session is not None:
            self._session.estimator.close()
        self._session = self._options = None


def _new_estimator(options, external_targets):
    imports = own_backend_modules(external_targets)
    measuring = dataclasses.replace(measure_options(options), imports=imports)
    runner = _device_runner(options, measuring)
    try:
        return MeasuredCostEstimator(
            measuring,
            progress=make_progress(options.progress),
            store=open_store(options, measuring, runner.info if runner else None),
            runner=runner,
        )
    except BaseException:
        if runner is not None:
            runner.close()
        raise


def _device_runner(options, measuring):
    """The devices to measure on, None for this machine. Raises DeviceError."""
    if not options.rpc_tracker:
        if options.rpc_key:
            raise DeviceError(
                "option relay.collage.rpc_key is set, relay.collage.rpc_tracker is not: give the "
                "tracker's 'host:port' as well, or neither"
            )
        return None
    worker_options = WorkerOptions(
        imports=measuring.imports,
        memory_limit_bytes=measuring.memory_limit_bytes,
        startup_seconds=measuring.startup_timeout,
    )
    runner = DeviceRunner(
        options.rpc_tracker, options.rpc_key, wait_seconds=options.rpc_wait, options=worker_options
    )
    try:
        runner.check_compiler(options.rpc_compiler)
    except BaseException:
        runner.close()
        raise
    return runner
