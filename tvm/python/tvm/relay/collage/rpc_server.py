# SPDX-License-Identifier: Apache-2.0
"""`python -m tvm.relay.collage.rpc_server`: offers this machine as a device to an RPC tracker.

TVM's own server (tvm.exec.rpc_server) serves as well, but stops listening when a session ends
badly, as when its client is killed; this one listens again. It runs whatever a client sends it:
for trusted networks alone. Docs: docs/devices.md. Test: rpc/test_devices.py.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Sequence

from tvm.rpc.server import PopenRPCServerState

from .errors import DeviceError
from .rpc.tracker import Address, check_key

_logger = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


def serve(tracker: Address, host: str, port: int, port_end: int, **registered: str | None) -> None:
    """Serve until the process ends, `registered` as the tracker tells clients: the key, and an
    address; OSError when no port of the range is free."""
    while True:
        state = PopenRPCServerState(host, port, port_end, tracker_addr=tuple(tracker), **registered)
        state.thread.join()
        state.sock.close()
        _logger.warning("a session ended badly; listening again")
        time.sleep(_PAUSE_SECONDS)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tvm.relay.collage.rpc_server",
        description="Offer this machine to an RPC tracker, for Collage to measure on.",
        epilog="Whoever reaches the tracker can run code here: use it in trusted networks alone.",
    )
    parser.add_argument("--tracker", required=True, metavar="HOST:PORT", type=Address.parse)
    parser.add_argument(
        "--key", required=True, type=check_key, help="what devices of this kind are called"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at: %(default)s")
    parser.add_argument("--port", type=int, default=9090, help="first port to try: %(default)s")
    parser.add_argument("--port-end", type=int, default=9199, help="the last one: %(default)s")
    parser.add_argument("--custom-addr", help="address that the tracker tells clients")
    try:
        options = parser.parse_args(arguments)
    except DeviceError as error:
        parser.error(str(error))
    try:
        serve(**vars(options))
    except KeyboardInterrupt:
        os._exit(130)  # the listening thread would keep the process


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
