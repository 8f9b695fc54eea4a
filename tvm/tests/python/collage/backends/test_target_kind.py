# SPDX-License-Identifier: Apache-2.0
"""Target kinds of backends, taken beside a host by TVM; known from `import tvm` on, as
backends/dnnl/test_stock.py has it."""

import pytest
import tvm
from tvm.relay.collage.relay_util.external import is_external
from tvm.target import Target, make_compilation_config

register = tvm.get_global_func("collage.RegisterTargetKind")


def test_it_is_an_external_code_generator_on_the_cpu():
    target = Target("dnnl")
    assert is_external(target)
    assert target.get_target_device_type() == tvm.cpu().device_type
    assert not is_external(Target("llvm"))


def test_a_kind_that_lowers_functions_to_tir_is_external_too():
    assert is_external(Target("example_target_hook"))


def test_a_compilation_takes_it_beside_the_host():
    with tvm.transform.PassContext() as context:
        config = make_compilation_config(context, [Target("llvm"), Target("dnnl")])
    assert [target.kind.name for target in config.primitive_targets] == ["llvm", "dnnl"]
    assert config.host_target.kind.name == "llvm"


def test_a_second_registration_is_harmless():
    assert register("target_kind_test", 1)
    assert not register("target_kind_test", 1)
    assert not register("dnnl", 1)
    assert is_external(Target("target_kind_test"))


def test_tvms_own_kinds_stay_as_they_are():
    before = str(Target("llvm"))
    assert not register("llvm", 1)
    assert str(Target("llvm")) == before and not is_external(Target("llvm"))


def test_attributes_parse_and_survive_export():
    target = Target("dnnl -keys=cpu,fast -device=x -model=y -libs=a,b", host="llvm")
    assert (str(target.attrs["device"]), str(target.attrs["model"])) == ("x", "y")
    assert [str(item) for item in target.attrs["libs"]] == ["a", "b"]
    assert [str(key) for key in target.keys] == ["cpu", "fast", "x"]
    assert target.host.kind.name == "llvm"
    assert str(Target(dict(target.export()))) == str(target)


def test_an_unknown_attribute_is_tvms_own_error():
    with pytest.raises(ValueError, match="Cannot recognize 'nope'"):
        Target("dnnl -nope=1")
