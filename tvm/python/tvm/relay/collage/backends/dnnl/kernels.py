# SPDX-License-Identifier: Apache-2.0
"""Steps of a part that oneDNN, or we in its place, can run by several kernels, and running one.

A step is described by itself, as the one node of a partition, so that equal steps of all parts and
models are one, and a trial runs what a part would run. The layouts of a part's convolutions tie its
steps together; they are chosen as one more step, which is the whole part.
Test: backends/dnnl/test_kernel_choice.py, backends/dnnl/test_layout_choice.py.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from ...costs.kernel import KernelRuns, KernelStep, kernel_key, kernels_in
from ...relay_util.walk import size_of
from ..partition.description import to_json
from ..partition.graph import Graph, Operation

# In which layout all convolutions of a part have their data and results, where oneDNN has a kernel
# for it ("layout" in ops_conv.cc); first what oneDNN prefers for each by itself.
_LAYOUTS = ("any", "blocked", "channels last")
# What a smaller part runs by: timing the layouts of each part that a search asks for would take
# longer than the search. Without it a part of a mix would be slower than the same steps in the
# backend's own plan, so that mixes would lose for no reason of theirs.
_OTHER_LAYOUTS = "layouts of smaller parts"
# Timed seconds of these, and more where they settle nothing: a run takes as long as the part, so
# that rounds are few.
_LAYOUT_SECONDS, _FURTHER_LAYOUT_SECONDS = 1.5, 6.0


def kernel_steps(graph: Graph) -> list[KernelStep]:
    """Return the KernelSteps of a lowered graph, those included that have one kernel."""
    steps: dict[str, tuple[str, frozenset[int]]] = {}
    work: defaultdict[str, float] = defaultdict(float)
    for node in graph.nodes:
        if _is_chosen(graph, node):
            text, tensors = _described(graph, node)
            # The lowering makes constants of its own, whose sizes the part's function lacks.
            given = [tensor for tensor in tensors if tensor not in graph.constants]
            sizes = frozenset(math.prod(graph.shapes[tensor]) for tensor in given)
            steps[text] = (_label(graph, node), sizes)
            work[text] += _multiply_adds(graph, node)
    found = [
        KernelStep(
            graph.backend,
            text,
            label,
            kernels=_kernels_of(text, tvm.runtime.num_threads()),
            sizes=sizes,
            work=work[text],
        )
        for text, (label, sizes) in steps.items()
    ]
    layouts = _layout_step(graph)
    return [*found, layouts] if layouts else found


@functools.lru_cache(maxsize=4096)  # a part's steps are listed twice
def _kernels_of(text: str, num_threads: int) -> tuple[str, ...]:
    """Return the kernels of the step, in the order that the pool's number of threads gives them."""
    return tuple(map(str, tvm.get_global_func("collage.onednn.kernels")(text)))


def set_kernels(graph: Graph, function: relay.Function) -> None:
    """Have the graph's nodes run by the kernels that the part's function says."""
    chosen = kernels_in(function)
    for node in graph.nodes if chosen else ():
        if not _is_chosen(graph, node):
            continue
        key = kernel_key(_described(graph, node)[0])
        if key in chosen:
            kernel, times = chosen[key]
            _say(node, kernel=kernel, measured=times)
    layouts = _layout_step(graph) if chosen else None
    if layouts and (found := chosen.get(layouts.key) or chosen.get(kernel_key(_OTHER_LAYOUTS))):
        layout, times = found
        convs = _convs(graph)
        for node in convs:
            _say(node, layout=layout)
        if times and layouts.key in chosen:  # once, beside the first one's own
            own = convs[0].attrs["strings"].get("measured")
            _say(convs[0], measured="; ".join(filter(None, [own, f"{layouts.label}: {times}"])))


def _say(node: Operation, **strings: str) -> None:
    """Add the strings that say something to the node's."""
    said = {key: text for key, text in strings.items() if text}
    node.attrs = {**node.attrs, "strings": node.attrs.get("strings", {}) | said}


def _unsaid(node: Operation, *names: str) -> Operation:
    """Return the node without these strings."""
    strings = {key: text for key, text in node.attrs.get("strings", {}).items() if key not in names}
    attrs = {key: value for key, value in node.attrs.items() if key != "strings"}
    return dataclasses.replace(node, attrs=attrs | ({"strings": strings} if strings else {}))


def kernel_runs(text: str, kernel: str, seed: int) -> KernelRuns:
    """Return runs of the step by the kernel, on made-up data."""
    description = json.loads(text)
    field = "layout" if kernel in _LAYOUTS else "kernel"
    for node in description["nodes"]:
        tensors = [*node["inputs"], node["output"]]
        if field == "kernel" or _has_layouts(node["kind"], tensors, description["dtypes"]):
            node.setdefault("strings", {})[field] = kernel
    create = tvm.get_global_func("collage.onednn.create")
    inputs, copies, outputs = _arrays(text, seed)
    for tensor in outputs:  # which the kernels of a step share: each has to write all of them
        _overwrite(tensor)
    turn = itertools.count()
    symbol, described = "step", json.dumps(description)

    def opened() -> Callable[[], None]:
        number = next(turn)
        if number == len(copies):
            copies.append([tensor.copyto(tensor.device) for tensor in copies[0]])
        step = create(symbol, described, list(copies[number]))[symbol]
        return functools.partial(step, *inputs, *outputs)

    is_step = len(description["nodes"]) == 1  # the steps of a part are in each other's way
    return KernelRuns(opened, sum(map(size_of, copies[0])) if is_step else 0, [*inputs, *outputs])


