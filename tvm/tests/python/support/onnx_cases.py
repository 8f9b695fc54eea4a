# SPDX-License-Identifier: Apache-2.0
"""Calls of every op that Collage writes as ONNX, and what TVM makes of them."""

import functools

import numpy as np
import tvm
from relay_text import PLAIN, PLAIN_WITHOUT
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.ops import KINDS, Recurrence, recurrence
from tvm.relay.collage.relay_util.walk import tensors_of


def f(*shape):
    return ("float32", shape)


def i(dtype, bound, *shape):
    """Indices below a bound."""
    return (f"{dtype}<{bound}", shape)


def positive(*shape):
    return ("positive", shape)


def boolean(*shape):
    return ("bool", shape)


nn = relay.nn


def layer(kind, direction="forward", result=0, **settings):
    """A recurrent layer of 4 steps, a batch of 2 and 3 units: types of its operands, function."""
    settings = {"activations": KINDS[kind].activations, **settings}
    what, gates = Recurrence(kind, direction, **settings), 3 * KINDS[kind].gates
    d = what.directions
    types = [f(4, 2, d, gates), f(d, 3, gates), f(d, gates), i("int32", 5, 2)]
    types += [f(d, 2, 3)] * KINDS[kind].states
    return types, lambda *operands: relay.TupleGetItem(recurrence(what, *operands), result)


