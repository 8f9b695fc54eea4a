# SPDX-License-Identifier: Apache-2.0
"""The cover problem as an integer linear program, an oracle for the search that shares no code.

Exact cover by binary variables; a value that crosses between layout classes is charged by a
variable above reader + maker - 1; cycles among the chosen parts are cut off as they turn up.
"""

import dataclasses
import functools
import json

import highspy
import numpy as np
import tvm
from tvm import relay
from tvm.relay import collage


@dataclasses.dataclass
class Problem:
    """Nodes by number, candidates by id; `seconds` of a candidate that cannot be used is -1."""

    inputs: list[list[int]]
    outside_inputs: list[list[int]]
    outputs: list[int]
    candidates: list[list[int]]
    classes: list[int]
    seconds: list[float]
    least_seconds: list[float]
    crossings: dict[tuple[int, int, int], float]
    outside_crossings: dict[tuple[int, int, int], float]
    plan: list[int]
    plan_seconds: float
    bound_seconds: float

    def outside(self, ids):
        """Nodes outside of a set of candidates' nodes that these read, as pairs (reader, value)."""
        holder = {node: c for c in ids for node in self.candidates[c]}
        return {
            (c, value)
            for c in ids
            for node in self.candidates[c]
            for value in self.inputs[node]
            if holder.get(value) != c
        }

    def fixed_seconds(self, c):
        """Cost of a candidate, with what crosses the border of the graph, which is plain."""
        cls = self.classes[c]
        read = {value for node in self.candidates[c] for value in self.outside_inputs[node]}
        total = self.seconds[c]
        total += sum(self.outside_crossings.get((value, 0, cls), 0.0) for value in read)
        for node in set(self.candidates[c]) & set(self.outputs):
            total += self.crossings.get((node, cls, 0), 0.0)
        return total

    def price(self, ids):
        """Seconds of a cover by its definition."""
        maker = {node: c for c in ids for node in self.candidates[c]}
        total = sum(self.fixed_seconds(c) for c in ids)
        for c, value in self.outside(ids):
            key = (value, self.classes[maker[value]], self.classes[c])
            total += self.crossings.get(key, 0.0)
        return total

    def cycle(self, ids):
        """Candidates of a shortest cycle that runs through some part, or None."""
        maker = {node: c for c in ids for node in self.candidates[c]}
        reads = {}
        for c, value in self.outside(ids):
            reads.setdefault(c, set()).add(maker[value])
        best = None
        for start in ids:
            came, front = {}, [start]
            while front and start not in came:
                front, last = [], front
                for c in last:
                    for other in reads.get(c, ()):
                        if other not in came:
                            came[other] = c
                            front.append(other)
            if start in came:
                cycle = [came[start]]
                while cycle[-1] != start:
                    cycle.append(came[cycle[-1]])
                if best is None or len(cycle) < len(best):
                    best = cycle
        return best


def problem_of(mod, targets, estimator) -> Problem:
    """What the pass's search of @main is asked and answers, under the current PassContext."""
    specs = collage.partition_specs(targets)
    main = relay.transform.InferType()(mod)["main"]
    text = tvm.get_global_func("collage.view.CoverProblem")(main, specs, estimator)
    fields = json.loads(text)
    for key in ("crossings", "outside_crossings"):
        fields[key] = {(c["value"], c["from"], c["to"]): c["seconds"] for c in fields[key]}
    return Problem(**fields)


def relaxed(problem: Problem) -> float:
    """Least seconds where fractions of candidates may be chosen, and transitions are free: no
    bound by prices of nodes can be above it."""
    model, _, _, _, scale = _cover_model(problem)
    model.run()
    assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return model.getInfo().objective_function_value / scale


def _cover_model(problem):
    """The choice of usable candidates, each between 0 and 1, that hold each node once."""
    usable = [c for c, seconds in enumerate(problem.seconds) if seconds >= 0]
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 0.0)
    column = {c: k for k, c in enumerate(usable)}
    # HiGHS's tolerances are meant for numbers about 1.
    scale = 1.0 / max(1e-12, float(np.mean([problem.fixed_seconds(c) for c in usable])))
    for c in usable:
        model.addVar(0.0, 1.0)
        model.changeColCost(column[c], problem.fixed_seconds(c) * scale)
    holders = [[] for _ in problem.inputs]
    for c in usable:
        for node in problem.candidates[c]:
            holders[node].append(c)
    for node in range(len(problem.inputs)):
        _add_row(model, 1.0, 1.0, {column[c]: 1.0 for c in holders[node]})
    return model, usable, holders, column, scale


def solve(problem: Problem) -> tuple[float, int]:
    """Least seconds of an acyclic cover, and the number of cycles that were cut off."""
    model, usable, holders, column, scale = _cover_model(problem)
    add = functools.partial(_add_row, model)
    for c in usable:
        model.changeColIntegrality(column[c], highspy.HighsVarType.kInteger)
    _add_crossings(model, problem, usable, holders, column, scale)
    cycles = 0
    while True:
        model.run()
        assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
        values = model.getSolution().col_value
        chosen = [c for c in usable if values[column[c]] > 0.5]
        cycle = problem.cycle(chosen)
        if cycle is None:
            return problem.price(chosen), cycles
        cycles += 1
        add(-highspy.kHighsInf, len(cycle) - 1.0, {column[c]: 1.0 for c in cycle})


def _add_row(model, least, most, weights):
    columns = np.array(list(weights), dtype=np.int32)
    model.addRow(least, most, len(columns), columns, np.array(list(weights.values())))


def _add_crossings(model, problem, usable, holders, column, scale):
    """A charge >= reader + makers of the class - 1, for each reader and class that costs."""
    for c in usable:
        for value in {value for _, value in problem.outside([c])}:
            for maker_class in set(problem.classes):
                seconds = problem.crossings.get((value, maker_class, problem.classes[c]), 0.0)
                makers = [m for m in holders[value] if problem.classes[m] == maker_class]
                if seconds == 0.0 or not makers:
                    continue
                charge = model.getNumCol()
                model.addVar(0.0, 1.0)
                model.changeColCost(charge, seconds * scale)
                weights = {column[m]: -1.0 for m in makers if m != c}
                weights[column[c]] = weights.get(column[c], 0.0) - 1.0
                _add_row(model, -1.0, highspy.kHighsInf, {**weights, charge: 1.0})
