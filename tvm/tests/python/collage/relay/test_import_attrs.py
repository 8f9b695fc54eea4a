# SPDX-License-Identifier: Apache-2.0
"""Attributes as plain data: two calls that differ anywhere in their attributes differ here too."""

import json

import numpy as np
import tvm
from tvm import relay

X = relay.var("x", shape=(2, 4))


def strided_conv(stride):
    return relay.nn.conv2d(X, X, strides=(stride, 1))


def attrs(of):
    """Return {name: value as text} of a call's or function's attributes."""
    return json.loads(tvm.get_global_func("collage.AttrsSummary")(of.attrs))


def test_numbers_texts_types_and_lists_are_data():
    weight = relay.var("w", shape=(3, 4, 1, 1))
    data = relay.var("d", shape=(1, 4, 8, 8))
    conv = attrs(relay.nn.conv2d(data, weight, strides=(2, 1), channels=3, out_dtype="float16"))
    assert conv["strides"] == "[2:int32, 1:int32]"
    assert conv["channels"] == "3:int32"
    assert conv["data_layout"] == '"NCHW"'
    assert conv["out_dtype"] == '"float16"'
    assert conv["groups"] == "1"
    assert attrs(relay.nn.pad(X, ((0, 0), (1, 2))))["pad_width"] == (
        "[[0:int32, 0:int32], [1:int32, 2:int32]]"
    )
    assert attrs(relay.nn.leaky_relu(X, 0.5))["alpha"] == "0x1p-1r"
    assert attrs(relay.nn.batch_matmul(X, X, transpose_b=False))["transpose_b"] == "0"
    assert attrs(relay.nn.dense(X, X))["units"] == "null"


PAIRS = {
    "nested list": (relay.nn.pad(X, ((0, 0), (1, 1))), relay.nn.pad(X, ((0, 0), (1, 2)))),
    "list against number": (relay.sum(X, axis=(0, 1)), relay.sum(X, axis=0)),
    "null against number": (relay.sum(X), relay.sum(X, axis=0)),
    "type of a number in a list": (
        strided_conv(tvm.tir.IntImm("int32", 8)),
        strided_conv(tvm.tir.IntImm("int64", 8)),
    ),
    "expression in a list": (
        strided_conv(tvm.tir.Var("n", "int32") * 2),
        strided_conv(tvm.tir.Var("n", "int32") * 3),
    ),
    "close reals": (relay.nn.leaky_relu(X, 0.1), relay.nn.leaky_relu(X, 0.1 + 1e-8)),
    "device": (
        relay.op.annotation.on_device(X, tvm.cpu(0)),
        relay.op.annotation.on_device(X, tvm.cuda(0)),
    ),
}


def test_calls_that_differ_in_an_attribute_have_different_attributes():
    for name, (one, other) in PAIRS.items():
        assert not tvm.ir.structural_equal(one.attrs, other.attrs), name
        assert attrs(one) != attrs(other), name


def test_equal_calls_have_equal_attributes_in_every_build_of_them():
    def build():
        n = tvm.tir.Var("n", "int32")
        return strided_conv(n * 2)

    assert attrs(build()) == attrs(build())


def test_attributes_of_functions_are_all_there():
    function = relay.Function([X], X)
    assert attrs(function) == {}
    tensor = tvm.nd.array(np.arange(3, dtype="float32"))
    marked = function.with_attr("Compiler", "dnnl").with_attr("tensor", tensor)
    marked = marked.with_attr("target", tvm.target.Target("llvm")).with_attr("map", {"a": 1})
    same = attrs(marked)
    assert same["Compiler"] == '"dnnl"'
    other = tvm.nd.array(np.arange(1, 4, dtype="float32"))
    for key, value in {"tensor": other, "target": tvm.target.Target("c"), "map": {"a": 2}}.items():
        changed = attrs(marked.with_attr(key, value))
        assert {k for k in same if same[k] != changed[k]} == {key}


def test_an_object_without_a_hash_differs_from_all_but_itself():
    function = relay.Function([X], X)
    one, other = tvm.runtime.convert(lambda: 1), tvm.runtime.convert(lambda: 1)
    keep = [function.with_attr("f", value) for value in (one, one, other)]
    first, again, another = (attrs(marked)["f"] for marked in keep)
    assert first == again
    assert first != another
