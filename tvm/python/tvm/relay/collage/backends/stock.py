# SPDX-License-Identifier: Apache-2.0
"""TVM's own partitioning for a backend of ours: it asks our predicates, and what it asks of a TVM
that is built with the library gets an answer.

Cheap, as it runs in every process. Test: backends/dnnl/test_stock.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm.relay.op.contrib  # registers TVM's predicates
from tvm import relay

from ..process_wide.lazy import late_function
from ..relay_util.operators import operators_with
from ..tvm_fixes.apply import replace, set_op_attributes

_LETTERS = "abcdef"
_get_backend = late_function(__package__, "registry:get_backend")


def serve_tvms_partitioning(backends: Iterable[str]) -> None:
    """Make TVM's op predicates of these backends ours; answer AlterOpLayout's layout queries."""
    for backend in backends:
        _replace_predicates(backend)
    replace("layout queries", lambda _: _own_layouts)


def _replace_predicates(backend: str) -> None:
    attribute = f"target.{backend}"
    found = operators_with(attribute)
    late = {name: _late_predicate(backend, op, attribute) for name, op in found.items()}
    set_op_attributes("predicates", attribute, late)


def _late_predicate(backend: str, op: tvm.ir.Op, attribute: str) -> Callable[[relay.Call], Any]:
    def late(call: relay.Call) -> Any:
        _get_backend(backend)  # which puts its own predicates in place
        predicate = op.get_attr(attribute)
        return predicate is not None and predicate(call)

    return late


def _own_layouts(data_layout: str, kernel_layout: str, *_: object) -> str:
    """Return data's, weights' and result's layouts as oneDNN writes them ("acdb" for NHWC).

    They are those that the convolution has: oneDNN chooses blocked ones when our runtime loads a
    partition, and keeps them inside it, so the model needs none.
    """
    data, kernel = _tag(data_layout, "NC"), _tag(kernel_layout, "OI")
    return f"{data},{kernel},{data}"


def _tag(layout: str, head: str) -> str:
    axes = ("G" if "G" in layout else "") + head + "".join(a for a in "DHW" if a in layout)
    return "".join(_LETTERS[axes.index(axis)] for axis in layout)
