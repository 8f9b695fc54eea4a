# SPDX-License-Identifier: Apache-2.0
"""TVM's RPC tracker, asked with time limits (TVM's own client waits for ever).

Precondition: a tracker of this TVM version; its messages are those of tvm.rpc.base.
Test: rpc/test_tracker.py.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Any, NamedTuple

from tvm.rpc import base

from ..errors import DeviceError
from ..options.named import option

_ANSWER_SECONDS = 10.0


class Address(NamedTuple):
    """The address at which a tracker or a device listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read "host:port". DeviceError that names the option for anything else."""
        host, colon, port = text.rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
            raise DeviceError(
                option("rpc_tracker") + f" takes 'host:port', got {text!r}: give the "
                "address of a tracker, e.g. '192.168.0.2:9190'"
            )
        return cls(host.strip("[]"), int(port))


def check_key(key: str) -> str:
    """Check the key, and return it; DeviceError for one that TVM's messages would split."""
    if not key or len(key.split()) != 1:
        raise DeviceError(f"a device key is one word without spaces, not {key!r}")
    return key


class Ticket(NamedTuple):
    """A device that the tracker has handed out; `match` is the word that it expects."""

    device: Address
    match: str


class Tracker(contextlib.AbstractContextManager):
    """A connection to a tracker. DeviceError says what cannot be reached."""

    def __init__(self, address: Address) -> None:
        self.address = address
        try:
            self._socket = socket.create_connection(address, _ANSWER_SECONDS)
        except OSError as error:
            # The tracker takes the first free port from --port up to --port-end, 9199 by default.
            ports = f"--port {address.port} --port-end {address.port + 1}"
            raise DeviceError(
                f"no RPC tracker answers at {address} ({error}): start one there with "
                f"`python -m tvm.exec.rpc_tracker --host {address.host} {ports}`, or correct "
                + option("rpc_tracker", "relay.collage.rpc_tracker")
            ) from None
        try:
            self._socket.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            (magic,) = struct.unpack("<i", base.recvall(self._socket, 4))
        except OSError:
            magic = None
        if magic != base.RPC_TRACKER_MAGIC:
            self.close()
            raise DeviceError(f"what listens at {address} is no RPC tracker of TVM")

    def devices(self) -> dict[str, list[Address]]:
        """Registered servers by key, busy ones too."""
        found: dict[str, list[Address]] = {}
        for row in self._summary()["server_info"]:
            _, _, key = row["key"].partition(":")
            found.setdefault(key, []).append(Address(*row["addr"]))
        return found

    def free(self, key: str) -> int:
        """Return how many servers of the key are not in use."""
        return int(self._summary()["queue_info"].get(key, {}).get("free", 0))

    def request(self, key: str, seconds: float) -> Ticket | None:
        """Request a device of the key, None when none gets free in so many seconds."""
        end = time.monotonic() + seconds
        self._send([base.TrackerCode.REQUEST, key, "", 1])
        try:
            code, value = self._receive(max(0.1, end - time.monotonic()))
        except TimeoutError:
            return None
        if code != base.TrackerCode.SUCCESS:
            raise DeviceError(f"the RPC tracker at {self.address} refuses key {key!r}: {value}")
        host, port, match = value
        return Ticket(Address(host, port), match)

    def close(self) -> None:
        self._socket.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _summary(self) -> dict[str, Any]:
        self._send([base.TrackerCode.SUMMARY])
        try:
            return self._receive(_ANSWER_SECONDS)[1]
        except TimeoutError as error:
            raise self._gone(error) from error

    def _send(self, message: list[Any]) -> None:
        try:
            base.sendjson(self._socket, message)
        except OSError as error:
            raise self._gone(error) from error

    def _receive(self, seconds: float) -> Any:
        """Wait for the next answer; TimeoutError when it does not come."""
        self._socket.settimeout(seconds)
        try:
            return base.recvjson(self._socket)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._gone(error) from error

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"the RPC tracker at {self.address} does not answer any more: {error}")
