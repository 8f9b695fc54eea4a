# SPDX-License-Identifier: Apache-2.0
"""TVM's own way to oneDNN (the passes of tvm.relay.op.contrib.dnnl) with our codegen and runtime.

Short nets here; TVM's whole file of tests runs when COLLAGE_TVM_TESTS names a checkout of v0.19.0
(see upstream/test_dnnl.py).
"""

import subprocess
import sys

import numpy as np
import pytest
import tvm
from onednn_nets import (
    build,
    constant,
    function_of,
    needs_vnni,
    random_inputs,
    reference,
    run,
    typed,
)
from relay_text import composites, operators
from tvm import relay
from tvm.relay import nn
from tvm.relay.op.contrib import dnnl
from tvm.relay.qnn import op as qnn
from tvm.relay.testing.temp_op_attr import TempOpAttr

LAYOUTS = {
    "nn.conv1d": dnnl.alter_conv,
    "nn.conv2d": dnnl.alter_conv,
    "nn.conv3d": dnnl.alter_conv,
    "nn.conv2d_transpose": dnnl.alter_conv_transpose,
}


def with_attr(ops, attribute, mod, *passes):
    """Run the passes while each op has the function as that attribute."""
    set_now = [TempOpAttr(op, attribute, function) for op, function in ops.items()]
    try:
        for each in set_now:
            each.__enter__()
        with tvm.transform.PassContext(opt_level=3):
            return tvm.transform.Sequential(passes)(mod)
    finally:
        for each in set_now:
            each.__exit__(None, None, None)


def partitioned(mod):
    """The module as TVM's documented sequence for oneDNN leaves it."""
    groups = dict.fromkeys(["nn.conv2d", "nn.conv2d_transpose"], dnnl.legalize_group_conv)
    before = [relay.transform.CanonicalizeOps(), relay.transform.SimplifyInference()]
    mod = with_attr(groups, "FTVMLegalize", mod, *before, relay.transform.Legalize())
    mod = altered(mod)
    mod = dnnl.rewrite_dense_bias_gelu_reshape_last(dnnl.rewrite_layer_norm(mod))
    mod = dnnl.legalize_qnn_for_dnnl(mod)
    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.transform.Sequential(
            [
                relay.transform.MergeComposite(dnnl.pattern_table()),
                relay.transform.AnnotateTarget("dnnl"),
                relay.transform.MergeCompilerRegions(),
                relay.transform.PartitionGraph(),
            ]
        )(mod)
    return dnnl.prune_dnnl_subgraphs(mod)


def altered(mod):
    passes = [relay.transform.AlterOpLayout(), relay.transform.FoldConstant()]
    return with_attr(LAYOUTS, "FTVMAlterOpLayout", mod, *passes)


def offloaded(mod):
    """Names of composites and of ops in the parts for oneDNN, and those of ops outside."""
    inside, outside = [], []
    for name, function in mod.functions.items():
        is_part = bool(function.attrs) and function.attrs.get("Compiler") == "dnnl"
        found = inside if is_part else outside
        found += operators(function) + composites(function)
        assert is_part or name.name_hint == "main"
    return inside, outside


