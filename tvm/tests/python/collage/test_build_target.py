# SPDX-License-Identifier: Apache-2.0
"""The target that names this machine's CPU."""

import pytest
import tvm
from tvm.relay.collage.build import host_target
from tvm.relay.collage.build.target import hidden_features, read_cpu_flags
from tvm.relay.collage.errors import BackendUnavailableError


def test_names_the_cpu():
    target = host_target()
    assert target.kind.name == "llvm"
    assert str(target.mcpu) == tvm.target.codegen.llvm_get_system_cpu()
    assert tvm.target.codegen.llvm_get_cpu_features(target)


def test_cores():
    assert int(host_target(num_cores=4).attrs["num-cores"]) == 4
    assert "num-cores" not in host_target().attrs
    with pytest.raises(ValueError, match="num_cores must be at least 1"):
        host_target(num_cores=0)


def test_hidden_features():
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    assert hidden_features(target, frozenset()) == []
    shown = frozenset(["avx", "avx2", "fma", "f16c"])
    hidden = hidden_features(target, shown)
    assert "avx512f" in hidden and "avx2" not in hidden and "amx-tile" not in hidden


def test_cpu_flags(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags\t\t: fpu avx avx2\nbugs : none\n")
    assert read_cpu_flags(str(info)) == {"fpu", "avx", "avx2"}
    assert read_cpu_flags(str(tmp_path / "missing")) == frozenset()


def test_without_llvm(monkeypatch):
    monkeypatch.setattr(tvm.runtime, "enabled", lambda name: False)
    with pytest.raises(BackendUnavailableError, match=r"without LLVM.*base package"):
        host_target()
