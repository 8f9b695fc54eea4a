# SPDX-License-Identifier: Apache-2.0
"""The store of costs that the options name. Test: store/test_build.py."""

from ..logs import warn_once
from ..store import CostStore, Environment, StoredCosts, StoreError, store_path
from ..store.versions import stored_version


def open_store(options, measure_options, device):
    """The store of costs that the options name, None for none; keys are those of the device.

    A file that the user named must do: StoreError otherwise. Without the default one, a search
    just measures.
    """
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
