# SPDX-License-Identifier: Apache-2.0
"""What keys a backend's rows in the store. Test: store/test_key.py."""

from ..backends import find_backend
from ..external import TRANSITION, TVM_BACKEND
from ..logs import warn_once


def stored_version(backend):
    """The version that keys a backend's stored costs; None when they cannot be stored.

    TVM's own candidates are keyed by TVM's build.
    """
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
