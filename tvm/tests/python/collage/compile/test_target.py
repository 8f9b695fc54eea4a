# SPDX-License-Identifier: Apache-2.0
"""The target that names this machine's CPU."""

import numpy as np
import pytest
import tvm
from onednn_nets import run
from tvm import relay
from tvm.relay.collage.compile import host_target
from tvm.relay.collage.compile.target import hidden_features, read_cpu_flags, unfit_features
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


@pytest.mark.parametrize(
    "cpu, unfit",
    [
        ("znver4", ["avx512vnni"]),
        ("sapphirerapids", ["avx512vnni", "avxvnni", "amx-int8"]),
        ("skylake-avx512", []),
    ],
)
def test_what_tvm_cannot_compile_8_bits_with_is_left_out(cpu, unfit):
    assert unfit_features(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") == unfit
    names = {str(each) for each in tvm.target.codegen.llvm_get_cpu_features(host_target())}
    assert not names & {"avx512vnni", "avxvnni", "amx-int8"}


def test_a_layer_in_8_bits_builds():
    x = relay.var("x", shape=(1, 16, 8, 8), dtype="uint8")
    kernel = relay.const(np.ones((16, 16, 3, 3), "int8"))
    zero, one = relay.const(0, "int32"), relay.const(1.0, "float32")
    body = relay.qnn.op.conv2d(
        x, kernel, zero, zero, one, one, kernel_size=(3, 3), channels=16, padding=(1, 1)
    )
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(body), target=host_target())
    [out] = run(library, {"x": np.ones((1, 16, 8, 8), "uint8")})
    assert out[0, 0, 4, 4] == 9 * 16 and out[0, 0, 0, 0] == 4 * 16


def test_cpu_flags(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags\t\t: fpu avx avx2\nbugs : none\n")
    assert read_cpu_flags(str(info)) == {"fpu", "avx", "avx2"}
    assert read_cpu_flags(str(tmp_path / "missing")) == frozenset()


def test_without_llvm(monkeypatch):
    monkeypatch.setattr(tvm.runtime, "enabled", lambda name: False)
    with pytest.raises(BackendUnavailableError, match=r"without LLVM.*base package"):
        host_target()
