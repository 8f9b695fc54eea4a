# SPDX-License-Identifier: Apache-2.0
"""First answers for tests of what comes behind them: they take builds and processes."""

import contextlib
from types import SimpleNamespace

from relay_text import HOST, make_backend, parse
from tvm.relay.collage import optimizer
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.costs.statistics import Interval
from tvm.relay.collage.exec.time_limit import NO_LIMIT
from tvm.relay.collage.measure.race.comparison import Comparison
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.first_answer import FirstAnswer
from tvm.relay.collage.plans.graph_search import GuardResult
from tvm.relay.collage.plans.graph_search.libraries import Linked
from tvm.relay.collage.plans.request import Phases
from tvm.relay.collage.relay_util.node_spans import stamp_nodes
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "profiledplan"
KERNELS = [{"symbol": "", "backend": "tvm", "nodes": [1]}]


def answer_first(monkeypatch, answer=lambda: FirstAnswer()):
    """Have a build's first answer be what `answer` gives, by default none."""
    monkeypatch.setattr(
        optimizer, "first_answer", lambda request, how: contextlib.nullcontext(answer())
    )


def three_operators():
    """A net of three operators, the second of which the backend NAME takes."""
    make_backend(NAME, [(f"{NAME}.tanh", is_op("tanh")(wildcard()))])
    mod = parse("def @main(%x: $T) -> $T { %0 = nn.relu(%x); %1 = tanh(%0); exp(%1) }")
    return stamp_nodes(mod)


def request_of(mod, effort="normal", limit=NO_LIMIT):
    targets = parse_targets([HOST, NAME])
    plans = Plans(mod, targets)
    plans.add_single_backends()
    options = CollageOptions(effort=effort, progress="quiet")
    return SimpleNamespace(
        prepared=mod,
        targets=targets,
        plans=plans,
        options=options,
        build_options={},
        clock=Phases(),
        limit=limit,
    )


def first_of(best, seconds, *, files=(), raced=()):
    ones = Interval(1.0, 1.0, 1.0)
    rows = [Comparison(name, Cost.given(seconds), ones, samples=(seconds,) * 4) for name in raced]
    raced = GuardResult(rows, best, {}) if best else None
    return FirstAnswer(
        files={name: Linked(f"{name}.so", "", KERNELS) for name in files}, raced=raced
    )
