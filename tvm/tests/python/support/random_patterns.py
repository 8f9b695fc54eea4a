# SPDX-License-Identifier: Apache-2.0
"""Random dataflow patterns that describe a given expression, loosened, tightened or wrong here and
there, so that they match often and often do not. Same seed, same patterns."""

import random

import tvm
from random_relay import BINARY, UNARY
from tvm import relay
from tvm.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    FunctionPattern,
    dominates,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tvm.relay.op.op import OpPattern

_LISTS = ("axes", "axis", "newshape", "begin", "end", "strides", "pad_width")


class RandomPattern:
    """Describes expressions out of ``exprs`` (post-dfs order); parts made once may be reused."""

    def __init__(self, seed: int, exprs: list[relay.Expr]):
        self.random = random.Random(seed)
        self.exprs = exprs
        self.made = []
        self.has_dominator = False
        self.has_types = False

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def any_expr(self) -> relay.Expr:
        return self.random.choice(self.exprs)

    def describe(self, expr: relay.Expr, depth: int):
        """Return a pattern for ``expr`` that looks at most ``depth`` calls up."""
        if self.made and self.chance(0.08):
            return self.random.choice(self.made)
        pattern = self.decorated(expr, depth)
        self.made.append(pattern)
        return pattern

    def decorated(self, expr, depth):
        if depth > 0 and self.chance(0.07):
            return self.alternative(expr, depth)
        if depth > 0 and self.chance(0.05) and isinstance(expr, relay.Call):
            return self.optional(expr, depth)
        if depth > 0 and self.chance(0.1) and isinstance(expr, relay.Call):
            return self.dominator(expr)
        pattern = self.plain(expr, depth)
        # Types of operators are no business of patterns, though TVM would infer them.
        if not isinstance(expr, tvm.ir.Op):
            about = self.any_expr() if self.chance(0.15) else expr
            kind = None if isinstance(about, tvm.ir.Op) else about.checked_type
            if isinstance(kind, relay.TensorType):
                if self.chance(0.08):
                    pattern = self.typed(pattern.has_shape(kind.shape))
                if self.chance(0.08):
                    pattern = self.typed(pattern.has_dtype(kind.dtype))
            if kind is not None and self.chance(0.06):
                pattern = self.typed(pattern.has_type(kind))
        return pattern

    def typed(self, pattern):
        self.has_types = True
        return pattern

    def plain(self, expr, depth):
        if isinstance(expr, tvm.ir.Op):
            return self.op(expr)
        if depth <= 0 or self.chance(0.12):
            redirected = wildcard()
            if self.chance(0.1) and depth > 0:
                redirected.redirect_to(self.describe(expr, depth - 1))
            return redirected
        if self.chance(0.04):
            return is_expr(self.any_expr() if self.chance(0.3) else expr)
        for kind, make in (
            (relay.Var, self.var),
            (relay.Constant, self.constant),
            (relay.Call, self.call),
            (relay.Tuple, self.tuple),
            (relay.TupleGetItem, self.projection),
            (relay.If, self.branch),
            (relay.Let, self.let),
            (relay.Function, self.function),
        ):
            if isinstance(expr, kind):
                return make(expr, depth - 1)
        return wildcard()

    def some(self, exprs, depth):
        """Patterns for ``exprs``; sometimes one too few, sometimes in another order."""
        parts = [self.describe(expr, depth) for expr in exprs]
        if self.chance(0.1):
            self.random.shuffle(parts)
        return parts[:-1] if self.chance(0.02) else parts

    def op(self, op):
        if self.chance(0.06):
            return wildcard()
        if self.chance(0.05):
            return is_op(op.name) | is_op(self.random.choice(UNARY + BINARY))
        if self.chance(0.06):
            kind = op.get_attr("TOpPattern")
            kind = OpPattern.OPAQUE if kind is None or self.chance(0.2) else kind
            pattern = wildcard() if self.chance(0.5) else is_op(op.name)
            return pattern.has_attr({"TOpPattern": kind})
        return is_op(self.random.choice(BINARY) if self.chance(0.06) else op.name)

    def var(self, var, depth):
        hint = self.random.choice(["", var.name_hint, var.name_hint, "x"])
        return is_var(hint)

    def constant(self, constant, depth):
        return is_expr(constant) if self.chance(0.3) else is_constant()

    def call(self, call, depth):
        is_op_call = isinstance(call.op, tvm.ir.Op)
        if is_op_call and call.op.name in ("multiply", "divide") and self.chance(0.3):
            other = self.reassociated(call, depth)
            if other is not None:
                return other
        callee = self.describe(call.op, depth if not is_op_call else 1)
        # TVM ends with an internal error where it tries to reassociate unknown arguments.
        is_arithmetic = is_op_call and call.op.name in BINARY
        if self.chance(0.1) and not is_arithmetic and not self.may_reassociate(callee):
            pattern = CallPattern(callee, None)
        else:
            args = [self.describe(arg, depth) for arg in call.args]
            if self.chance(0.15):
                self.random.shuffle(args)
            if self.chance(0.02) and not self.may_reassociate(callee):
                args = args[:-1]
            pattern = CallPattern(callee, args)
        return self.with_attrs(pattern, call.attrs) if self.chance(0.25) else pattern

    @staticmethod
    def may_reassociate(callee):
        expr = getattr(callee, "expr", None)
        return isinstance(expr, tvm.ir.Op) and expr.name in ("multiply", "divide")

    def reassociated(self, call, depth):
        """The other association of a product of quotients, if ``call`` is one."""
        for first, second in (call.args, reversed(call.args)):
            wanted = {"multiply": "divide", "divide": "multiply"}[call.op.name]
            if not (isinstance(first, relay.Call) and first.op == relay.op.get(wanted)):
                continue
            x, y = (self.describe(arg, depth - 1) for arg in first.args)
            z = self.describe(second, depth - 1)
            times, over = is_op("multiply"), is_op("divide")
            if wanted == "multiply":
                return times(x, over(y, z)) if self.chance(0.5) else times(over(x, z), y)
            return over(times(x, z), y) if self.chance(0.5) else over(times(z, x), y)
        return None

    def with_attrs(self, pattern, attrs):
        asked = {}
        for key in attrs.keys() if attrs is not None else ():
            value = attrs[key]
            # TVM ends with an internal error when it compares null, or a list with a number.
            if value is None or not self.chance(0.6):
                continue
            if self.chance(0.15):
                is_number = isinstance(value, (int, float)) and key not in _LISTS
                value = value + 1 if is_number else value
                value = "other" if isinstance(value, str) else value
                if key == "pad_width":
                    value = [[0, 0], [1, 2]]
            asked[str(key)] = value
        if self.chance(0.05):
            asked["nope"] = 1
        return pattern.has_attr(asked)

    def tuple(self, expr, depth):
        return is_tuple(None if self.chance(0.15) else self.some(expr.fields, depth))

    def projection(self, expr, depth):
        index = self.random.choice([None, expr.index, expr.index, 0])
        return is_tuple_get_item(self.describe(expr.tuple_value, depth), index)

    def branch(self, expr, depth):
        parts = (expr.cond, expr.true_branch, expr.false_branch)
        return is_if(*(self.describe(part, depth) for part in parts))

    def let(self, expr, depth):
        return is_let(*(self.describe(part, depth) for part in (expr.var, expr.value, expr.body)))

    def function(self, expr, depth):
        params = None if self.chance(0.3) else self.some(expr.params, depth)
        pattern = FunctionPattern(params, self.describe(expr.body, depth))
        if self.chance(0.4):
            asked = self.random.choice([{"mark": "yes"}, {"mark": "no"}, {"number": 3}])
            pattern = AttrPattern(pattern, tvm.ir.make_node("DictAttrs", **asked))
        return pattern

    def alternative(self, expr, depth):
        sides = [self.describe(expr, depth - 1), self.describe(self.any_expr(), depth - 1)]
        if self.chance(0.5):
            sides.reverse()
        return sides[0] | sides[1]

    def optional(self, expr, depth):
        base = self.describe(expr, depth - 1)
        name = self.random.choice(UNARY)
        return base.optional(is_op(name))

    def dominator(self, expr):
        """Something above ``expr`` dominates it, over a path of any of several forms."""
        self.has_dominator = True
        above = []
        relay.analysis.post_order_visit(expr, above.append)
        calls = [e for e in above[:-1] if isinstance(e, relay.Call)] or above[:-1]
        parent = self.describe(self.random.choice(calls or [expr]), 1)
        kinds = [OpPattern.ELEMWISE, OpPattern.BROADCAST]
        of_kind = [wildcard().has_attr({"TOpPattern": kind}) for kind in kinds]
        path = self.random.choice(
            [
                lambda: wildcard(),
                lambda: CallPattern(wildcard(), None),
                lambda: CallPattern(of_kind[0] | of_kind[1], None),
                lambda: CallPattern(of_kind[1], [wildcard(), wildcard()]) | of_kind[0](wildcard()),
                lambda: self.describe(self.any_expr(), 1),
                lambda: self.describe(self.random.choice(above), 1) | of_kind[0](wildcard()),
            ]
        )()
        return dominates(parent, path, self.describe(expr, 1))
