# SPDX-License-Identifier: Apache-2.0
"""What a program wants on a device stays there: on_device, device_copy, virtual devices."""

import pytest
import tvm
from relay_text import assert_equal, make_backend, parse, partition
from tvm import relay
from tvm.relay.collage import MockCostEstimator
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op import device_copy
from tvm.relay.op.annotation import on_device
from tvm.target import Target, make_compilation_config

NAME = "device_test"
CHEAP = {"llvm": 10, NAME: 1}
CPU, GPU = tvm.cpu(0), tvm.cuda(0)


@pytest.fixture(scope="module")
def backend():
    ops = ("nn.relu", "exp", "tanh")
    table = [(f"{NAME}.{op}", is_op(op)(wildcard())) for op in ops]
    table.append((f"{NAME}.add", is_op("add")(wildcard(), wildcard())))
    return make_backend(NAME, table)


def module(make):
    """The typed module of `make(x)` for a 2x4 tensor x."""
    x = relay.var("x", shape=(2, 4))
    mod = tvm.IRModule.from_expr(relay.Function([x], make(x)))
    return relay.transform.InferType()(mod)


def placed(mod, backend):
    """Which operators the backend gets, and the reasons of the others."""
    estimator = MockCostEstimator(CHEAP)
    result = partition(mod, [backend], estimator)
    parts = [name for name in result.get_global_vars() if "collage_" in name.name_hint]
    rows = [row for report in estimator.reports for row in report.unplaced]
    reasons = {row.op: (row.why, row.message) for row in rows}
    return sorted(name.name_hint.removeprefix(f"collage_{NAME}_") for name in parts), reasons


def test_what_is_wanted_on_another_device_is_not_the_backends(backend):
    mod = module(lambda x: on_device(relay.nn.relu(relay.exp(x)), GPU))
    names, reasons = placed(mod, backend)
    assert names == []
    assert reasons == {
        "exp": ("device", "the program wants it on cuda:0"),
        "nn.relu": ("device", "the program wants it on cuda:0"),
    }
    assert_equal(partition(mod, [backend], CHEAP), mod)


def test_what_is_wanted_on_the_backends_device_is_free_to_go_there(backend):
    mod = module(lambda x: relay.tanh(on_device(relay.nn.relu(x), CPU)))
    assert placed(mod, backend) == (["nn_relu", "tanh"], {})


def test_the_annotation_stays_between_the_parts(backend):
    mod = module(lambda x: relay.tanh(on_device(relay.nn.relu(x), CPU)))
    main = partition(mod, [backend], CHEAP)["main"]
    annotation = main.body.args[0]
    assert (
        annotation.op.name == "on_device" and annotation.attrs.virtual_device.device_type_int == 1
    )
    assert annotation.args[0].op.name_hint == f"collage_{NAME}_nn_relu"


def test_behind_an_annotation_the_device_is_open_again(backend):
    """on_device constrains what it reads; what reads it may be elsewhere."""
    mod = module(lambda x: relay.tanh(on_device(relay.nn.relu(x), GPU)))
    assert placed(mod, backend)[0] == ["tanh"]


def test_an_annotation_of_both_sides(backend):
    mod = module(lambda x: relay.tanh(on_device(relay.nn.relu(x), GPU, constrain_result=True)))
    assert placed(mod, backend)[0] == []


def test_a_copy_has_a_device_on_each_side(backend):
    there_and_back = lambda x: device_copy(  # noqa: E731
        relay.tanh(device_copy(relay.nn.relu(x), CPU, GPU)), GPU, CPU
    )
    names, reasons = placed(module(lambda x: relay.exp(there_and_back(x))), backend)
    assert names == ["exp", "nn_relu"]
    assert reasons["tanh"] == ("device", "the program wants it on cuda:0")


def test_values_on_two_devices_are_never_in_one_part(backend):
    def make(x):
        left = on_device(relay.nn.relu(x), GPU)
        return relay.add(relay.exp(left), relay.tanh(on_device(relay.exp(x), CPU)))

    # x is read on both devices, so nothing that shares its domain is the backend's.
    names, reasons = placed(module(make), backend)
    assert names == ["exp_tanh_add"]
    assert reasons["exp"] == ("device", "the program wants it on several devices")


def test_another_cpu_is_another_device(backend):
    mod = module(lambda x: on_device(relay.nn.relu(x), tvm.cpu(1)))
    assert placed(mod, backend)[1] == {"nn.relu": ("device", "the program wants it on cpu:1")}


def test_another_memory_is_another_device(backend):
    texture = tvm.target.VirtualDevice(CPU, memory_scope="global.texture")
    mod = module(lambda x: on_device(relay.nn.relu(x), texture))
    message = "the program wants it on cpu:0 global.texture"
    assert placed(mod, backend)[1] == {"nn.relu": ("device", message)}


def planned(mod, *targets):
    """The module as TVM plans it: devices on parameters and functions, on_device inside."""
    with tvm.transform.PassContext(opt_level=3) as context:
        config = make_compilation_config(context, [Target(name) for name in targets])
        return relay.transform.PlanDevices(config)(mod)


def test_a_function_that_tvm_planned_for_the_cpu_keeps_its_virtual_devices(backend):
    mod = planned(module(lambda x: relay.nn.relu(on_device(relay.exp(x), CPU))), "llvm")
    assert placed(mod, backend)[0] == ["exp_nn_relu"]
    result = partition(mod, [backend], CHEAP)["main"]
    assert result.virtual_device_ == mod["main"].virtual_device_
    assert result.params[0].virtual_device_ == mod["main"].params[0].virtual_device_


def test_a_function_that_tvm_planned_for_two_devices(backend):
    mod = module(lambda x: relay.tanh(on_device(relay.nn.relu(x), GPU)))
    x = mod["main"].params[0]
    assert placed(planned(mod, "llvm", "cuda"), backend)[0] == ["tanh"]
    assert x.virtual_device_.device_type_int == -1  # TVM's own module was not changed


def test_branches_closures_and_lets_are_on_their_values_device(backend):
    on_gpu = tvm.IRModule.from_expr(
        parse(
            """def @main(%c: bool, %x: $T) {
              let %f = fn (%z: $T) -> $T { if (%c) { tanh(%z) } else { exp(%z) } };
              %f(nn.relu(%x))
            }"""
        )["main"]
    )
    body = on_device(on_gpu["main"].body, GPU)
    mod = tvm.IRModule.from_expr(relay.Function(on_gpu["main"].params, body))
    assert placed(relay.transform.InferType()(mod), backend)[0] == []
