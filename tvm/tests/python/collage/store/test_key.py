# SPDX-License-Identifier: Apache-2.0
"""The store's key: hashes that are the same in every process, and what of the machine is in it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from relay_text import parse
from tree import child_environment
from tvm import relay
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.collage import host_target
from tvm.relay.collage.backends import Backend, registry
from tvm.relay.collage.machine import environment
from tvm.relay.collage.machine.environment import cpu_model, thread_text
from tvm.relay.collage.measure import MeasureOptions, candidate_module
from tvm.relay.collage.plans.greedy import greedy_partition
from tvm.relay.collage.relay_util.external import TRANSITION, TVM_BACKEND
from tvm.relay.collage.store import Environment
from tvm.relay.collage.store.key import CandidateKeys, alone_text, measuring_text, stored_version
from tvm_collage.threads import CpuSet


def candidates():
    """TVM's own and a part of oneDNN's, with weights, scalars, attributes and a tuple."""
    mod = parse(
        """def @main(%x: Tensor[(1, 8, 16, 16), float32], %i: Tensor[(3), int64],
                     %w: Tensor[(8, 8, 3, 3), float32]) {
          %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
          %1 = nn.relu(%0);
          %2 = (clip(%1, a_min=0.5f, a_max=6f), %1);
          %3 = concatenate(%2, axis=1);
          (take(%3, %i, axis=2), multiply(%3, 2.5f))
        }"""
    )
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")
    mod["main"] = bind_params_by_name(mod["main"], {"w": tvm.nd.array(weight)})
    mod = tvm.relay.transform.InferType()(mod)
    target = host_target()
    parts = greedy_partition(mod, "dnnl")
    return [
        candidate_module(mod, "tvm", target, {"opt_level": 3}),
        candidate_module(parts, "dnnl", target, {"opt_level": 3}),
    ]


def test_the_hash_is_the_same_in_every_process():
    hashes = [candidate.hash for candidate in candidates()]
    assert len(set(hashes)) == 2
    code = "import test_key; print(*(candidate.hash for candidate in test_key.candidates()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment(Path(__file__).parent, PYTHONHASHSEED="12345"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == hashes, done.stderr


CPUINFO = {
    "x86": (
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
        "model name\t: AMD EPYC\nstepping\t: 1\n\nprocessor\t: 1\nmodel name\t: other\n",
        "AMD EPYC, cpu family 25, model 17, stepping 1",
    ),
    "arm": (
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        f"{os.uname().machine}, CPU implementer 0x41, CPU part 0xd0c",
    ),
    "none": ("", os.uname().machine),
}


@pytest.mark.parametrize("kind", CPUINFO)
def test_the_processor_has_a_name(tmp_path, kind):
    text, name = CPUINFO[kind]
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_model(str(tmp_path / "cpuinfo")) == name
    assert cpu_model(str(tmp_path / "missing")) == os.uname().machine


def fake_machine(monkeypatch, cpus, cores=0, nodes=1, caches=1, quota=None):
    found = CpuSet(cpus, cores or cpus, nodes, caches, quota)
    monkeypatch.setattr(environment, "cpu_set", lambda: found)


def test_threads_are_tvms_and_what_is_unusual_about_them(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "4")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.delenv("COLLAGE_SPREAD_THREADS", raising=False)
    fake_machine(monkeypatch, 4)
    assert thread_text() == "4"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    assert thread_text() == "4, OMP_NUM_THREADS 2, OMP_PROC_BIND spread"


CPUS = {
    "hyper-threads": ({"cpus": 8, "cores": 4}, "4, 8 CPUs"),
    "two of a core": ({"cpus": 4, "cores": 2}, "4, 2 cores"),
    "fewer": ({"cpus": 1}, "4, 1 CPUs, 1 cores"),
    "two sockets": ({"cpus": 4, "nodes": 2, "caches": 2}, "4, 2 nodes, 2 L3 caches"),
    "quota": ({"cpus": 64, "cores": 32, "quota": 4.5}, "4, 64 CPUs, 32 cores, quota 4.5"),
    "unreadable": ({"cpus": 4, "nodes": 0, "caches": 0}, "4"),
}


@pytest.mark.parametrize("kind", CPUS)
def test_the_kind_of_cpus_and_the_quota_are_in_the_key(monkeypatch, kind):
    facts, text = CPUS[kind]
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "4")
    fake_machine(monkeypatch, **facts)
    assert thread_text() == text == Environment.here().threads


def test_options_that_change_results_are_in_the_key_and_others_are_not():
    plain = measuring_text(MeasureOptions())
    assert measuring_text(MeasureOptions(workers=7, budget_seconds=9, run_timeout=1)) == plain
    assert measuring_text(MeasureOptions(imports=("my_backend",))) == plain
    assert measuring_text(MeasureOptions(seed=3)) == plain + ' {"seed": 3}'
    assert "builder" in measuring_text(MeasureOptions(builder="a:b"))


def test_the_environment_of_this_process():
    here = Environment.here()
    assert here.device == "cpu" and here.cpu and here.threads[0].isdigit()
    assert here.tvm.startswith(f"{tvm.__version__} ") and " LLVM " in here.tvm


def test_schedules_from_elsewhere_are_another_key(monkeypatch):
    monkeypatch.setenv("TOPHUB_LOCATION", "NONE")
    plain = Environment.here()
    monkeypatch.setenv("TOPHUB_LOCATION", "/logs")
    assert Environment.here() == plain._replace(tvm=f"{plain.tvm} TopHub /logs")


def test_versions_of_backends(monkeypatch, caplog):
    monkeypatch.setattr(registry, "REGISTERED", dict(registry.REGISTERED))
    monkeypatch.setattr("tvm.relay.collage.process_wide.logs.warned", set())

    def register(name, version=None, module=__name__):
        fields = {"name": name, "__module__": module}
        fields |= {"version": version} if version else {}
        registry.register_backend(type(name, (Backend,), fields)())

    def broken(self):
        raise OSError("no library")

    register("store_own")
    register("store_script", lambda self: "1", "__main__")
    register("store_versioned", lambda self: "1")
    register("store_broken", broken)
    assert stored_version(TVM_BACKEND) == stored_version(TRANSITION) == ""
    assert stored_version("dnnl") and stored_version("store_versioned") == "1"
    for name in ("store_own", "nobody", "store_script", "store_broken"):
        assert stored_version(name) is None
    [record] = caplog.records
    assert "'store_broken' has no version" in record.getMessage()


def test_only_what_keeps_bytes_of_its_own_has_another_cost_in_another_network():
    x = relay.var("x", shape=(4, 32))
    weight = relay.const(np.ones((32, 32), "float32"))
    inside = relay.nn.softmax(relay.transpose(x))
    dense, softmax, relu = (
        candidate_module(tvm.IRModule.from_expr(relay.Function([x], body)), "tvm", host_target())
        for body in (relay.nn.dense(x, weight), inside, relay.nn.relu(x))
    )
    keys = {}
    for network_bytes in (1 << 20, 2 << 20):
        options = MeasureOptions(network_bytes=network_bytes)
        here = Environment.here(options)
        of = CandidateKeys(here, lambda backend: "1", alone_text(options)).of
        keys[network_bytes] = of(dense), of(softmax), of(relu)
    (*one, one_relu), (*other, other_relu) = keys.values()
    assert [a.differences(b) for a, b in zip(one, other, strict=True)] == [["measuring"]] * 2
    assert one_relu == other_relu
