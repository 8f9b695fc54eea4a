# SPDX-License-Identifier: Apache-2.0
"""What a device says of itself, and what targets, backends and compilers it refuses."""

import dataclasses

import pytest
import tvm
from tvm.relay.collage import (
    CollageOptions,
    DeviceError,
    HostTargetError,
    host_target,
    optimize,
)
from tvm.relay.collage.compile.target import maskable_features
from tvm.relay.collage.estimators.session import open_store
from tvm.relay.collage.measure import CandidateModule, Cost, MeasureOptions
from tvm.relay.collage.rpc import DeviceInfo, DevicePool
from tvm.relay.collage.rpc.device_info import (
    architecture,
    check_alike,
    check_compiler,
    describe_this_device,
    software_versions,
)
from tvm.relay.collage.store import CostStore
from tvm.target import codegen

AVX2 = ("avx", "avx2", "f16c", "fma")


def device(**changes):
    fields = {
        "address": "10.0.0.7:9090",
        "cpu": "Some Xeon, cpu family 6",
        "triple": "x86_64-unknown-linux-gnu",
        "target": "llvm -keys=cpu -mcpu=haswell",
        "features": AVX2,
        "threads": "4",
        "num_threads": 4,
        "backends": {"dnnl": "3.2.0"},
        "missing": {},
        "software": software_versions(),
    }
    return DeviceInfo(**{**fields, **changes})


ARM = {
    "cpu": "Cortex-A72",
    "triple": "aarch64-unknown-linux-gnu",
    "target": "llvm -mcpu=cortex-a72",
    "features": (),
}


def foreign_device():
    """A device of another architecture than this machine's."""
    here = architecture(codegen.llvm_get_system_triple())
    return device(**ARM) if here != "aarch64" else device()


def test_this_machine_as_a_device():
    fields = describe_this_device()
    info = DeviceInfo.from_json(fields, "here:1")
    assert info.host_target() is not None and str(info.host_target()) == str(host_target())
    assert str(host_target(3, device=info)) == str(host_target(3))
    info.check_target(host_target())
    info.check_target(tvm.target.Target("llvm"))
    assert set(info.features) <= maskable_features()
    assert info.backends.keys().isdisjoint(info.missing)


@pytest.mark.parametrize("change", [{"software": "TVM 0.18.0"}, {"more": 1}])
def test_another_version_there_is_refused(change):
    with pytest.raises(DeviceError, match="device a:1 runs .*install the same tvm-collage on both"):
        DeviceInfo.from_json({**describe_this_device(), **change}, "a:1")


def test_a_target_with_instructions_that_the_device_lacks_names_both():
    for text in ("llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell -mattr=+avx512f"):
        with pytest.raises(HostTargetError) as caught:
            device().check_target(tvm.target.Target(f"{text} -mtriple=x86_64-unknown-linux-gnu"))
        message = str(caught.value)
        assert text.split("-mcpu=")[1].split()[0] in message
        assert "device 10.0.0.7:9090 (Some Xeon, cpu family 6): the device lacks avx512f" in message
        assert "-mcpu=haswell" in message and "collage.host_target(device=...)" in message


@pytest.mark.parametrize("text", ["", "-mcpu=haswell", "-mcpu=ivybridge", "-mcpu=x86-64"])
def test_a_target_with_fewer_instructions_is_taken(text):
    device().check_target(tvm.target.Target(f"llvm {text} -mtriple=x86_64-unknown-linux-gnu"))


