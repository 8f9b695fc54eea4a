# SPDX-License-Identifier: Apache-2.0
"""Descriptions of parts that are damaged: each is refused in one line, none crashes or hangs.

Parts of many kinds are changed in one place each, at random, then made and run in a process that
may die of it. `python runtime/test_partition_checks.py` tries every such change.
"""

import base64
import copy
import functools
import json
import subprocess
import sys

import numpy as np
import pytest
import tvm
from onednn_nets import constant, function_of, hand_placed
from survival import survive
from tree import child_environment
from tvm import relay
from tvm.relay import nn
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.dnnl.types import why_bytes_are_inexact


def var(*shape, name="x", dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def conv(x, *weights, **attributes):
    return nn.conv2d(
        x, constant(1, *weights), channels=weights[0], kernel_size=weights[2:], **attributes
    )


def grouped(groups):
    return conv(var(1, 8, 6, 6), 8, 8 // groups, 3, 3, groups=groups)


def give_weights_an_axis_of_groups(description, constants):
    """As in layout GOIHW, which TVM's own partitioning for oneDNN makes."""
    (node,) = description["nodes"]
    node["strings"]["kernel_layout"] = "GOIHW"
    groups, shapes = node["ints"]["groups"][0], description["shapes"]
    out, *rest = shapes[node["inputs"][1]]
    shapes[node["inputs"][1]] = [groups, out // groups, *rest]
    constants[0] = constants[0].reshape(shapes[node["inputs"][1]])


def residual():
    x = var(1, 16, 8, 8)
    sums = nn.bias_add(conv(x, 16, 16, 3, 3, padding=1), constant(2, 16)) + x
    return relay.sigmoid(nn.relu(sums) * constant(3, 1, 16, 1, 1))


def bytes_conv():
    x, weights = var(1, 4, 5, 5, dtype="uint8"), relay.const(np.ones((4, 4, 3, 3), "int8"))
    return nn.conv2d(x, weights, channels=4, kernel_size=(3, 3), out_dtype="int32")


def attention():
    x = var(2, 4, 6)
    scores = nn.softmax(nn.batch_matmul(x, relay.reshape(constant(1, 2, 5, 6), (2, 5, 6))))
    return relay.transpose(nn.layer_norm(scores, constant(2, 5), constant(3, 5)), (0, 2, 1))


def pieces():
    x = var(2, 6, 4)
    first, second = relay.split(x, 2, axis=1)
    return relay.reshape(relay.concatenate([second, first], 1) - x, (2, 24))


PARTS = {
    "conv": lambda: conv(var(1, 8, 6, 6), 4, 8, 3, 3, padding=(1, 0), strides=(2, 1)),
    "depthwise": lambda: conv(var(1, 8, 6, 6), 8, 1, 3, 3, groups=8, dilation=2),
    "one group": lambda: grouped(1),
    "two groups": lambda: grouped(2),
    "plain one group": lambda: grouped(1),
    "plain two groups": lambda: grouped(2),
    "residual": residual,
    # Without VNNI oneDNN's sums of bytes saturate, so that no part has them.
    **({} if why_bytes_are_inexact() else {"bytes": bytes_conv}),
    "deconv": lambda: nn.conv2d_transpose(
        var(1, 4, 5, 5), constant(1, 4, 3, 3, 3), channels=3, kernel_size=(3, 3), strides=(2, 2)
    ),
    "conv1d": lambda: nn.conv1d(var(1, 4, 9), constant(1, 4, 4, 3), channels=4, kernel_size=3),
    "dense": lambda: nn.relu(
        nn.bias_add(nn.dense(var(2, 3, 8), constant(1, 4, 8)), constant(2, 4), axis=-1)
    ),
    "attention": attention,
    "matmul": lambda: nn.batch_matmul(var(2, 3, 4), var(2, 5, 4, name="y")),
    "pieces": pieces,
    "max pool": lambda: nn.max_pool2d(var(1, 4, 7, 7), (3, 3), strides=(2, 2), padding=(1, 1)),
    "mean pool": lambda: nn.avg_pool3d(var(1, 2, 4, 4, 4), (2, 2, 2)),
    "resize": lambda: relay.image.resize2d(
        var(1, 2, 4, 4),
        (8, 8),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    "mean": lambda: relay.mean(relay.tanh(var(3, 4)), axis=1, keepdims=True),
}
OF_XNNPACK = ("conv", "depthwise", "deconv", "dense", "matmul", "pieces", "max pool", "mean")


def parts():
    """(name, kind, description, constants) of each."""
    for backend, kind, names in (("dnnl", "onednn", PARTS), ("xnnpack", "xnnpack", OF_XNNPACK)):
        if get_backend(backend).available() is not None:
            continue
        for name in names:
            function = hand_placed(function_of(PARTS[name]()), "part", backend)["part"]
            module = get_backend(backend).compile(function)
            constants = [each.numpy() for each in module["get_constants"]()]
            description = json.loads(module.get_source())
            if kind == "onednn" and name in ("one group", "two groups"):
                give_weights_an_axis_of_groups(description, constants)
            yield f"{kind} {name}", kind, description, constants


def places(value, at=()):
    """The path of each value of a description."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def changed(value):
    """What may stand in the place of a value; None for nothing."""
    if isinstance(value, dict):
        return [None, {}, [], {**value, "more": 1}]
    if isinstance(value, list):
        return [None, [], value[:-1], value * 2, [*value, 1], {}, 3, value[::-1]]
    if isinstance(value, str):
        return [None, "", "?", "NCHW", "NCWW", "OIHW", "relu", "sum", "add", "float64", "int8", 1]
    return [None, 0, 1, -1, -2, 3, value + 1, 2**31 - 1, -(2**31), 2**62, 0.5, 1e300, "x", []]


def mutants(description):
    """Every description that differs in one place."""
    for at in places(description):
        if not at:
            continue
        for to in changed(_at(description, at)):
            found = copy.deepcopy(description)
            parent = _at(found, at[:-1])
            if to is None:
                del parent[at[-1]]
            else:
                parent[at[-1]] = to
            yield found


def without_elements(description):
    """An extent of 0 at the same place of every shape, which is no single change."""
    for axis in range(max(map(len, description["shapes"]))):
        found = copy.deepcopy(description)
        for dims in found["shapes"]:
            dims[axis : axis + 1] = [0][: len(dims) - axis]
        yield found


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def create(kind, description, constants):
    text = description if isinstance(description, str) else json.dumps(description)
    return tvm.get_global_func(f"collage.{kind}.create")("part", text, constants)


def run_changed(kind, constants, description):
    """Make and run a part; what it raises is an answer as good as another."""
    module = create(kind, description, constants)
    shapes, dtypes = description["shapes"], description["dtypes"]
    tensors = [*description["inputs"], *description["outputs"]]
    module["part"](*(tvm.nd.array(np.ones(shapes[t], dtypes[t])) for t in tensors))


def cut(module):
    """Loaders of a module's saved form that ends too early, or that has a number changed."""
    saved = json.loads(tvm.ir.save_json(module))
    (node,) = (each for each in saved["nodes"] if "repr_b64" in each)
    whole = base64.b64decode(node["repr_b64"])
    begin = whole.index(module.type_key.encode()) + len(module.type_key)
    end = whole.index(b"_import_tree") - 8  # what follows is TVM's own
    changes = [whole[:at] for at in range(begin, end, 7)]
    for at in range(begin, end - 8, 11):
        changes += [whole[:at] + bytes([255] * size) + whole[at + size :] for size in (1, 8)]
    for change in changes:
        node["repr_b64"] = base64.b64encode(change).decode()
        yield json.dumps(saved)


def main(most):
    """Print what ends a process; `most` changes of each part, or all."""
    tried, rng = 0, np.random.default_rng(0)
    # The first error of a process reads the symbols of TVM's library, in 0.3 s: a fork has them.
    with pytest.raises(ValueError):
        create("onednn", "a letter to a friend", [])
    for name, kind, description, constants in parts():
        if "plain" in name:
            continue
        arrays = [tvm.nd.array(each) for each in constants]
        run = functools.partial(run_changed, kind, arrays)
        saved = cut(create(kind, description, arrays))
        attempts = ((run, mutants(description), most), (tvm.ir.load_json, saved, most))
        for attempt, changes, at_most in (*attempts, (run, without_elements(description), 0)):
            found = list(changes)
            if at_most and len(found) > at_most:
                found = [found[i] for i in rng.choice(len(found), at_most, replace=False)]
            tried += len(found)
            for chunk in (found[i : i + 200] for i in range(0, len(found), 200)):
                if (fatal := survive(attempt, chunk)) is not None:
                    print("FATAL", name, fatal[1], json.dumps(fatal[0]), flush=True)
    print("TRIED", tried)


@pytest.fixture(scope="module")
def described():
    return {name: found for name, *found in parts()}


def of_kind(description, kind):
    return next(node for node in description["nodes"] if node["kind"] == kind)


def attribute(kind, group, key, value):
    """A change of one attribute of the first node of that kind."""

    def change(description):
        of_kind(description, kind)[group][key] = value

    return change


def field(kind, key, value):
    def change(description):
        of_kind(description, kind)[key] = value

    return change


def without(kind, group, key):
    def change(description):
        del of_kind(description, kind)[group][key]

    return change


def shape(tensor, dims):
    def change(description):
        description["shapes"][tensor] = dims

    return change


# (part, change, what the error says)
WRONG = {
    "no inputs": ("conv", field("conv", "inputs", []),
        r"step 0 \(conv\): inputs: 0 of them, not 2"),
    "groups 0": ("conv", attribute("conv", "ints", "groups", [0]), "groups: 0 is not from 1"),
    "groups 3": ("conv", attribute("conv", "ints", "groups", [3]), "groups: they do not divide 8"),
    "short strides": ("conv", attribute("conv", "ints", "strides", [1]),
        "strides: 1 numbers, not 2"),
    "no dilation": ("conv", without("conv", "ints", "dilation"), "dilation: it is missing"),
    "layout": ("conv", attribute("conv", "strings", "data_layout", "NNHW"),
        "data_layout: 'NNHW' does not"),
    "short begin": ("pieces", attribute("slice", "ints", "begin", [0]), "begin: 1 numbers, not 3"),
    "begin": ("pieces", attribute("slice", "ints", "begin", [0, 4, 0]),
        "begin: the slice ends out"),
    "axes": ("attention", attribute("transpose", "ints", "axes", [0, 1, 1]), "axes: one is named"),
    "axis": ("pieces", attribute("concat", "ints", "axis", [3]), "axis: 3 is not from 0 to 2"),
    "operand": ("residual", lambda d: d["nodes"][0]["post_ops"][0].update(input=-1),
        "sum lacks its operand"),
    "function": ("residual", lambda d: d["nodes"][0]["post_ops"][0].update(kind="x"),
        "unknown function 'x'"),
    "transposition": ("matmul", attribute("matmul", "ints", "transpose_b", [2]),
        "transpose_b: 2 is not from 0 to"),
    "extent": ("mean", shape(0, [3, -4]), "tensor 0 cannot have shape 3x-4"),
    "no elements": ("mean", shape(0, [0, 4]), "tensor 0 has no elements: 0x4"),
    "size": ("mean", shape(0, [2**31] * 3), "tensor 0 cannot have shape"),
    "result": ("mean", shape(1, [5, 4]), r"step 0 \(eltwise\): result: 5x4 where 3x4 is wanted"),
    "tensor": ("mean", field("reduce", "inputs", [9]), r"\(reduce\): inputs: tensor 9 is used"),
    "format": ("mean", lambda d: d.update(format=0), "format 0 where this library reads 1 to 2"),
    "key": ("mean", lambda d: d.update(more=1), "wrong: JSONReader: Unknown field more"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name, described):
    part, change, message = WRONG[name]
    kind, description, constants = described[f"onednn {part}"]
    description = copy.deepcopy(description)
    change(description)
    with pytest.raises(ValueError, match=message) as error:
        create(kind, description, [tvm.nd.array(each) for each in constants])
    assert str(error.value).strip().splitlines()[-1].startswith("ValueError: the description of a")


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"format": 3}, "format 3 where this library reads 1 to 2; compile the model again"),
        ({"dtypes": ["float32"]}, "1 dtypes of 3 tensors"),
        ({"dtypes": ["float32", "flöat", "float32"]}, "tensor 1 has unknown type 'fl??at'"),
    ],
)
def test_the_line_says_no_more(change, reason, described):
    kind, description, _ = described["onednn mean"]
    text = json.dumps({**description, **change}, ensure_ascii=False)
    with pytest.raises(ValueError) as error:
        create(kind, text, [])
    line = str(error.value).strip().splitlines()[-1]
    assert line == f"ValueError: the description of a part is wrong: {reason}"


def test_no_description_at_all(described):
    kind, description, _ = described["onednn mean"]
    whole = json.dumps(description)
    for text in ("a letter to a friend", *(whole[:end] for end in range(len(whole)))):
        with pytest.raises(ValueError, match="the description of a part is wrong"):
            create(kind, text, [])


@pytest.mark.parametrize("part, where", [("onednn matmul", b"tmul"), ("onednn matmul", b"part")])
def test_bytes_that_are_no_text_are_told(part, where, described):
    """In the name of an operation or of the part, as in a library that was damaged."""
    kind, description, constants = described[part]
    saved = json.loads(tvm.ir.save_json(create(kind, description, constants)))
    (node,) = (each for each in saved["nodes"] if "repr_b64" in each)
    whole = base64.b64decode(node["repr_b64"])
    damaged = whole.replace(where, b"\xff" + where[1:], 1)
    node["repr_b64"] = base64.b64encode(damaged).decode()
    told = r"unknown operation 'ma\?mul'|its name is '\?art', which is not ASCII"
    with pytest.raises(ValueError, match=f"the description of a part is wrong: .*({told})"):
        tvm.ir.load_json(json.dumps(saved))


def test_a_part_of_format_1_runs(described):
    """It was saved with names of its constants, whose arrays TVM's const loader brought."""
    kind, description, constants = described["onednn dense"]
    arrays = [tvm.nd.array(each) for each in constants]
    old = create(kind, {**description, "format": 1}, [f"dnnl_part_{i}" for i in range(len(arrays))])
    old = tvm.ir.load_json(tvm.ir.save_json(old))
    old["__init_part"](arrays)
    outputs = []
    for module in (old, create(kind, description, arrays)):
        outputs.append(tvm.nd.empty((2, 3, 4)))
        module["part"](tvm.nd.array(np.ones((2, 3, 8), "float32")), outputs[-1])
    np.testing.assert_array_equal(*(each.numpy() for each in outputs))


@pytest.mark.parametrize("groups", ["one group", "two groups"])
def test_weights_with_an_axis_of_groups(groups, described):
    """Also where there is one group, and always by our own kernel where that can be."""
    kind, description, constants = described[f"onednn {groups}"]
    description = copy.deepcopy(description)
    description["nodes"][0]["strings"]["winograd"] = "always"
    outputs = []
    for each in (description, described[f"onednn plain {groups}"][1]):
        arrays = [tvm.nd.array(c.reshape(each["shapes"][1])) for c in constants]
        x, out = np.random.default_rng(0).standard_normal((1, 8, 6, 6)), tvm.nd.empty((1, 8, 4, 4))
        create(kind, each, arrays)["part"](tvm.nd.array(x.astype("float32")), out)
        outputs.append(out.numpy())
    np.testing.assert_allclose(*outputs, atol=1e-4)


def test_changed_descriptions_end_no_process():
    done = subprocess.run(
        [sys.executable, __file__, "8"],
        env=child_environment(TVM_NUM_THREADS="1"),
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "FATAL" not in done.stdout, done.stdout
    assert int(done.stdout.split()[-1]) > 250


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
