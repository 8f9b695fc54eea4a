# SPDX-License-Identifier: Apache-2.0
"""Trackers and keys that do not do: each is one clear error within its time. No device is needed:
a thread stands for the tracker, connections to it for servers."""

import contextlib
import socket
import struct
import threading

import pytest
import tvm
from rpc_fleet import free_port
from tvm.relay.collage import CollageOptions, DeviceError, find_device, optimize, rpc_server
from tvm.relay.collage.rpc import DeviceRunner
from tvm.relay.collage.rpc.tracker import Address, Ticket, Tracker
from tvm.rpc import base
from tvm.rpc.tracker import PopenTrackerServerState


@pytest.fixture(scope="module")
def address():
    port = free_port()
    state = PopenTrackerServerState("127.0.0.1", port, port + 1, silent=True)
    yield Address("127.0.0.1", port)
    with Tracker(Address("127.0.0.1", port)) as tracker:
        base.sendjson(tracker._socket, [base.TrackerCode.STOP, state.stop_key])
    state.thread.join(30)


@contextlib.contextmanager
def server_of(address, key, is_free=True):
    """What a server tells the tracker; nothing listens where it says."""
    connection = socket.create_connection(address)
    with connection:
        connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        base.recvall(connection, 4)
        info = {"key": f"server:{key}", "addr": [None, 9]}
        base.sendjson(connection, [base.TrackerCode.UPDATE_INFO, info])
        base.recvjson(connection)
        if is_free:
            put = [base.TrackerCode.PUT, key, (9, f"{key}:0.5"), None]
            base.sendjson(connection, put)
            base.recvjson(connection)
        yield


def error_of(action):
    with pytest.raises(DeviceError) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_devices_by_key_and_who_is_free(address):
    with (
        server_of(address, "a"),
        server_of(address, "a", is_free=False),
        server_of(address, "b"),
        Tracker(address) as tracker,
    ):
        assert tracker.devices() == {
            "a": [("127.0.0.1", 9), ("127.0.0.1", 9)],
            "b": [("127.0.0.1", 9)],
        }
        assert (tracker.free("a"), tracker.free("b"), tracker.free("c")) == (1, 1, 0)
        assert tracker.request("b", 5.0) == Ticket(Address("127.0.0.1", 9), "b:0.5")
        assert tracker.request("b", 0.2) is None


def test_a_wrong_key_says_which_there_are_and_how_to_start_one(address):
    with server_of(address, "a"), server_of(address, "b"):
        text = error_of(lambda: find_device(str(address), "c", wait_seconds=0.3))
    assert f"no device of key 'c' is registered at RPC tracker {address}" in text
    assert "it has those of 'a', 'b'" in text
    assert f"rpc_server --tracker {address} --key c" in text
    assert "; it has none." in error_of(lambda: find_device(str(address), "c", wait_seconds=0.1))


def test_a_device_that_is_in_use_or_gone_is_named(address):
    with server_of(address, "busy", is_free=False):
        text = error_of(lambda: find_device(str(address), "busy", wait_seconds=0.3))
        assert f"all devices of key 'busy' at RPC tracker {address} are in use" in text
        assert "in 0.3 s (relay.collage.rpc_wait)" in text
    with server_of(address, "gone"):
        text = error_of(lambda: find_device(str(address), "gone", wait_seconds=0.3))
        assert "127.0.0.1:9" in text


def test_no_tracker_and_something_else(address):
    port = free_port()
    text = error_of(lambda: find_device(f"127.0.0.1:{port}", "a"))
    assert f"no RPC tracker answers at 127.0.0.1:{port}" in text
    assert "python -m tvm.exec.rpc_tracker" in text

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"HTTP"))
    thread.start()
    port = listener.getsockname()[1]
    text = error_of(lambda: find_device(f"127.0.0.1:{port}", "a"))
    assert text == f"what listens at 127.0.0.1:{port} is no RPC tracker of TVM"
    thread.join()
    listener.close()


@pytest.mark.parametrize("text", ["9190", "host:", ":9190", "host:port", "host:0", "host:65536"])
def test_an_address_is_a_host_and_a_port(text):
    assert f"takes 'host:port', got {text!r}" in error_of(lambda: DeviceRunner(text, "key"))


def test_an_address_may_be_ipv6():
    assert Address.parse("[::1]:9190") == Address("::1", 9190)


@pytest.mark.parametrize("key", ["two words", "tab\tbed", " "])
def test_a_key_is_one_word(key):
    assert "one word" in error_of(lambda: DeviceRunner("127.0.0.1:9190", key))


def test_tracker_and_key_go_together():
    x = tvm.relay.var("x", shape=(1, 8))
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.nn.relu(x)))
    targets = ["llvm", "dnnl"]
    for given, missing in (("rpc_tracker", "rpc_key"), ("rpc_key", "rpc_tracker")):
        options = CollageOptions(**{given: "127.0.0.1:9190"})
        text = error_of(lambda options=options: optimize(mod, None, targets, options))
        assert f"relay.collage.{given} is set, relay.collage.{missing} is not" in text


def test_the_servers_arguments(capsys):
    for arguments in (["--tracker", "nowhere", "--key", "a"], ["--tracker", "h:1", "--key", "a b"]):
        with pytest.raises(SystemExit) as caught:
            rpc_server.main(arguments)
        assert caught.value.code == 2
    assert "one word without spaces" in capsys.readouterr().err