def conv2d(groups=1):
    x = relay.var("x", shape=(1, 8, 10, 10))
    y = nn.conv2d(
        x, constant(1, 16, 8 // groups, 3, 3), channels=16, kernel_size=(3, 3), groups=groups
    )
    return nn.relu(nn.bias_add(y, constant(2, 16)))


def transposed():
    x = relay.var("x", shape=(1, 8, 10, 10))
    weights = constant(1, 8, 4, 3, 3)
    return nn.conv2d_transpose(
        x, weights, channels=8, kernel_size=(3, 3), groups=2, kernel_layout="IOHW"
    )


def norm():
    return nn.layer_norm(relay.var("x", shape=(1, 6, 32)), constant(1, 32), constant(2, 32))


NETS = {
    "conv2d": (conv2d, "dnnl.conv2d_bias_relu"),
    "grouped": (lambda: conv2d(groups=2), "dnnl.conv2d_bias_relu"),
    "transposed": (transposed, "nn.conv2d_transpose"),
    "layer_norm": (norm, "nn.layer_norm"),
    "dense": (lambda: nn.dense(relay.var("x", shape=(4, 32)), constant(1, 8, 32)), "nn.dense"),
}


@pytest.mark.parametrize("name", NETS)
def test_float32_is_partitioned_and_right(name):
    make, composite = NETS[name]
    function = function_of(make())
    inputs = random_inputs(function)
    mod = partitioned(tvm.IRModule.from_expr(function))
    inside, outside = offloaded(mod)
    assert composite in inside and [op for op in outside if op != "reshape"] == []
    (got,) = run(build(mod), inputs)
    if name == "transposed":  # TVM has no grouped one: the halves one by one
        wanted = halves(function, inputs)
    else:
        (wanted,) = reference(function_of(make()), inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def halves(function, inputs):
    kernel = function.body.args[1].data.numpy()
    outputs = []
    for half in (slice(0, 4), slice(4, 8)):
        x = relay.var("x", shape=(1, 4, 10, 10))
        weights = relay.const(kernel[half])
        body = nn.conv2d_transpose(x, weights, channels=4, kernel_size=(3, 3), kernel_layout="IOHW")
        outputs += reference(function_of(body), {"x": inputs["x"][:, half]})
    return np.concatenate(outputs, axis=1)


@needs_vnni
@pytest.mark.parametrize("has_sum", [False, True])
def test_int8_is_one_composite_and_right(has_sum):
    rng = np.random.default_rng(0)

    def number(value):
        return relay.const(value, "int32" if isinstance(value, int) else "float32")

    x = relay.var("x", shape=(1, 8, 6, 6), dtype="uint8")
    y = relay.var("y", shape=(1, 16, 4, 4), dtype="uint8")
    weights = relay.const(rng.integers(-20, 20, (16, 8, 3, 3)).astype("int8"))
    bias = relay.const(rng.integers(-50, 50, (16, 1, 1)).astype("int32"))
    scales = [number(3), number(0), number(0.2), number(0.1)]
    body = qnn.conv2d(x, weights, *scales, kernel_size=(3, 3), channels=16)
    body = relay.add(body, bias)
    steps = [number(0.02), number(0), number(0.3), number(10)]
    body = qnn.requantize(body, *steps, out_dtype="int32")
    body = relay.cast(relay.clip(body, 0, 255), "uint8")
    if has_sum:
        scales = [number(each) for each in (0.3, 10, 0.2, 15, 0.4, 4)]
        body = relay.clip(qnn.add(body, y, *scales), 0, 255)
    function = function_of(body)
    mod = partitioned(relay.transform.InferType()(tvm.IRModule.from_expr(function)))
    inside, outside = offloaded(mod)
    assert "dnnl.qnn.conv2d" in inside and inside.count("cast") == 2 + has_sum
    assert outside == []
    inputs = {
        p.name_hint: rng.integers(0, 20, [int(d) for d in p.type_annotation.shape]).astype("uint8")
        for p in function.params
    }
    (got,) = run(build(mod), inputs)
    (wanted,) = reference(function, inputs)
    assert len(np.unique(wanted)) > 5
    np.testing.assert_allclose(got.astype("int32"), wanted.astype("int32"), atol=1)


@pytest.mark.parametrize(
    "layouts",
    [("NCW", "OIW"), ("NCHW", "OIHW"), ("NHWC", "HWIO"), ("NCDHW", "OIDHW"), ("NDHWC", "DHWIO")],
    ids="-".join,
)
def test_no_layout_is_altered(layouts):
    data, kernel = layouts
    extents = {"N": 1, "C": 8, "O": 16, "I": 8}
    x = relay.var("x", shape=[extents.get(axis, 10) for axis in data])
    weights = relay.var("w", shape=[extents.get(axis, 3) for axis in kernel])
    axes = len(data) - 2
    body = getattr(nn, f"conv{axes}d")(
        x, weights, channels=16, kernel_size=(3,) * axes, data_layout=data, kernel_layout=kernel
    )
    mod = typed(body)
    attrs = altered(mod)["main"].body.attrs
    assert (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == (data, kernel, data)


SCRIPT = """
import tvm
from tvm import relay
print(tvm.target.Target("dnnl").kind.name)
for dtype in ("float64", "float32"):
    x = relay.var("x", shape=(2, 3), dtype=dtype)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(x)))
    mod = relay.transform.AnnotateTarget("dnnl")(mod)
    print("taken" if 'compiler="dnnl"' in str(mod) else "left")
"""


def test_a_new_process_knows_the_target_and_asks_our_predicates_from_the_start():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split()[-3:] == ["dnnl", "left", "taken"]


def test_a_cast_is_no_region_of_its_own_that_would_have_others_pruned():
    x = relay.cast(relay.var("x", shape=(1, 8, 10, 10), dtype="uint8"), "float32")
    pad = nn.pad(x, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])
    function = function_of(nn.avg_pool2d(pad, pool_size=(3, 3)))
    inside, outside = offloaded(partitioned(tvm.IRModule.from_expr(function)))
    assert (inside, outside) == (["nn.pad", "nn.avg_pool2d"], ["cast"])
