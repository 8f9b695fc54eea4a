# SPDX-License-Identifier: Apache-2.0
"""Workers and costs that live as long as a session does. Test: test_collage_measured.py."""

import contextlib
import contextvars
import dataclasses
import logging

from ..errors import DeviceError
from ..exec.process import WorkerOptions
from ..options import CollageOptions
from ..rpc import DeviceRunner
from .estimator import MeasuredCostEstimator
from .from_options import measure_options, own_backend_modules
from .progress import make_progress
from .stored import open_store

_logger = logging.getLogger(__name__)
_session = contextvars.ContextVar("collage_measuring_session", default=None)

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


@contextlib.contextmanager
def measuring_session(options=None, external_targets=()):
    """Keep worker processes and their memory of costs for the block; nested blocks share them.

    Workers import the modules of the user's own backends among ``external_targets``.
    """
    if _session.get() is not None:
        yield _session.get()
        return
    new = _new_estimator(options or CollageOptions.current(), external_targets)
    with new as estimator, _as_session(estimator):
        try:
            yield estimator
        finally:
            _logger.info("costs: %s", estimator.Summary())


class LazySession:
    """Workers and costs of one owner, started when it first measures outside `measuring_session`.

    They end with ``close()``, with this object and with the interpreter; other measuring options
    start them anew.
    """

    def __init__(self):
        self._estimator = None
        self._options = None

    @contextlib.contextmanager
    def active(self):
        """A measuring session for the block: the one that is active, else the owner's."""
        if _session.get() is not None:
            yield _session.get()
            return
        current = CollageOptions.current()
        options = (measure_options(current), *(getattr(current, name) for name in _OF_SESSION))
        if options != self._options:
            self.close()
            self._estimator, self._options = _new_estimator(current, ()), options
        with _as_session(self._estimator):
            yield self._estimator

    def close(self):
        """End the workers and forget the costs; the next measurement starts again."""
        if self._estimator is not None:
            self._estimator.close()
        self._estimator = self._options = None


@contextlib.contextmanager
def _as_session(estimator):
    token = _session.set(estimator)
    try:
        yield
    finally:
        _session.reset(token)


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
