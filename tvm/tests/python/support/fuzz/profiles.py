# SPDX-License-Identifier: Apache-2.0
"""What a graph is made of: one profile for each backend's table of operators, and mixes.

Test: backends/test_fuzz.py.
"""

from . import ops_math as m
from . import ops_nn as nn
from . import ops_qnn as q
from . import ops_reduce as r
from . import ops_shape as s
from .graph import Graph, Grower

_REDUCE = [r.reduce_sum("sum"), r.reduce_sum("mean"), r.reduce_ordered("max")]
_REDUCE += [r.reduce_ordered("min"), r.variance]
_NORMS = [r.batch_norm, r.layer_norm, r.group_norm]
_SOFTMAX = [r.softmax(), r.softmax(is_log=True)]
_ELEMENTS = [m.DNNL_BINARY] * 4 + [m.DNNL_UNARY] * 4 + [m.bias_add, m.clip, m.leaky_relu]

_STEPS = [m.bias_add, m.bias_add, m.DNNL_BINARY, m.sum_of_alike, m.sum_of_alike, m.clip]
_STEPS += [m.leaky_relu, m.DNNL_UNARY, m.RELU, m.RELU, m.composite]
_CHAIN = [nn.chain(_STEPS)]

# Each entry is (share, makers).
_DNNL = [
    (5, _CHAIN), (9, nn.CONV), (2, nn.CONV_TRANSPOSE), (3, nn.PRODUCTS), (3, nn.POOLS),
    (1, [nn.resize]), (1, nn.ADAPTIVE), (1, [s.pad, s.depth_to_space, s.space_to_depth]),
    (7, _ELEMENTS), (3, [m.composite]), (2, _REDUCE), (2, _NORMS), (1, _SOFTMAX), (3, s.VIEWS),
    (3, s.JOINS), (1, [nn.attention]),
]  # fmt: skip
_ONNX = [
    (3, nn.CONV), (1, nn.CONV_TRANSPOSE), (2, nn.PRODUCTS), (2, nn.POOLS), (1, nn.ADAPTIVE),
    (1, [nn.resize]), (3, [m.ALL_BINARY]), (3, [m.ALL_UNARY]), (2, [m.clip, m.prelu, m.bias_add]),
    (1, [m.composite]), (1, _REDUCE), (1, [r.argument, r.product]), (1, _NORMS), (1, _SOFTMAX),
    (1, [m.comparison, m.logical, m.where]), (2, [m.cast, m.binary_of_integers, r.reduce_integers]),
    (2, s.VIEWS), (2, s.JOINS), (4, s.MORE), (1, [nn.attention]),
]  # fmt: skip
_BLAS = [
    (4, nn.PRODUCTS),
    (2, [nn.chain([m.bias_add, m.sum_of_alike, m.RELU])]),
    (2, [m.bias_add, m.DNNL_BINARY]),
    (1, [m.DNNL_UNARY]),
    (1, s.VIEWS),
    (1, [nn.attention]),
]
_QNN = [(6, q.QNN), (1, s.VIEWS), (1, s.JOINS)]
_NARROW = [(1, [q.narrow_chain])]
_EMPTY = [
    (3, [m.DNNL_BINARY, m.DNNL_UNARY]), (1, [nn.dense]),
    (2, [s.transpose, s.expand_dims, s.batch_flatten, s.concatenate]),
]  # fmt: skip

# Name -> (share of the graphs, entries).
PROFILES = {
    "dnnl": (13, _DNNL),
    "onnx": (7, _ONNX),
    "blas": (2, _BLAS),
    "qnn": (3, _QNN),
    "narrow": (1, _NARROW),
    "empty": (0.5, _EMPTY),
}
_MOST_CALLS = 6
# A graph whose values are all unknown checks nothing.
_LEAST_KNOWN = 0.3


def grown(seed: int) -> tuple[str, Graph]:
    """(the profile's name, the graph of that seed)."""
    g = Grower(seed)
    g.has_specials = g.chance(0.2)
    name = _weighted(g, [(share, key) for key, (share, _) in PROFILES.items()])
    wanted = g.int(1, _MOST_CALLS)
    if name == "empty":
        g.extents = [0, 0, 1, 3, 8]
    while sum(not node.is_leaf for node in g.nodes) < wanted:
        made = len(g.nodes)
        g.pick(_weighted(g, PROFILES[name][1]))(g)
        for value in g.values[made:]:
            known = (value.error != float("inf")).mean() if value.error.size else 1.0
            if known < _LEAST_KNOWN or value.value.size > 20000:
                del g.nodes[made:], g.values[made:]
                break
    return name, g.graph()


def _weighted(g, entries):
    shares = [share for share, _ in entries]
    at = g.rng.choice(len(entries), p=[share / sum(shares) for share in shares])
    return entries[at][1]
