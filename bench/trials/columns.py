# SPDX-License-Identifier: Apache-2.0
"""Try one net in a process of its own: what ships with all backends, and with fewer of them.

The search with all backends comes first, from an empty store: it is timed, and what its guard ships
is what a user gets. Lists of fewer backends, which grow by one, find nearly all costs in that
store, so that they cost little more than a search without measuring. Test: bench/test_mixes.py.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import models
import tvm
from harness.sides import PlanNames, files_of
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.targets import TargetList, parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.compile.compiled_parts import CompiledParts
from tvm.relay.collage.costs.kernel import KernelChoice, for_candidates
from tvm.relay.collage.estimators import CostEstimator
from tvm.relay.collage.estimators.kernel_choice import choose_kernels
from tvm.relay.collage.estimators.session import Session, open_session
from tvm.relay.collage.measure import Contestant, compare
from tvm.relay.collage.measure.peers import PEERS as FRAMEWORKS
from tvm.relay.collage.messages.foreign import last_line
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.graph_search import coarse_plans
from tvm.relay.collage.plans.graph_search.decide import simplest_first
from tvm.relay.collage.plans.names import OP_LEVEL, SEARCHED, TVM_ALONE, is_single
from tvm.relay.collage.plans.run_pass import options_set, partition
from tvm.relay.collage.tuning import TuningRecords, load_records

from .judge import Column, Shipped, compared, judge
from .trial import PEERS, Facts, prepare_net

# Who is slower than this has no further rounds, as no column can ship it, but for those that the
# page compares.
_GIVE_UP_RATIO = 2.0


def targets_of_columns(backends: Sequence[str]) -> dict[str, list[str]]:
    """Return the external targets of each column by its name: TVM alone, then one backend more in
    each; one that has kernels of our own comes without them first."""
    columns: dict[str, list[str]] = {TVM_ALONE: []}
    before: list[str] = []
    for name in backends:
        own_kernels = get_backend(name).own_kernels()
        if own_kernels:
            columns[f"+{name}"] = [*before, own_kernels[0].without]
        for own in own_kernels:
            columns[f"+{own.name}"] = [*before, name]
        if not own_kernels:
            columns[f"+{name}"] = [*before, name]
        before.append(name)
    return columns


def ships(request: dict[str, Any]) -> Facts:
    """Tell what ships with all backends, beside each alone and the libraries."""
    return trial(request, has_all=False)


def trial(request: dict[str, Any], *, has_all: bool = True) -> Facts:
    """Tell the same, and what ships in each column; has_all: in the last one alone otherwise.

    request: as trial.run_trial has it, and config (options of Collage by name) and logs (of tuning
    records, by the names of their columns).
    """
    yield {"stage": "import"}
    net = prepare_net(request)
    with (
        files_of(net, request["threads"], request["batch"]) as files,
        tvm.transform.PassContext(opt_level=3),
        options_set({"store": f"{request['folder']}/costs.sqlite", **request["config"]}),
    ):
        mod, params = models.to_relay(files.model)
        yield {"stage": "search with all backends"}
        targets = _targets(request["backends"]).all
        result = collage.optimize(mod, params, targets)
        yield facts_of_search(result)
        prepared = prepare(mod, params, collage.host_target(), opt_level=3)
        libraries = Libraries(files.folder)
        wanted = wanted_columns(prepared, request["backends"], request["logs"])
        columns, spent = [], []
        for found in column_plans(
            prepared, request["backends"], wanted if has_all else wanted[-1:]
        ):
            yield {"stage": f"plans of column {found.name}"}
            columns.append(libraries.column(found))
            spent.append({"name": found.name, "seconds": found.seconds, "new": found.measured})
        shipped = Shipped(
            libraries.add(result.plan, result.mod, result.records),
            is_single(result.plan),
            any(map(_is_own, result.kernels)),
        )
        best = searched_placement(result)
        graph_level = None
        if best:
            searched = collage.optimize(mod, params, targets, placement=best)
            graph_level = libraries.add(f"{SEARCHED}1", searched.mod, result.records)
        yield {"stage": "measure", "columns_spent": spent, "not_built": libraries.failed}
        peers = [name for name in PEERS if FRAMEWORKS[name].is_installed()]
        contestants = [
            Contestant.of_library(name, file, files.inputs, environment=files.environment)
            for name, file in libraries.files.items()
        ]
        comparisons = compare(
            [*contestants, *map(files.peer, peers)],
            [*peers, *columns[0].plans],  # whose outputs are right: TVM alone where no peer runs
            rounds=request["rounds"],
            rtol=request["rtol"],
            give_up_ratio=_GIVE_UP_RATIO,
            stays=compared(columns, peers, shipped),
        )
        yield judge(comparisons, columns, peers, ships=shipped, graph_level=graph_level)


class Wanted(NamedTuple):
    """A column: the external targets of its plans, and the records that TVM's kernels have."""

    name: str
    external: Sequence[str]
    records: TuningRecords = TuningRecords()


@dataclasses.dataclass(frozen=True)
class Found:
    """A column's plans, the seconds that they took to find, how many costs its backends made the
    store's, and the records that its kernels of TVM's have."""

    name: str
    plans: Plans
    seconds: float
    measured: int
    records: TuningRecords = TuningRecords()