def _is_chosen(graph: Graph, node: Operation) -> bool:
    """Return whether a node may have several kernels that a trial of it alone tells apart.

    Not a convolution where the target decides, nor a product of two activations: that one takes
    them in whatever layout others make them, a transposed view as well, which it lacks alone.
    """
    if node.op == "conv":
        return "winograd" not in node.attrs.get("strings", {})
    if node.op == "matmul":
        return any(tensor in graph.constants for tensor in node.inputs[:2])
    return node.op == "inner_product"


def _convs(graph: Graph) -> list[Operation]:
    """Return the nodes whose layouts are chosen."""
    return [
        node
        for node in graph.nodes
        if _has_layouts(node.op, [*node.inputs, node.output], graph.dtypes)
    ]


def _has_layouts(op: str, tensors: Sequence[int], dtypes: Sequence[str]) -> bool:
    """Return whether it is a convolution of floats: those of bytes have kernels for channels last
    only."""
    return op == "conv" and {dtypes[tensor] for tensor in tensors} <= {"float32", "bfloat16"}


def _layout_step(graph: Graph) -> KernelStep | None:
    """Return the layouts of a part's convolutions, all steps of which run by the kernels that were
    chosen; None where there are no two to agree on one."""
    convs = _convs(graph)
    if len(convs) < 2:
        return None
    sizes = frozenset(math.prod(graph.shapes[node.output]) for node in convs)
    shapes = [shape or (1,) for shape in graph.shapes]
    said = {"conv": ("measured", "layout")}  # a pool's layout is its own
    nodes = [_unsaid(node, *said.get(node.op, ("measured",))) for node in graph.nodes]
    text = _text(dataclasses.replace(graph, shapes=shapes, nodes=nodes, calls={}))
    label = f"layouts of {len(convs)} convolutions"
    return KernelStep(
        graph.backend,
        text,
        label,
        kernels=_LAYOUTS,
        sizes=sizes,
        budget_seconds=_LAYOUT_SECONDS,
        further_seconds=_FURTHER_LAYOUT_SECONDS,
        work=sum(_multiply_adds(graph, node) for node in convs),
        stands_for=_OTHER_LAYOUTS,
        is_last=True,
    )


def _described(graph: Graph, node: Operation) -> tuple[str, list[int]]:
    """Return the node as a partition of its own, and its tensors."""
    operands = list(dict.fromkeys(node.operands()))
    alone = Graph(
        graph.backend,
        [shape or (1,) for shape in graph.shapes],
        graph.dtypes,
        [tensor for tensor in operands if tensor not in graph.constants],
        [node.output],
        {tensor: None for tensor in operands if tensor in graph.constants},
        [_unsaid(node, "kernel", "measured", "layout")],
    )
    return _text(alone), [*operands, node.output]


def _text(graph: Graph) -> str:
    return json.dumps(json.loads(to_json(graph)), sort_keys=True, separators=(",", ":"))


def _multiply_adds(graph: Graph, node: Operation) -> float:
    """Return those of a convolution or a product."""
    data, weight = (graph.shapes[tensor] for tensor in node.inputs[:2])
    of_one = math.prod(weight[1:]) if node.op == "conv" else data[-1]
    return float(math.prod(graph.shapes[node.output]) * of_one)


def _label(graph: Graph, node: Operation) -> str:
    """Return a step as the plan of a part shows it: "inner_product 64x768, 3072x768 -> 64x3072 +
    relu"."""

    def shape(tensor: int) -> str:
        return "x".join(map(str, graph.shapes[tensor]))

    functions = "".join(f" + {post.kind}" for post in node.post_ops)
    inputs = ", ".join(map(shape, node.inputs))
    return f"{node.op} {inputs} -> {shape(node.output)}{functions}"


@functools.lru_cache(maxsize=1)  # the kernels of a step follow each other
def _arrays(text: str, seed: int) -> tuple[list[Any], list[list[Any]], list[Any]]:
    """Return inputs, copies of the constants, first one, and outputs of a description."""
    description = json.loads(text)
    generator = np.random.default_rng(seed)

    def array(tensor: int) -> tvm.nd.NDArray:
        shape, dtype = description["shapes"][tensor], description["dtypes"][tensor]
        return tvm.nd.empty(shape, dtype).copyfrom(_numbers(shape, dtype, generator))

    inputs, constants, outputs = (
        [array(tensor) for tensor in description[which]]
        for which in ("inputs", "constants", "outputs")
    )
    return inputs, [constants], outputs


def _overwrite(tensor: tvm.nd.NDArray) -> None:
    """Overwrite with numbers that no kernel gives: large ones, of the same bytes."""
    array = tensor.numpy()
    tensor.copyfrom(np.full(array.nbytes, 0x55, "uint8").view(array.dtype).reshape(array.shape))


def _numbers(shape: list[int], dtype: str, generator: np.random.Generator) -> np.ndarray:
    """Return ordinary numbers of a type, those of bfloat16 as their bits."""
    if "float" not in dtype:
        return generator.integers(0, 100, shape).astype(dtype)
    values = generator.standard_normal(shape, "float32")
    return (values.view("uint32") >> 16).astype("uint16") if dtype == "bfloat16" else values