def test_a_target_of_another_architecture_or_arm_cpu_is_refused():
    arm = device(**ARM)
    with pytest.raises(HostTargetError, match="it is for x86_64, the device is aarch64"):
        arm.check_target(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu"))
    with pytest.raises(HostTargetError, match="CPU neoverse-n1, the device is cortex-a72"):
        arm.check_target(tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"))
    arm.check_target(arm.host_target())
    arm.check_target(tvm.target.Target("llvm -mtriple=aarch64-linux-gnu"))


def test_a_foreign_device_needs_its_triple_and_a_cross_compiler(tmp_path):
    here = architecture(codegen.llvm_get_system_triple())
    foreign = foreign_device()
    there = architecture(foreign.triple)
    assert f"-mtriple={foreign.triple}" in str(foreign.host_target())
    with pytest.raises(DeviceError) as caught:
        check_compiler(foreign, "")
    assert f"is {there}, and this {here} machine's compiler cannot link" in str(caught.value)
    assert f"relay.collage.rpc_compiler to a C++ cross compiler, e.g. '{there}-linux-gnu-g++'" in (
        str(caught.value)
    )
    with pytest.raises(DeviceError, match="the compiler 'none-such-g\\+\\+' .* is not found"):
        check_compiler(foreign, "none-such-g++")
    compiler = tmp_path / "cross-g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    check_compiler(foreign, str(compiler))


def test_a_search_is_refused_before_it_builds_what_cannot_be_linked(monkeypatch):
    foreign = foreign_device()
    monkeypatch.setattr(DevicePool, "info", property(lambda self: foreign))
    x = tvm.relay.var("x", shape=(1, 8))
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.nn.relu(x)))
    options = CollageOptions(rpc_tracker="127.0.0.1:9190", rpc_key="arm", progress="quiet")
    with pytest.raises(DeviceError, match="set option relay.collage.rpc_compiler"):
        optimize(mod, None, [foreign.host_target(), "dnnl"], options)
    options.rpc_compiler = "true"  # is found: then the target is looked at
    with pytest.raises(HostTargetError, match="does not fit device 10.0.0.7:9090"):
        optimize(mod, None, ["llvm", "dnnl"], options)


def test_a_backend_that_is_missing_there_is_named():
    info = device(backends={}, missing={"dnnl": "libdnnl.so.3 is not found (pi4)"})
    with pytest.raises(DeviceError) as caught:
        info.check_backends(["tvm", "dnnl"])
    assert "cannot run dnnl: libdnnl.so.3 is not found (pi4); install" in str(caught.value)
    info.check_backends(["tvm", "transition"])


def test_devices_that_differ_are_listed():
    other = dataclasses.replace(device(), address="10.0.0.8:9090", cpu="Another", threads="8")
    check_alike([device(), dataclasses.replace(device(), address="x:1")])
    with pytest.raises(DeviceError) as caught:
        check_alike([device(), other])
    message = str(caught.value)
    assert "differ in cpu, threads: 10.0.0.7:9090: Some Xeon, cpu family 6, threads 4" in message
    assert "10.0.0.8:9090: Another, threads 8" in message and "a key of its own" in message


def test_the_key_of_stored_costs_is_the_devices(tmp_path):
    path = tmp_path / "costs.sqlite"
    storing = CollageOptions(store=str(path)).storing
    info = device(backends={"dnnl": "9.9.9"})
    store = open_store(storing, MeasureOptions(), info)
    for backend in ("dnnl", "tvm", "cblas"):
        candidate = CandidateModule(backend=backend, target="llvm", hash="0", module="")
        store.keep(candidate, Cost.measured([1e-3] * 9))
        expected = backend != "cblas"  # it is none of the device's, so nothing there has a version
        assert (store.look_up([candidate])[0] is not None) == expected
    store.close()
    keys = {row.key.backend: row.key for row in CostStore(path).rows()}
    assert {key.cpu for key in keys.values()} == {"Some Xeon, cpu family 6"}
    assert {key.threads for key in keys.values()} == {"4"}
    assert {name: key.backend_version for name, key in keys.items()} == {"dnnl": "9.9.9", "tvm": ""}
    here = open_store(storing, MeasureOptions(), None)
    candidate = CandidateModule(backend="tvm", target="llvm", hash="0", module="")
    assert here.look_up([candidate]) == [None]
    assert "other cpu" in here.Summary()
    here.close()