def wanted_columns(
    prepared: tvm.IRModule, backends: Sequence[str], logs: Mapping[str, str]
) -> list[Wanted]:
    """Return the columns of a module. Those of a log, TVM alone and all backends with its records,
    come first; a log that has no record for the module has none."""
    columns = [Wanted(name, external) for name, external in targets_of_columns(backends).items()]
    for name, log in reversed(logs.items()):
        records = load_records([log], collage.host_target()).of_module(prepared)
        if records:
            columns[:0] = [Wanted(name, [], records), Wanted(f"+{name}", backends, records)]
    return columns


def column_plans(
    prepared: tvm.IRModule, backends: Sequence[str], columns: Sequence[Wanted]
) -> Iterator[Found]:
    """Find the plans of each column: each of its backends alone, the op-level optimum, that with
    neighbours joined, and those of fewer parts. Costs are asked for by the options of the current
    PassContext."""
    options = collage.CollageOptions.current().session
    with open_session(options, _targets(backends).external, prepared) as session:
        for column in columns:
            began, known = time.monotonic(), session.estimator.misses
            with column.records.in_force():
                plans = _plans_of(prepared, column.external, session)
            seconds, measured = time.monotonic() - began, session.estimator.misses - known
            yield Found(column.name, plans, seconds, measured=measured, records=column.records)


def _plans_of(prepared: tvm.IRModule, external: Sequence[str], session: Session) -> Plans:
    """Find plans as collage.optimize finds them for its guard."""
    targets = _targets(external)
    plans = Plans(prepared, targets)
    if external:
        plans.kernels = choose_kernels(session, plans.parts_with_kernels())
        kernels = for_candidates(plans.kernels)
        estimator = CostEstimator(dataclasses.replace(session, kernels=lambda _: kernels))
        replans: dict[str, Any] = {}
        estimator.replans = replans
        op_level = partition(prepared, targets, estimator)
        plans.add_single_backends()
        plans.add_merged(estimator.reports)
        for name, parts in coarse_plans(replans).items():
            plans.add_new(name, parts)
        plans.add_found(OP_LEVEL, op_level, estimator.reports)
    return plans


class Libraries:
    """Libraries of plans as files by name; equal plans share one.

    failed: plans that do not build, with the reason.
    """

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self._folder = folder
        self._names = PlanNames()
        self._compiled: dict[str, CompiledParts] = {}  # by digest

    def column(self, found: Found) -> Column:
        """Build a column's plans, and return what the judge is told of it."""
        modules = found.plans.modules
        for plan, cost in found.plans.failed.items():  # such as could not be made
            self.failed[f"{plan} of {found.name}"] = cost.Summary()
        names = {
            plan: self.add(f"{plan} of {found.name}", modules[plan], found.records)
            for plan in modules
        }
        order = dict.fromkeys(names[plan] for plan in simplest_first(modules))
        # A backend alone is what anybody has: without records.
        singles = [names[plan] for plan in modules if is_single(plan) and not found.records]
        return Column(
            found.name,
            [name for name in order if name in self.files],
            [name for name in singles if name in self.files],
            op_level=names.get(OP_LEVEL),
            own_kernels=[
                names[plan] for plan in modules if any(map(_is_own, found.plans.kernels_of(plan)))
            ],
        )

    def add(self, name: str, mod: tvm.IRModule, records: TuningRecords) -> str:
        """Return the name of the plan's library, which is built unless an equal one is there."""
        digest = records.digest()
        name = self._names.name(name, mod, digest)
        if name in self.files or name in self.failed:
            return name
        if digest not in self._compiled:
            self._compiled[digest] = CompiledParts(collage.host_target())
        try:
            with records.in_force():
                self._write(name, self._compiled[digest].build(mod))
        except Exception as error:  # noqa: BLE001 - one plan less, and it is said
            self.failed[name] = last_line(error)
        return name

    def _write(self, name: str, library: Any) -> None:
        file = str(self._folder / f"plan_{len(self.files)}.so")
        library.export_library(file)
        self.files[name] = file


def facts_of_search(result: collage.Result) -> dict[str, Any]:
    """Return how long the search with all backends took, for how many candidates, and what it
    ships."""
    report = result.to_json()
    if result.guard is None:
        raise RuntimeError(f"no plan was measured whole: {result.guard_skipped}")
    costs = [row["costs"] for row in report["functions"] if not row["skipped"]]
    return {
        "phases": report["seconds"],
        "candidates": sum(row["distinct"] for row in costs),
        "asked": sum(row["asked"] for row in costs),
        "ships": result.plan,
        "placement": [
            {name: row[name] for name in ("backend", "parts", "operators")}
            for row in report["placement"]
        ],
        "own_kernels": sum(map(_is_own, result.kernels)),
    }


def searched_placement(result: collage.Result) -> collage.Placement | None:
    """Return the placement of the best plan that the search of whole plans tried; None without
    one."""
    if not (result.search and result.search.best):
        return None
    best = next(iter(result.search.best))
    name = next(trial.name for trial in result.search.trials if trial.key == best)
    return result.placements.placement(name)


def _is_own(choice: KernelChoice) -> bool:
    """Return if a step runs by a kernel of ours."""
    return any(own.name in choice.kernel for own in get_backend(choice.backend).own_kernels())


def _targets(external: Sequence[str]) -> TargetList:
    return parse_targets([collage.host_target(), *map(tvm.target.Target, external)])
