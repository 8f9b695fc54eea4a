# SPDX-License-Identifier: Apache-2.0
"""Devices elsewhere, reached through TVM's RPC tracker: built for here, measured there.

Docs: docs/devices.md.
"""

from ..process_wide.lazy import lazy_attributes

# Public name -> the submodule that holds it. A server needs few of them.
_LAZY = {
    "DeviceInfo": "device_info",
    "DevicePool": "device_pool",
    "DeviceRunner": "runner",
    "Tracker": "tracker",
    "find_device": "runner",
}

__all__ = [*_LAZY]

__getattr__ = lazy_attributes(__name__, _LAZY)
