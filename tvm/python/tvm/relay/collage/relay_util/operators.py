# SPDX-License-Identifier: Apache-2.0
"""Relay's operators by name, which TVM's own list gives one foreign call at a time: hundreds of
them at each import. Test: relay_util/test_operators.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm.ir import Op

_known: dict[str, Op] = {}


def operators() -> Mapping[str, Op]:
    """Return all operators that are registered. None is ever taken back, so their number tells
    whether there are new ones."""
    names = Op.list_op_names()
    if len(names) != len(_known):
        _known.update({str(name): Op.get(name) for name in names})
    return _known


def operators_with(key: str) -> dict[str, Op]:
    """Return the operators that have an attribute. TVM's `has_attr` says only whether any has, and
    refuses to read one that none ever had."""
    known = operators()
    if not next(iter(known.values())).has_attr(key):
        return {}
    return {name: op for name, op in known.items() if op.get_attr(key) is not None}
