# SPDX-License-Identifier: Apache-2.0
"""Orders of axes: where transposes stand, and that any graph stays the same function."""

import numpy as np
import pytest
import tvm
from onednn_nets import constant, function_of, hand_placed, var
from tvm import relay
from tvm.relay.collage.backends.partition import Graph, Operation
from tvm.relay.collage.backends.xnnpack.axis_orders import arrange
from tvm.relay.collage.backends.xnnpack.lower import lower_function

nn = relay.nn
IMAGE = var("x", 1, 8, 12, 12)


def conv(x, seed=1):
    return nn.conv2d(x, constant(seed, 8, 8, 3, 3), channels=8, kernel_size=(3, 3), padding=1)


def kinds_of(body):
    function = hand_placed(function_of(body), "part", "xnnpack")["part"]
    return [node.op for node in lower_function(function).nodes]


def gated(y):
    return relay.multiply(y, relay.sigmoid(nn.global_avg_pool2d(y)))


@pytest.mark.parametrize(
    "body, kinds",
    [
        (conv(IMAGE), "transpose conv transpose"),
        (conv(conv(IMAGE), 2), "transpose conv conv transpose"),
        (gated(conv(IMAGE)), "transpose conv mean clamp sigmoid multiply transpose"),
        # Lines of a dense layer: of one pixel each, so that nothing has to move.
        (
            nn.dense(nn.batch_flatten(nn.global_avg_pool2d(conv(IMAGE))), constant(2, 4, 8)),
            "transpose conv mean reshape dense",
        ),
        (
            nn.dense(nn.batch_flatten(conv(IMAGE)), constant(2, 4, 8 * 144)),
            "transpose conv transpose reshape dense",
        ),
        # A model whose images have their channels last between transposes of its own.
        (
            relay.transpose(
                conv(relay.transpose(var("x", 1, 12, 12, 8), (0, 3, 1, 2))), (0, 2, 3, 1)
            ),
            "conv",
        ),
        (
            relay.concatenate([conv(IMAGE), conv(IMAGE, 2)], 1),
            "transpose conv conv concat transpose",
        ),
        # Another image of the caller's joins as it must; a constant does so before anything runs.
        (relay.add(conv(IMAGE), IMAGE), "transpose conv add transpose"),
        (relay.add(conv(IMAGE), constant(3, 1, 8, 12, 12)), "transpose conv add transpose"),
        (relay.add(IMAGE, relay.tanh(IMAGE)), "tanh add"),
        (nn.softmax(conv(IMAGE), axis=1), "transpose conv softmax transpose"),
    ],
)
def test_transposes_stand_at_the_borders(body, kinds):
    assert kinds_of(body) == kinds.split()