# Name -> (types of the inputs, function of their variables).
CASES = {
    "gru": layer("GRU", "reverse"),
    "gru linear_before_reset": layer("GRU", linear_before_reset=True),
    "lstm": layer("LSTM", "bidirectional"),
    "lstm's cell": layer("LSTM", "reverse", 2),
    "rnn": layer("RNN", "bidirectional", 1, activations=("Relu",)),
    "conv1d": ([f(1, 4, 20), f(6, 4, 3)], lambda x, w: nn.conv1d(x, w, strides=2, padding=(1, 2))),
    "conv2d": (
        [f(2, 4, 9, 9), f(6, 2, 3, 3)],
        lambda x, w: nn.conv2d(
            x, w, strides=(2, 1), padding=(0, 1, 2, 1), dilation=(1, 2), groups=2
        ),
    ),
    "conv2d one pad": ([f(1, 4, 9, 9), f(6, 4, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=1)),
    "conv2d NHWC": (
        [f(1, 9, 9, 4), f(3, 3, 4, 6)],
        lambda x, w: nn.conv2d(
            *(x, w), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO", channels=6,
            kernel_size=(3, 3),
        ),
    ),
    "conv2d depthwise": (
        [f(1, 9, 9, 4), f(3, 3, 4, 2)],
        lambda x, w: nn.conv2d(
            *(x, w), groups=4, data_layout="NHWC", kernel_layout="HWOI", channels=8,
            kernel_size=(3, 3),
        ),
    ),
    "conv3d": ([f(1, 3, 5, 6, 7), f(4, 3, 2, 3, 3)], lambda x, w: nn.conv3d(x, w, padding=1)),
    "conv2d_transpose": (
        [f(1, 4, 5, 5), f(4, 3, 4, 4)],
        lambda x, w: nn.conv2d_transpose(
            *(x, w), strides=(2, 2), padding=(1, 1), output_padding=(1, 1), channels=3,
            kernel_size=(4, 4),
        ),
    ),
    "conv1d_transpose": (
        [f(1, 4, 5), f(4, 3, 4)],
        lambda x, w: nn.conv1d_transpose(
            x, w, strides=(2,), padding=(1,), channels=3, kernel_size=(4,)
        ),
    ),
    "max_pool2d": (
        [f(1, 3, 9, 9)],
        lambda x: nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), ceil_mode=True),
    ),
    "max_pool2d NHWC": ([f(1, 9, 9, 3)], lambda x: nn.max_pool2d(x, (2, 2), layout="NHWC")),
    "avg_pool2d": (
        [f(1, 3, 9, 9)],
        lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 1), count_include_pad=True),
    ),
    "avg_pool2d valid": (
        [f(1, 3, 9, 9)], lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 0, 1, 1)),
    ),
    "avg_pool2d ceil": (
        [f(1, 3, 8, 9)],
        lambda x: nn.avg_pool2d(x, (3, 2), (2, 2), padding=(1, 0), ceil_mode=True),
    ),
    "avg_pool2d ceil of even sizes": (
        [f(1, 3, 8, 6)],
        lambda x: nn.avg_pool2d(x, (2, 2), (2, 2), ceil_mode=True, count_include_pad=True),
    ),
    "max_pool1d": ([f(1, 3, 9)], lambda x: nn.max_pool1d(x, (3,), (2,))),
    "avg_pool3d": ([f(1, 3, 6, 6, 6)], lambda x: nn.avg_pool3d(x, (2, 2, 2), (2, 2, 2))),
    "global_avg_pool2d": ([f(2, 3, 5, 6)], nn.global_avg_pool2d),
    "global_max_pool2d": ([f(2, 3, 5, 6)], nn.global_max_pool2d),
    "adaptive_avg_pool2d": ([f(2, 3, 6, 8)], lambda x: nn.adaptive_avg_pool2d(x, (2, 4))),
    "adaptive_max_pool2d": ([f(2, 3, 6, 8)], lambda x: nn.adaptive_max_pool2d(x, (1, 1))),
    "adaptive_avg_pool3d": ([f(2, 3, 4, 4, 4)], lambda x: nn.adaptive_avg_pool3d(x, (1, 1, 1))),
    "dense": ([f(5, 7), f(3, 7)], nn.dense),
    "matmul": ([f(7, 5), f(3, 7)], lambda a, b: nn.matmul(a, b, None, "", True, True)),
    "batch_matmul": ([f(4, 5, 7), f(4, 3, 7)], nn.batch_matmul),
    "batch_matmul broadcast": (
        [f(4, 5, 7), f(1, 7, 3)], lambda a, b: nn.batch_matmul(a, b, "", False, False),
    ),
    "bias_add": ([f(2, 3, 4, 4), f(3)], nn.bias_add),
    "bias_add last": ([f(2, 3), f(3)], lambda x, b: nn.bias_add(x, b, axis=-1)),
    "prelu": ([f(2, 3, 4, 4), f(3)], nn.prelu),
    "leaky_relu": ([f(2, 3)], lambda x: nn.leaky_relu(x, 0.2)),
    "clip": ([f(2, 3)], lambda x: relay.clip(x, -0.5, 0.5)),
    "softmax": ([f(2, 3, 4)], lambda x: nn.softmax(x, axis=1)),
    "log_softmax": ([f(2, 4)], nn.log_softmax),
    **{
        name: ([f(2, 3)], getattr(relay, name))
        for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "negative", "sigmoid", "sin",
                     "tanh", "copy")
    },
    "relu": ([f(2, 3)], nn.relu),
    **{name: ([positive(2, 3)], getattr(relay, name)) for name in ("log", "sqrt", "rsqrt")},
    "times rsqrt": ([f(2, 3), positive(2, 3)], lambda x, y: relay.rsqrt(y) * x),
    **{
        name: ([f(2, 1, 3), f(4, 3)], getattr(relay, name))
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal",
                     "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    "power": ([positive(2, 3), f(2, 3)], relay.power),
    "add int": ([i("int64", 9, 3), i("int64", 9, 3)], relay.add),
    "divide int": (
        [i("int32", 9, 3)], lambda x: relay.divide(x - relay.const(5), relay.const(2)),
    ),
    **{
        name: ([boolean(4, 3), boolean(3)], getattr(relay, name))
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    "logical_not": ([boolean(4, 3)], relay.logical_not),
    "where": ([boolean(4, 3), f(4, 3), f(3)], relay.where),
    "cast": ([f(4)], lambda x: relay.cast(x * relay.const(3.0), "int32")),
    "cast back": ([boolean(4)], lambda x: relay.cast(x, "float32")),
    **{
        f"{name} {axis} {keep}": (
            [f(2, 3, 4)], lambda x, n=name, a=axis, k=keep: getattr(relay, n)(x, a, k),
        )
        for name in ("mean", "sum", "max", "min", "prod")
        for axis, keep in ((None, False), (-1, True), ((0, 2), False))
    },
    "sum exclude": ([f(2, 3, 4)], lambda x: relay.sum(x, axis=1, exclude=True)),
    "sum of none": ([f(2, 3)], lambda x: relay.sum(x, axis=(0, 1), exclude=True)),
    "max of none": ([f(2, 3)], lambda x: relay.max(x, (0, 1), True, exclude=True)),
    "sum of an empty list excluded": ([f(2, 3)], lambda x: relay.sum(x, [], exclude=True)),
    "mean int": ([i("int32", 9, 3, 2)], lambda x: relay.mean(x - relay.const(6), 1)),
    "variance": ([f(2, 3, 4)], lambda x: relay.variance(x, -1, True)),
    "variance flat": ([f(2, 3, 4)], lambda x: relay.variance(x, (1, 2))),
    "argmax": ([f(2, 3, 4)], lambda x: relay.argmax(x, axis=1, keepdims=True)),
    "argmax ties": (
        [f(20, 5)],
        lambda x: relay.argmax(relay.floor(x), 1, select_last_index=True),
    ),
    "argmin flat": ([f(2, 3, 4)], relay.argmin),
    "cast bool": ([f(9)], lambda x: relay.cast(nn.relu(x) * relay.const(0.3), "bool")),
    "reshape": ([f(2, 3, 4)], lambda x: relay.reshape(x, (-1, 6))),
    "batch_flatten": ([f(2, 3, 4)], nn.batch_flatten),
    "squeeze": ([f(2, 1, 4)], lambda x: relay.squeeze(x, [1])),
    "expand_dims": ([f(2, 4)], lambda x: relay.expand_dims(x, 1, 2)),
    "transpose": ([f(2, 3, 4)], lambda x: relay.transpose(x, (2, 0, -2))),
    "transpose all": ([f(2, 3, 4)], relay.transpose),
    "concatenate": ([f(2, 3), f(2, 5)], lambda a, b: relay.concatenate((a, b, a), -1)),
    "stack": ([f(2, 3), f(2, 3)], lambda a, b: relay.stack((a, b), 1)),
    "split": ([f(2, 6)], lambda x: relay.concatenate(relay.split(x, 3, 1).astuple(), 0)),
    "split at": (
        [f(2, 6)],
        lambda x: relay.add(relay.split(x, [2, 3], 1)[2], relay.split(x, [2, 3], 1)[1]),
    ),
    "pad": ([f(2, 3)], lambda x: nn.pad(x, ((1, 0), (2, 3)), 0.5)),
    "pad edge": ([f(2, 3)], lambda x: nn.pad(x, ((0, 0), (2, 1)), 0, "edge")),
    "pad reflect": ([f(2, 5)], lambda x: nn.pad(x, ((0, 0), (2, 1)), 0, "reflect")),
    "strided_slice": (
        [f(5, 6, 7)], lambda x: relay.strided_slice(x, [1, -5], [4, 100], [2, 2]),
    ),
    "strided_slice back": ([f(5, 6)], lambda x: relay.strided_slice(x, [4, 0], [-9, 6], [-1, 1])),
    "strided_slice axes": (
        [f(5, 6, 7)], lambda x: relay.strided_slice(x, [1], [3], [1], axes=[2]),
    ),
    "strided_slice size": (
        [f(5, 6)], lambda x: relay.strided_slice(x, [1, 2], [-1, 3], slice_mode="size"),
    ),
    "take": ([f(9, 4), i("int64", 9, 2, 3)], lambda x, j: relay.take(x, j, axis=0)),
    "take beyond": (
        [f(9, 4)], lambda x: relay.take(x, relay.const(np.array([-3, 20, 1], "int32")), axis=1),
    ),
    "take flat": ([f(9, 4), i("int32", 36, 5)], lambda x, j: relay.take(x, j, mode="fast")),
    "gather": ([f(4, 5), i("int64", 5, 4, 2)], lambda x, j: relay.gather(x, 1, j)),
    "broadcast_to": ([f(3, 1)], lambda x: relay.broadcast_to(x, (2, 3, 4))),
    "tile": ([f(3, 2)], lambda x: relay.tile(x, (2, 1, 2))),
    "full": ([f(2, 3)], lambda x: x + relay.full(relay.const(2.0), (2, 3))),
    "zeros and ones": (
        [f(2, 3)], lambda x: x + relay.ones((2, 3), "float32") * relay.zeros((3,), "float32"),
    ),
    "upsampling": ([f(1, 2, 3, 4)], lambda x: nn.upsampling(x, 2, 2)),
    "upsampling bilinear": (
        [f(1, 2, 3, 4)],
        lambda x: nn.upsampling(x, 2, 2, method="bilinear", align_corners=True),
    ),
    **{
        f"resize2d {method} {mode}": (
            [f(1, 2, 4, 6)],
            lambda x, method=method, mode=mode: relay.image.resize2d(
                x, (8, 9), method=method, coordinate_transformation_mode=mode,
                rounding_method="floor" if method == "nearest_neighbor" else "",
            ),
        )
        for method in ("nearest_neighbor", "linear")
        for mode in ("half_pixel", "align_corners", "asymmetric")
    },
    **{
        f"resize2d {sizes} {rounding} {mode}": (
            [f(1, 1, *sizes[:2])],
            lambda x, sizes=sizes, rounding=rounding, mode=mode: relay.image.resize2d(
                x, sizes[2:], method="nearest_neighbor", coordinate_transformation_mode=mode,
                rounding_method=rounding,
            ),
        )
        for sizes, rounding, mode in (
            ((3, 4, 6, 8), "", "half_pixel"),
            ((3, 4, 6, 8), "ceil", "asymmetric"),
            ((2, 2, 8, 6), "round_prefer_floor", "asymmetric"),
            ((3, 4, 6, 8), "round", "half_pixel"),
            ((3, 4, 6, 8), "", "align_corners"),
            ((6, 6, 10, 7), "", "asymmetric"),
            ((7, 5, 3, 2), "ceil", "half_pixel"),
        )
    },
    **{
        f"resize2d NHWC {method}": (
            [f(1, 4, 6, 2)],
            lambda x, method=method: relay.image.resize2d(
                x, (8, 9), layout="NHWC", method=method, rounding_method="floor",
            ),
        )
        for method in ("nearest_neighbor", "linear")
    },
    "upsampling NHWC": ([f(1, 3, 4, 2)], lambda x: nn.upsampling(x, 2, 3, layout="NHWC")),
    **{
        f"depth_to_space NHWC {mode}": (
            [f(1, 2, 3, 8)], lambda x, mode=mode: nn.depth_to_space(x, 2, "NHWC", mode),
        )
        for mode in ("DCR", "CRD")
    },
    "space_to_depth NHWC": ([f(1, 4, 6, 2)], lambda x: nn.space_to_depth(x, 2, "NHWC")),
    "upsampling corners": ([f(1, 2, 3, 4)], lambda x: nn.upsampling(x, 2, 2, align_corners=True)),
    "depth_to_space": ([f(1, 8, 2, 3)], lambda x: nn.depth_to_space(x, 2)),
    "depth_to_space CRD": ([f(1, 8, 2, 3)], lambda x: nn.depth_to_space(x, 2, mode="CRD")),
    "space_to_depth": ([f(1, 2, 4, 6)], lambda x: nn.space_to_depth(x, 2)),
}  # fmt: skip


def variables(types):
    return [
        relay.var(f"x{n}", shape=shape, dtype=_dtype(kind)) for n, (kind, shape) in enumerate(types)
    ]


def _dtype(kind):
    return "float32" if kind == "positive" else kind.split("<")[0]


def arrays(types, seed=0):
    draw = np.random.default_rng(seed)
    made = []
    for kind, shape in types:
        if "<" in kind:
            dtype, bound = kind.split("<")
            made.append(draw.integers(0, int(bound), shape).astype(dtype))
        elif kind == "bool":
            made.append(draw.integers(0, 2, shape).astype(bool))
        else:
            values = draw.standard_normal(shape).astype("float32")
            made.append(np.abs(values) + 0.1 if kind == "positive" else values)
    return made


def typed(types, build) -> relay.Function:
    params = variables(types)
    mod = tvm.IRModule.from_expr(relay.Function(params, build(*params)))
    return relay.transform.InferType()(mod)["main"]


def halved(name):
    """Types of a case in float16."""
    floats = ("float32", "positive")
    return [("float16" if kind in floats else kind, shape) for kind, shape in CASES[name][0]]


def cases_together(types_of) -> tuple[relay.Function, dict[str, np.ndarray]]:
    """One function whose results are those of cases, in order, and its inputs; types_of: by name,
    whose values are those of the case's own types."""
    params, bodies, inputs = [], [], {}
    for name, types in types_of.items():
        own = [
            relay.var(f"{name}_{k}", shape=shape, dtype=_dtype(kind))
            for k, (kind, shape) in enumerate(types)
        ]
        params += own
        bodies.append(CASES[name][1](*own))
        for param, array in zip(own, arrays(CASES[name][0]), strict=True):
            inputs[param.name_hint] = array.astype(param.type_annotation.dtype)
    mod = tvm.IRModule.from_expr(relay.Function(params, relay.Tuple(bodies)))
    return relay.transform.InferType()(mod)["main"], inputs


def run_part(backend, function, inputs) -> list[np.ndarray]:
    """The results of a function that is one part; inputs: arrays in its parameters' order."""
    types = tensors_of(function.body.checked_type)
    results = [tvm.nd.array(np.full([int(n) for n in t.shape], 7, t.dtype)) for t in types]
    module = get_backend(backend).compile(function.with_attr("global_symbol", "part"))
    module["part"](*map(tvm.nd.array, inputs), *results)
    return [result.numpy() for result in results]


@functools.cache
def results_of_tvm() -> dict[str, np.ndarray]:
    """The result of each case by name, from a build of TVM alone that optimises nothing."""
    function, inputs = cases_together({name: types for name, (types, _) in CASES.items()})
    # LLVM rejects debug information of some shared sub-expressions.
    config = {"tir.disable_cse_tir": True}
    with tvm.transform.PassContext(opt_level=0, config=config, disabled_pass=PLAIN_WITHOUT):
        library = relay.build(tvm.IRModule.from_expr(function), PLAIN)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(**inputs)
    return {name: module.get_output(n).numpy() for n, name in enumerate(CASES)}
