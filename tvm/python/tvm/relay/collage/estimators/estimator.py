# SPDX-License-Identifier: Apache-2.0
"""Cost estimators as the pass takes them: ``CollagePartition(config, estimator)`` of TVM's own API.

The pass asks in batches through one C++ class; what answers is a method here. The old protocol, a
global function of (module, target) that returns seconds, still works.
Test: estimators/test_estimator.py.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import tvm
from tvm import relay
from tvm._ffi import get_global_func, register_object
from tvm.runtime import Object
from tvm.target import Target

from ..costs.cost import MOST_SECONDS, Cost, CostStatus
from ..errors import CollageError
from ..files.records import read_json
from ..process_wide.interrupts import carried, interrupts_kept
from ..relay_util.walk import operator_calls
from ..views.function_report import FunctionReport
from .batch import measure_batch
from .bounds import least_seconds
from .profiles import Foreseeing
from .session import OwnSession, Session
from .transitions import measure_transitions
from .work import Work

# Price of each further call in one candidate, relative to the one before it (MockCostEstimator).
_FUSION_BENEFIT = 0.9


# CollageErrors are for users: without a page of C++ frames.
_carried = functools.partial(carried, also=(CollageError,))


class CostQuestion(NamedTuple):
    """A candidate whose cost C++ asks for without its module (border.schema.json)."""

    signature: str  # equal for candidates that must cost the same
    work: dict[str, Any]  # the fields of a Work
    target: int  # its place among the targets that come with the questions
    nodes: list[int]  # of the function


class CostQuestions(NamedTuple):
    """Questions of C++ about candidates without their modules, one item of each list a
    candidate."""

    signatures: list[str]
    works: list[Work]
    targets: list[Target]
    nodes: list[list[int]]

    @classmethod
    def read(cls, questions: str, targets: Sequence[Target]) -> CostQuestions:
        """Read them from JSON; each of `targets` is there once, and a question names its place
        among them."""
        known = list(targets)
        asked = [CostQuestion(**question) for question in json.loads(questions)]
        return cls(
            [question.signature for question in asked],
            [Work(**question.work) for question in asked],
            [known[question.target] for question in asked],
            [question.nodes for question in asked],
        )


@register_object("collage.CostEstimator")
class CostEstimator(Object):
    """Measures candidates in worker processes (RFC 0062, CostEstimator).

    A subclass overrides ``estimate_batch``, or ``price_batch`` when it needs no modules, which
    take time to make; with the first it may override ``least_seconds``. ``reports`` collects what
    the pass decided, a FunctionReport for each function.
    """

    __slots__ = ("__dict__",)

    # Are layout transforms between parts charged? They are measured, so only where costs are.
    has_transitions: ClassVar[bool] = True

    # (signatures, Work of each, targets) -> as estimate_batch; signatures are texts that are equal
    # for candidates that must cost the same. None: modules are wanted.
    price_batch: ClassVar[Any] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "estimate_batch" in vars(cls):
            for name in ("price_batch", "least_seconds"):
                if name not in vars(cls):
                    setattr(cls, name, None)

    def __init__(self, session: Session | None = None, profiles: Foreseeing | None = None) -> None:
        """``session``: the search's; without it, see measured.OwnSession. ``profiles``: foresee by
        runs of each backend alone, where such were made."""
        self.reports: list[FunctionReport] = []
        # By function, what plans it again: of a search of whole plans, which sets a dict here.
        self.replans: dict[str, Callable[[str], Any]] | None = None
        # Where the costs of its measuring session came from: MeasuredCostEstimator.counts().
        self.counts: dict[str, Any] = {}
        self._session, self._own = session, OwnSession()
        # The C++ object keeps its callbacks: bound to `self` neither would ever be freed. They are
        # bound to a twin without a handle that shares self's state.
        twin = type(self).__new__(type(self))
        twin.__dict__ = self.__dict__
        functions = {"estimate": twin._estimate, "observe": twin._observe}
        if self.price_batch is not None:
            functions["price"] = twin._estimate_prices
        if self.has_transitions:
            functions["transition"] = twin._transitions
            if session is None:
                functions["network"] = twin._set_network
        if self.least_seconds is not None:
            functions["bound"] = twin._bounds
        if profiles is not None:
            functions["foresee"] = functools.partial(_foresee, profiles)
        self.__init_handle_by_constructor__(get_global_func("collage.MakeCostEstimator"), functions)

    def __getattr__(self, name: str) -> Any:
        # TVM's would ask the C++ object, which the twin of __init__ lacks.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close(self) -> None:
        """End the worker processes that this estimator started, and forget its costs."""
        self._own.close()

    @contextlib.contextmanager
    def _measuring(self) -> Iterator[Session]:
        """Yield the session to measure with, whose counts are noted."""
        session = self._session or self._own.get()
        yield session
        self.counts = session.estimator.counts()

    def estimate_batch(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[Target], labels: Sequence[str]
    ) -> Sequence[Cost]:
        """Return the Cost of each module's @main on its target.

        Without a session the workers are this estimator's own, from its first use on.
        """
        with self._measuring() as session:
            return measure_batch(session, mods, targets, labels=labels)

    @_carried
    def _set_network(self, network: tvm.IRModule) -> int:
        return self._own.set_network(network)

    @_carried
    def _estimate(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[Target], labels: Sequence[str]
    ) -> str:
        return _answers(
            self.estimate_batch(list(mods), list(targets), [str(text) for text in labels])
        )

    @_carried
    def _estimate_prices(self, questions: str, targets: Sequence[Target]) -> str:
        asked = CostQuestions.read(questions, targets)
        return _answers(self.price_batch(asked.signatures, asked.works, asked.targets))

    def transition_seconds(
        self, types: Sequence[relay.TensorType], target: Target
    ) -> Sequence[float]:
        """Return the seconds of one layout transform of each tensor type on the host target."""
        with self._measuring() as session:
            return measure_transitions(session, types, target)

    @_carried
    def _transitions(self, types: Sequence[relay.TensorType], target: Target) -> str:
        seconds = self.transition_seconds(list(types), target)
        return json.dumps([float(value) for value in seconds])

    def least_seconds(
        self, works: Sequence[Work], targets: Sequence[Target], host: Target
    ) -> Sequence[float]:
        """Return seconds that no candidate's cost is below, 0.0 where nothing is known.

        ``works``: what each does at least, on any backend (``Work``, without bytes). None in place
        of this method where an estimator, as one with an ``estimate_batch`` of its own, knows no
        such seconds.
        """
        with self._measuring() as session:
            return least_seconds(session, works, targets, host=host)

    @_carried
    def _bounds(self, questions: str, targets: Sequence[Target], host: Target) -> str:
        asked = CostQuestions.read(questions, targets)
        seconds = self.least_seconds(asked.works, asked.targets, host)
        return json.dumps([float(value) for value in seconds])

    @_carried
    def _observe(self, report: str, replan: Callable[[str], Any] | None = None) -> None:
        self.reports.append(read_json(FunctionReport, report))
        if self.replans is not None and replan is not None:
            self.replans[self.reports[-1].function] = replan


class FunctionCosts(CostEstimator):
    """Costs by ``seconds_of(mod, target)``, each distinct (module, target) asked once.

    It answers seconds or a ``measure.Cost``. Infinity means that the target cannot run the module,
    as in TVM's old protocol; so does any other number that is no seconds (negative, NaN, above
    1e6).
    """

    has_transitions = False

    def __init__(self, seconds_of: Callable[[tvm.IRModule, Target], float | Cost]) -> None:
        super().__init__()
        self._seconds_of = seconds_of
        self._known: dict[Any, Cost] = {}

    def estimate_batch(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[Target], labels: Sequence[str]
    ) -> list[Cost]:
        return [self._one(mod, target) for mod, target in zip(mods, targets, strict=True)]

    def _one(self, mod: tvm.IRModule, target: Target) -> Cost:
        key = (tvm.ir.structural_hash(mod, map_free_vars=True), str(target))
        if key not in self._known:
            self._known[key] = _answer(self._seconds_of(mod, target))
        return self._known[key]


class MockCostEstimator(FunctionCosts):
    """Costs by counting calls: ``target_costs`` maps a target kind to the price of one call.

    Further calls in one candidate cost 0.9 of the one before each. With ``max_estimates`` > 0 more
    distinct candidates than that are an error.
    """

    def __init__(self, target_costs: Mapping[str, int], max_estimates: int = 0) -> None:
        self._target_costs = {str(kind): int(cost) for kind, cost in target_costs.items()}
        self._max_estimates = operator.index(max_estimates)
        super().__init__(self._price_of_module)

    def price_batch(
        self, signatures: Sequence[str], works: Sequence[Work], targets: Sequence[Target]
    ) -> list[Cost]:
        answers = []
        for signature, work, target in zip(signatures, works, targets, strict=True):
            key = (signature, target.kind.name)
            if key not in self._known:
                self._known[key] = Cost.given(self._price_of(target, [work.num_calls]))
            answers.append(self._known[key])
        return answers

    def _price_of_module(self, mod: tvm.IRModule, target: Target) -> float:
        return self._price_of(target, [len(operator_calls(f)) for f in mod.functions.values()])

    def _price_of(self, target: Target, counts: Sequence[int]) -> float:
        """Return the price of functions of so many calls."""
        if self._max_estimates and len(self._known) >= self._max_estimates:
            raise ValueError(f"more than {self._max_estimates} distinct candidates were generated")
        kind = target.kind.name
        if kind not in self._target_costs:
            raise ValueError(f"MockCostEstimator has no cost for target kind {kind!r}")
        benefit = _FUSION_BENEFIT
        return sum(
            self._target_costs[kind] * (1 - benefit**count) / (1 - benefit) for count in counts
        )


class CustomCostEstimator(FunctionCosts):
    """Costs by the global function of that name: (module, target) -> seconds."""

    def __init__(self, py_fn_estimator: str = "tvm.relay.collage.estimate_seconds_custom") -> None:
        self._function = get_global_func(py_fn_estimator)
        super().__init__(self._ask)

    def _ask(self, mod: tvm.IRModule, target: Target) -> float | Cost:
        with interrupts_kept():
            return self._function(mod, target)


@_carried
def _foresee(profiles: Foreseeing, questions: str, targets: Sequence[Target], sharply: bool) -> str:
    asked = CostQuestions.read(questions, targets)
    return json.dumps(profiles.foresee(asked.targets, asked.nodes, bool(sharply))._asdict())


def _answer(cost: float | Cost) -> Cost:
    """Return what a cost function gave, seconds or a Cost, as a Cost."""
    if isinstance(cost, Cost):
        return cost
    if 0 <= float(cost) <= MOST_SECONDS:
        return Cost.given(float(cost))
    return Cost.failed(CostStatus.UNSUPPORTED, f"the cost function gave {float(cost)}")


def _answers(costs: Sequence[Cost]) -> str:
    """Return an estimator's answer as JSON for C++; ValueError when it is none."""
    for cost in costs:
        if not isinstance(cost, Cost):
            text = f"estimate_batch gives a measure.Cost for each candidate, not {cost!r}"
            raise ValueError(text)
    return json.dumps([vars(cost.of_part()) for cost in costs])