class Random:
    """A graph of so many random nodes over an image, as lower() gives it."""

    def __init__(self, seed, count=12):
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("xnnpack")
        shape = tuple(self.rng.permutation([2, 4, 6, 8]))
        self.graph.inputs = [self.graph.new_tensor(shape)]
        self.tensors = [*self.graph.inputs, self._constant(shape)]
        for _ in range(count):
            self.tensors.append(self._grow())
        results = self.rng.choice(self.tensors, size=3)
        self.graph.outputs = [int(each) for each in results]

    def _constant(self, shape):
        values = self.rng.standard_normal(shape).astype("float32")
        return self.graph.new_constant(tvm.nd.array(values))

    def _pick(self, least_rank=1):
        shapes = self.graph.shapes
        return int(self.rng.choice([t for t in self.tensors if len(shapes[t]) >= least_rank]))

    def _grow(self):
        choices = [self._add, self._move, self._mean, self._concat, self._slice, self._pad]
        choices += [self._softmax, self._reshape, self._pool, self._pool]
        return choices[self.rng.integers(len(choices))]()

    def _node(self, kind, inputs, shape, **attrs):
        result = self.graph.new_tensor(shape)
        self.graph.nodes.append(Operation(kind, inputs, result, attrs=attrs))
        return result

    def _add(self):
        first = self._pick()
        shape = self.graph.shapes[first]
        kept = shape[self.rng.integers(len(shape) + 1) :]
        other = [n if self.rng.random() < 0.6 else 1 for n in kept] or [1]
        inputs = [first, self._constant(tuple(other))]
        alike = [t for t in self.tensors if self.graph.shapes[t] == shape]
        if self.rng.random() < 0.4:
            inputs[1] = int(self.rng.choice(alike))
        return self._node("add", inputs[:: self.rng.choice([1, -1])], shape)

    def _move(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        axes = [int(each) for each in self.rng.permutation(len(shape))]
        return self._node("transpose", [source], [shape[a] for a in axes], ints={"axes": axes})

    def _mean(self):
        source = self._pick(2)
        shape = self.graph.shapes[source]
        axes = sorted({int(a) for a in self.rng.choice(len(shape), size=len(shape) - 1)})
        keep = int(self.rng.integers(2))
        result = [1 if i in axes else n for i, n in enumerate(shape)]
        if not keep:
            result = [n for i, n in enumerate(shape) if i not in axes]
        return self._node("mean", [source], result, ints={"axes": axes, "keep_dims": [keep]})

    def _concat(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        axis = int(self.rng.integers(len(shape)))
        alike = [t for t in self.tensors if self.graph.shapes[t] == shape]
        inputs = [source, int(self.rng.choice(alike))]
        result = [2 * n if i == axis else n for i, n in enumerate(shape)]
        return self._node("concat", inputs, result, ints={"axis": [axis]})

    def _slice(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        begin = [int(self.rng.integers(n)) for n in shape]
        result = [n - b for n, b in zip(shape, begin)]
        return self._node("slice", [source], result, ints={"begin": begin})

    def _pad(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        before, behind = (self.rng.integers(0, 2, len(shape)).tolist() for _ in range(2))
        result = [n + a + b for n, a, b in zip(shape, before, behind)]
        ints = {"before": before, "behind": behind}
        return self._node("pad", [source], result, ints=ints, floats={"value": 0.5})

    def _softmax(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        return self._node(
            "softmax", [source], shape, ints={"axis": [self.rng.integers(len(shape))]}
        )

    def _reshape(self):
        source = self._pick(2)
        first, second, *others = self.graph.shapes[source]
        return self._node("reshape", [source], [first * second, *others])

    def _pool(self):
        source = self._pick()
        shape = self.graph.shapes[source]
        if len(shape) != 4:
            return source
        layout = str(self.rng.choice(["NCHW", "NHWC"]))
        images = [n if letter in "NC" else max(n // 2, 1) for n, letter in zip(shape, layout)]
        return self._node("pool", [source], images, strings={"layout": layout})


def evaluate(graph, inputs, layout=None):
    """The outputs of a graph by numpy; `layout` is that of all images in an arranged one."""
    values = dict(zip(graph.inputs, inputs))
    values |= {tensor: array.numpy() for tensor, array in graph.constants.items()}
    for node in graph.nodes:
        data = [values[tensor] for tensor in node.inputs]
        shape = tuple(graph.shapes[node.output])
        if node.op == "pool":
            result = halved(data[0], layout or node.attrs["strings"]["layout"])
        else:
            result = _NUMPY[node.op](data, shape, node.attrs.get("ints", {}))
        assert result.shape == shape, node
        values[node.output] = result
    return [values[tensor] for tensor in graph.outputs]


def halved(data, layout):
    """Every second row and column, which stands for any window."""
    steps = (1 if letter in "NC" or n < 2 else 2 for n, letter in zip(data.shape, layout))
    return data[tuple(slice(0, n // step * step, step) for n, step in zip(data.shape, steps))]


def softmax(data, axis):
    grown = np.exp(data - data.max(axis=axis, keepdims=True))
    return grown / grown.sum(axis=axis, keepdims=True)


_NUMPY = {
    "add": lambda data, shape, ints: data[0] + data[1],
    "transpose": lambda data, shape, ints: data[0].transpose(ints["axes"]),
    "mean": lambda data, shape, ints: data[0].mean(tuple(ints["axes"])).reshape(shape),
    "concat": lambda data, shape, ints: np.concatenate(data, ints["axis"][0]),
    "slice": lambda data, shape, ints: data[0][
        tuple(slice(begin, begin + n) for begin, n in zip(ints["begin"], shape))
    ],
    "reshape": lambda data, shape, ints: data[0].reshape(shape),
    "pad": lambda data, shape, ints: np.pad(
        data[0], list(zip(ints["before"], ints["behind"])), constant_values=0.5
    ),
    # In an arranged graph along the last axis.
    "softmax": lambda data, shape, ints: softmax(data[0], ints.get("axis", [-1])[0]),
}


@pytest.mark.parametrize("seed", range(200))
def test_an_arranged_graph_is_the_same_function(seed):
    graph = Random(seed).graph
    inputs = [
        np.random.default_rng(seed).standard_normal(graph.shapes[t]).astype("float32")
        for t in graph.inputs
    ]
    wanted = evaluate(graph, inputs)
    got = evaluate(arrange(graph), inputs, layout="NHWC")
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
