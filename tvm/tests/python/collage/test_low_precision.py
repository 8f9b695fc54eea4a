# SPDX-License-Identifier: Apache-2.0
"""Nets in 8 bits, float16, bfloat16: outputs beside onnxruntime's, on TVM and through Collage."""

import functools

import models
import numpy as np
import onnx
import pytest
import tvm
from models.graph import Graph
from models.low_precision import halve, in_bfloat16, quantise
from onednn_nets import run
from relay_text import is_external, operators, plain_host
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.backends import get_backend, greedy_partition
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.exec.arrays import as_numbers
from tvm.relay.collage.measure import MeasureOptions, output_error
from tvm.relay.collage.measure.outputs.reference import evaluate
from tvm.relay.collage.measure.outputs.tolerance import OUTPUT, output_tolerance
from tvm.relay.collage.measure.race.library_contestant import library_contestant

onnxruntime = pytest.importorskip("onnxruntime")

SHAPE = (1, 3, 16, 16)


def float_net():
    """Convolutions (one depthwise), a sum, clipping, a mean, a dense layer: MobileNet in little."""
    g = Graph("small")
    x = g.relu(g.norm(g.conv(g.input("x", SHAPE), 16, 3, 2)))
    y = g.relu(g.add(x, g.norm(g.conv(x, 16, 3))))
    y = g.norm(g.conv(y, 16, 3, group=16))
    low, high = (g.constant(value, "float32") for value in (0.0, 6.0))
    y = y._replace(name=g.op("Clip", y, low, high))
    return g.model(g.classify(y, 10))


def inputs():
    return {"x": np.random.default_rng(0).standard_normal(SHAPE, "float32")}


@functools.cache
def net(kind):
    """The ONNX model of a kind and onnxruntime's outputs."""
    model = float_net()
    if kind == "int8":
        model = quantise(model, inputs())
    if kind == "fp16":
        model = halve(model)
    if kind == "bf16":
        model = in_bfloat16(model)
    return model, onnxruntime_outputs(model)


def onnxruntime_outputs(model):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs())


@functools.cache
def prepared(kind):
    mod, params = models.to_relay(net(kind)[0])
    with tvm.transform.PassContext(opt_level=3):
        return prepare(mod, params, plain_host())


def outputs(mod):
    with tvm.transform.PassContext(opt_level=3):
        return run(build_library(mod, plain_host()), inputs())


def test_the_quantised_net_is_the_net_up_to_rounding_in_floats_between_bytes():
    (exact,), (rounded,) = net("fp32")[1], net("int8")[1]
    assert 0 < output_error([rounded], [exact]) < 0.05
    taken = set(operators(prepared("int8")))
    assert {"qnn.quantize", "qnn.dequantize", "nn.conv2d", "nn.dense"} <= taken
    assert not {"qnn.conv2d", "qnn.dense", "qnn.requantize", "qnn.add"} & taken


def test_the_halved_net_computes_in_float16_between_float32():
    model, (rounded,) = net("fp16")
    assert 0 < output_error([rounded], net("fp32")[1]) < 5e-3
    kinds = {w.data_type for w in model.graph.initializer}
    assert onnx.TensorProto.FLOAT16 in kinds and onnx.TensorProto.FLOAT not in kinds
    text = prepared("fp16").astext(show_meta_data=False)
    assert "Tensor[(1, 16, 8, 8), float16]" in text and rounded.dtype == "float32"


@pytest.mark.parametrize(
    "kind, limit",
    [("fp32", "float32"), ("fp16", "float16"), ("int8", "8 bit"), ("bf16", "bfloat16")],
)
def test_limits_follow_from_the_coarsest_type(kind, limit):
    assert output_tolerance(prepared(kind)) == OUTPUT[limit]


@pytest.mark.parametrize("kind", ["int8", "fp16"])
def test_tvm_alone_is_onnxruntime_within_the_limit(kind):
    mod = prepared(kind)
    assert output_error(outputs(mod), net(kind)[1]) <= output_tolerance(mod)


def test_bfloat16_by_tvms_own_pass_is_the_float_net_within_its_limit():
    mod = prepared("bf16")
    assert mod["main"].checked_type.ret_type.dtype == "bfloat16"
    (bits,) = outputs(mod)
    found = as_numbers(bits, "bfloat16")
    assert 0 < output_error([found], net("bf16")[1]) <= OUTPUT["bfloat16"]
    # onnxruntime runs it in float32.
    np.testing.assert_array_equal(net("bf16")[1][0], net("fp32")[1][0])
    assert models.find("resnet50_bf16")[0].name == "resnet50_bf16"


