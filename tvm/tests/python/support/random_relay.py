# SPDX-License-Identifier: Apache-2.0
"""Random typed Relay functions: a DAG over many operators, shapes and dtypes, constants, tuples,
projections, branches, lets, closures and calls of function literals. Same seed, same function."""

import random

import numpy as np
import tvm
from tvm import relay

SHAPE = (2, 4)
UNARY = ("nn.relu", "tanh", "exp", "abs", "sigmoid")
BINARY = ("add", "multiply", "divide", "subtract", "maximum")


class RandomFunction:
    """Grows one function; values are (expression, shape, dtype)."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.condition = relay.var("c", shape=(), dtype="bool")
        self.params = [self.condition, *(relay.var(n, shape=SHAPE) for n in ("x", "y"))]
        self.values = [(param, SHAPE, "float32") for param in self.params[1:]]
        self.constants = [
            relay.const(np.full(shape, value, "float32"))
            for shape, value in ((SHAPE, 1), (SHAPE, 1), (SHAPE, 2), ((), 2))
        ]

    def build(self, size: int) -> relay.Function:
        """Return a typed function of about ``size`` operators."""
        for _ in range(size):
            self.values.append(self.step())
        used = self.values[-self.random.randint(1, 3) :]
        results = [expr for expr, _, _ in used]
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        if self.random.random() < 0.3:
            body = self.let(body)
        free = [var for var in relay.analysis.free_vars(body) if var not in self.params]
        mod = tvm.IRModule.from_expr(relay.Function([*self.params, *free], body))
        return relay.transform.InferType()(mod)["main"]

    def pick(self, values=None):
        """Mostly a recent value."""
        values = values or self.values
        return values[-1 - min(int(self.random.expovariate(0.5)), len(values) - 1)]

    def plain(self):
        """A value of the usual shape and dtype."""
        return self.pick([v for v in self.values if v[1:] == (SHAPE, "float32")])[0]

    def operand(self):
        """A value of the usual type, or a constant that fits."""
        return self.random.choice(self.constants) if self.random.random() < 0.25 else self.plain()

    def step(self):
        makers = [self.unary] * 4 + [self.binary] * 6 + [self.with_attrs] * 5
        makers += [self.quotient, self.concat, self.split, self.branch, self.literal, self.back]
        return self.random.choice(makers)()

    def unary(self):
        expr, shape, dtype = self.pick()
        if dtype != "float32":
            expr = relay.cast(expr, "float32")
        return relay.Call(relay.op.get(self.random.choice(UNARY)), [expr]), shape, "float32"

    def binary(self):
        op = relay.op.get(self.random.choice(BINARY))
        args = [self.plain(), self.operand()]
        self.random.shuffle(args)
        return relay.Call(op, args), SHAPE, "float32"

    def quotient(self):
        """A product of quotients, in either association."""
        a, b, c = self.plain(), self.operand(), self.operand()
        forms = [lambda: (a * b) / c, lambda: a * (b / c), lambda: (b / c) * a, lambda: (b * a) / c]
        return self.random.choice(forms)(), SHAPE, "float32"

    def with_attrs(self):
        data, r = self.plain(), self.random
        made = r.choice(
            [
                lambda: (relay.nn.pad(data, r.choice([((0, 0), (1, 1)), ((0, 0), (1, 2))])), None),
                lambda: (relay.nn.leaky_relu(data, r.choice([0.1, 0.5])), SHAPE),
                lambda: (relay.nn.softmax(data, axis=r.choice([0, 1])), SHAPE),
                lambda: (relay.clip(data, 0.0, r.choice([1.0, 6.0])), SHAPE),
                lambda: (relay.sum(data, axis=r.choice([[0], [1]]), keepdims=True), None),
                lambda: (relay.transpose(data, [1, 0]), (4, 2)),
                lambda: (relay.reshape(data, r.choice([(8,), (4, 2)])), None),
                lambda: (relay.cast(data, r.choice(["int32", "float16"])), SHAPE),
                lambda: (relay.nn.dense(data, relay.const(np.ones((4, 4), "float32"))), SHAPE),
                lambda: (
                    relay.nn.batch_matmul(
                        relay.expand_dims(data, 0),
                        relay.expand_dims(data, 0),
                        transpose_b=True,
                    ),
                    (1, 2, 2),
                ),
            ]
        )
        expr, shape = made()
        if shape is None:
            typed = relay.transform.InferTypeLocal(expr)
            shape = tuple(int(dim) for dim in typed.shape)
        dtype = expr.attrs.dtype if expr.op.name == "cast" else "float32"
        return expr, shape, dtype

    def back(self):
        """A value of an unusual type, made usual again."""
        expr, shape, dtype = self.pick()
        if dtype != "float32":
            expr = relay.cast(expr, "float32")
        if shape != SHAPE:
            expr = relay.broadcast_to(relay.sum(expr), SHAPE)
        return expr, SHAPE, "float32"

    def concat(self):
        fields = [self.plain() for _ in range(self.random.choice([2, 2, 3]))]
        joined = relay.concatenate(relay.Tuple(fields), axis=0)
        return relay.strided_slice(joined, [0, 0], [2, 4]), SHAPE, "float32"

    def split(self):
        parts = relay.split(self.plain(), 2, axis=1)
        left, right = parts[0], parts[1]
        fields = [right, left] if self.random.random() < 0.5 else [left, left]
        joined = relay.Tuple(fields)
        if self.random.random() < 0.5:
            joined = relay.Tuple([relay.TupleGetItem(joined, 1), left])
        return relay.concatenate(joined, axis=1), SHAPE, "float32"

    def branch(self):
        left, right = relay.tanh(self.plain()), self.plain()
        return relay.If(self.condition, left, right), SHAPE, "float32"

    def literal(self):
        """A call of a function literal, which may read values from outside."""
        params = [relay.var(name, shape=SHAPE) for name in ("p", "q")[: self.random.randint(1, 2)]]
        body = relay.add(params[0], self.random.choice([params[-1], self.plain()]))
        function = relay.Function(params, relay.nn.relu(body))
        if self.random.random() < 0.5:
            function = function.with_attr("mark", "yes").with_attr("number", 3)
        return function(*(self.plain() for _ in params)), SHAPE, "float32"

    def let(self, body):
        """``body`` behind one or two bindings that it reads."""
        for name in ("v", "w")[: self.random.randint(1, 2)]:
            var = relay.var(name, shape=SHAPE)
            read = relay.multiply(var, relay.tanh(var))
            value = self.random.choice([self.plain(), self.plain(), self.constants[0]])
            body = relay.Let(var, value, relay.Tuple([body, read]))
        return body
