# SPDX-License-Identifier: Apache-2.0
"""The store of costs that the options name, and what keys a backend's rows in it.

Test: test_store_key.py, test_store_build.py.
"""

from ..targets import TRANSITION, TVM_BACKEND
from .warn_once import warn_once


def open_store(options, measure_options, device):
    """The store of costs that the options name, None for none; keys are those of the device.

    A file that the user named must do: StoreError otherwise. Without the default one, a search
    just measures.
    """
    from ..store import CostStore, Environment, StoredCosts, StoreError, store_path

    path, is_named = store_path(options.store)
    if path is None:
        return None
    try:
        store = CostStore(path)
    except StoreError as error:
        if is_named:
            raise
        warn_once(f"{error}; costs are measured and not kept")
        return None
    environment, version_of = None, stored_version
    if device is not None:
        environment = Environment.of_device(device.cpu, device.threads, measure_options)

        def version_of(backend):
            return stored_version(backend) and device.backends.get(backend)

    return StoredCosts(
        store,
        measure_options,
        version_of,
        retry_failed=options.retry_failed,
        environment=environment,
    )


def stored_version(backend):
    """The version that keys a backend's stored costs; None when they cannot be stored.

    TVM's own candidates are keyed by TVM's build.
    """
    from ..backends import find_backend

    if backend in (TVM_BACKEND, TRANSITION):
        return ""
    found = find_backend(backend)
    # What is defined in a script fails in workers: true now, wrong once it has a module of its own.
    if found is None or type(found).__module__ == "__main__":
        return None
    try:
        return found.version() or None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own code; it costs its rows alone
        warn_once(f"backend {backend!r} has no version, so its costs are not stored: {error}")
        return None