def test_bfloat16_is_compared_as_numbers_and_not_as_bits(tmp_path):
    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.nn.relu(relay.cast(x * relay.const(3.0), "bfloat16")))
    mod = relay.transform.InferType()(mod)
    data = np.array([[-1, 0, 1], [2, 1 / 3, 100]], "float32")
    wanted = np.array([[0, 0, 3], [6, 1, 300]], "float32")
    (found,) = evaluate(mod, [data], MeasureOptions().builder)
    assert found.dtype == "float32" and output_error([found], [wanted]) < 1e-2
    library, values = str(tmp_path / "net.so"), str(tmp_path / "x.npz")
    build_library(mod, plain_host()).export_library(library)
    np.savez(values, x=data)
    contestant = library_contestant(library, values)
    contestant.run()
    np.testing.assert_array_equal(contestant.outputs()[0], found)


@pytest.mark.parametrize(
    "kind, backend, is_taken",
    [
        ("int8", "dnnl", True),
        ("int8", "onnxruntime", True),
        ("int8", "openvino", True),
        ("int8", "cblas", True),
        ("int8", "mkl", True),
        ("fp16", "dnnl", False),
        ("fp16", "onnxruntime", True),
        ("fp16", "openvino", True),
        ("fp16", "cblas", False),
        ("fp16", "mkl", False),
    ],
)
def test_each_backend_takes_what_it_can_and_leaves_the_rest(kind, backend, is_taken):
    reason = get_backend(backend).available()
    if reason:
        pytest.skip(reason)
    mod = greedy_partition(prepared(kind), backend)
    assert any(is_external(function) for function in mod.functions.values()) == is_taken
    limit = OUTPUT["8 bit" if kind == "int8" else "float16"]
    assert not is_taken or output_error(outputs(mod), net(kind)[1]) <= limit


def tiny_net():
    """Two layers: TVM takes seconds to build each piece in 8 bits."""
    g = Graph("tiny")
    return g.model(g.classify(g.relu(g.conv(g.input("x", SHAPE), 8, 3, 2, bias=True)), 4))


@pytest.mark.parametrize(
    "kind",
    [
        "fp16",
        pytest.param("int8", marks=pytest.mark.slow("TVM takes seconds for each piece in 8 bits")),
    ],
)
def test_through_collage_what_a_backend_does_not_take_stays_on_tvm_and_says_why(kind):
    model = quantise(tiny_net(), inputs()) if kind == "int8" else halve(tiny_net())
    mod, params = models.to_relay(model)
    options = CollageOptions(
        measure_seconds=0.01, guard_rounds=6, guard_seconds=0.1, workers=1, progress="quiet"
    )
    result = collage.optimize(mod, params, [plain_host(), "dnnl"], options)
    limit = output_tolerance(prepared(kind))
    assert output_error(run(result.library, inputs()), onnxruntime_outputs(model)) <= limit
    report = result.to_json()
    assert not any(row["status"] == "wrong_result" for row in report["plans"])
    (function,) = report["functions"]
    assert not any(row["status"] == "wrong_result" for row in function["failures"])
    reasons = {row["why"] for row in function["unplaced"] if "conv2d" in str(row["op"])}
    # oneDNN takes no product of float16. Those of bytes it takes, in floats where sums of bytes are
    # not exact; whether its kernel then wins, alone or within a plan, or its cost is asked at all,
    # is the machine's business.
    if kind == "fp16":
        assert reasons == {"refused"} and "dnnl" in str(function["unplaced"])
    else:
        assert reasons <= {"slower", "no_better_plan", "not_measured"}


@pytest.mark.parametrize(
    "kind, computes_in, limit",
    [("fp32", "", "float32"), ("fp32", "bfloat16", "bfloat16"), ("int8", "bfloat16", "8 bit")],
)
def test_the_limit_of_a_backend_that_computes_in_less_is_the_coarser_one(kind, computes_in, limit):
    assert output_tolerance(prepared(kind), computes_in) == OUTPUT[limit]


@pytest.mark.parametrize("dtype", ["float64", "int8", "bfloat16"])
def test_the_onnx_backends_refuse_other_types_by_name(dtype):
    from tvm.relay.collage.backends.onnx_model.export import why_not_exported

    x = relay.var("x", shape=(2, 3), dtype=dtype)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(x)))
    assert f"dtype={dtype} is not supported" in why_not_exported(mod["main"].body, "onnxruntime")


def test_nets_of_the_benchmarks_are_found_in_low_precision():
    found = models.find("dcgan_fp16,mobilenetv2_int8")
    assert [each.name for each in found] == ["dcgan_fp16", "mobilenetv2_int8"]
    for name in ("dcgan_int4", "alexnet_int8"):
        with pytest.raises(ValueError, match=f"unknown net {name}"):
            models.find(name)
