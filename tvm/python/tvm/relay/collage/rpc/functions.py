# SPDX-License-Identifier: Apache-2.0
"""The packed functions by which a client reaches rpc/service.py, registered in every process.

They are collage.device.{open,submit,poll}. Importing this costs next to nothing; the service is
imported by the first call. Test: test_rpc_devices.py.
"""

import functools

import tvm

PREFIX = "collage.device."


@functools.cache
def _service():
    from .service import Service

    return Service()


def install():
    """Register the functions, once a process."""
    for name in ("open", "submit", "poll"):
        tvm.register_func(
            PREFIX + name,
            lambda argument, name=name: getattr(_service(), name)(argument),
            override=True,
        )
