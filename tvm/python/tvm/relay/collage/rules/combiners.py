# SPDX-License-Identifier: Apache-2.0
"""Combiners: may a part that feeds another be joined with it? For the rule ``Combine``.

Test: rules/test_rule.py.
"""

import tvm._ffi
from tvm._ffi import get_global_func
from tvm.relay.op import OpPattern
from tvm.runtime import Object

_KINDS = {value: name for name, value in vars(OpPattern).items() if name.isupper() and value != 7}


@tvm._ffi.register_object("collage.Combiner")
class Combiner(Object):
    """Made by the functions below; immutable."""

    def summary(self) -> str:
        """Return the combiner as text, as a rule's summary shows it."""
        return str(get_global_func("collage.rules.CombinerSummary")(self))

    __repr__ = summary


def ByKind(upstream: int, downstream: int) -> Combiner:
    """Join when upstream's strongest kind is at most ``upstream``, downstream's ``downstream``.

    Kinds are those of ``relay.op.OpPattern``, as in TVM's FuseOps. ValueError for another number.
    """
    for kind in (upstream, downstream):
        if kind not in _KINDS:
            names = ", ".join(f"{value} ({name})" for value, name in sorted(_KINDS.items()))
            raise ValueError(f"combiner ByKind takes kinds of relay.op.OpPattern, {names}: {kind}")
    return get_global_func("collage.rules.ByKind")(upstream, downstream)


def TupleArg() -> Combiner:
    """Join a tuple with the injective call that reads it, injective fields with the tuple."""
    return get_global_func("collage.rules.TupleArg")()


def TupleProjection() -> Combiner:
    """Join a projection with the call that makes the tuple."""
    return get_global_func("collage.rules.TupleProjection")()


def JoinAnything() -> Combiner:
    """Join whatever touches and is not opaque."""
    return get_global_func("collage.rules.JoinAnything")()


def Constants() -> Combiner:
    """RFC 0062's combiner of constants with their readers: here it joins nothing.

    Constants are no members of a part; they belong to whoever reads them, always.
    """
    return get_global_func("collage.rules.Constants")()


def tvm_combiners() -> list[Combiner]:
    """Return what TVM's FuseOps joins: three pairs of kinds, tuple arguments and projections."""
    return [
        ByKind(OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.BROADCAST),
        ByKind(OpPattern.BROADCAST, OpPattern.COMM_REDUCE),
        ByKind(OpPattern.INJECTIVE, OpPattern.INJECTIVE),
        TupleArg(),
        TupleProjection(),
    ]
