#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From prepared module to plan without measuring: where the time goes, beside TVM's own prototype.

Each run is a fresh process, the sides in turn. `dnnl` is what the product does, at mock prices:
llvm and our oneDNN table with regions. `random` is the same at costs that make the search work:
by chance, a tenth of the external backends' failing, with transitions; `asked` at costs that are
told only when they are asked for, which are counted; `bounded` at these with lower bounds. `same`
gives both sides the one rule set that the prototype can take: TVM's oneDNN pattern table, on the
external target kind of the base package.

Ends with 1 when a plan is not proven optimal, when a limit other than max_depth cut something, or
when a published net took half a second or more from module to plan (`--allow-slow`: on a machine
that has other work, that is no error). See docs/cover_search.md. Test: bench/test_search.py.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import models
from harness import arguments, child, records
from harness.tables import interval_text, text_table

PUBLISHED = "resnet50,mobilenetv2,inception_v3,densenet121,bert,nasnet"
# The widest positions, and the most candidates that real costs were asked of.
WIDEST = "nasrnn,ppocr_rec"
SIZES = (100, 300, 1000, 3000, 10000)
PRICES = {"llvm": 3, "dnnl": 2, "ccompiler": 2}
SIDES = ("dnnl", "random", "asked", "bounded", "same")
ASKED = ("asked", "bounded")
TO_PLAN = ("types", "rules", "import", "candidates", "estimate", "search", "deploy", "report")
PHASES = (*TO_PLAN, "other", "rewrite")  # all but "rewrite" count as "to plan"
COUNTS = ("nodes", "candidates", "states", "widest")
LONGEST = 0.5  # seconds from module to plan, of a published net
_PROTOTYPE_SECONDS = 120.0  # in which it gives a plan, or has failed


def run_ours(path: Path, depth: int, side: str) -> dict[str, Any]:
    """Our pass in a fresh process."""
    given = {"path": str(path), "depth": depth, "side": side, "prices": PRICES}
    return child.call("search_sides:partition_net", given)


def run_stock(
    path: Path, depth: int, prices: dict[str, float] = PRICES, timeout: float = _PROTOTYPE_SECONDS
) -> dict[str, Any]:
    """Run the prototype in a fresh process; {"failed": why} when it gives no plan in time."""
    given = {"path": str(path), "depth": depth, "prices": prices}
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        log = Path(folder) / "log.txt"
        function = "search_sides:partition_by_prototype"
        ended = child.run(function, given, limit=timeout, environment=child.STOCK, log=log)
        # What the prototype logs: the sum of its plan's costs, in microseconds.
        cost = re.search(r"Estimated overall cost is ([\d.e+]+)us", log.read_text())
    if ended.failure:
        return {"failed": ended.failure[:120]}
    return {**ended.value, "price": float(cost[1]) * 1e-6 if cost else None}


def compare(name: str, path: Path, depth: int, args: Any) -> dict[str, Any]:
    """Run all sides on one net at one depth, in turn; the first round of a timeout is the last."""
    sides: dict[str, list] = {side: [] for side in (*SIDES, "stock")}
    for _ in range(args.rounds):
        for side in SIDES:
            sides[side].append(run_ours(path, depth, side))
        failed = sides["stock"] and "failed" in sides["stock"][-1]
        if not failed and not args.no_stock:
            sides["stock"].append(run_stock(path, depth))
    result = {"net": name, "depth": depth, "runs": sides, "ratios": {}}
    stock = [run for run in sides["stock"] if "failed" not in run]
    for side in ("dnnl", "same") if stock else ():
        pairs = zip(sides[side], stock)
        ratios = sorted(ours["cpu_seconds"] / theirs["cpu_seconds"] for ours, theirs in pairs)
        result["ratios"][side] = [ratios[0], statistics.median(ratios), ratios[-1]]
    return result


def faults(result: dict, allow_slow: bool) -> list[str]:
    """Tell what must not be, a line each: a slow published net, a limit that cut, no proven
    optimum."""
    found = []
    for side in SIDES:
        runs = result["runs"][side]
        where = f"{result['net']}, depth {result['depth']}, {side}: "
        seconds = _median(runs, "plan_seconds")
        # For costs that are asked for modules are made, which takes longer than the search.
        is_timed = result["net"] in PUBLISHED.split(",") and side not in ASKED
        if is_timed and seconds >= LONGEST and not allow_slow:
            found.append(where + f"{seconds:.3f} s from module to plan")
        last = runs[-1]
        found += [where + cut for cut in last["cuts"] if "limit max_depth cut" not in cut]
        if last["limit"] != "no limit binding":
            found.append(where + last["limit"])
        if not last["optimal"]:
            found.append(where + f"the plan is not proven optimal, {_gap(last)}")
    return found


def _gap(run: dict) -> str:
    """Tell how much cheaper than the plan the best one may be."""
    return f"the best is at most {1 - run['lower_bound'] / run['price']:.2%} cheaper"


def _median(runs: list[dict], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def report(result: dict) -> None:
    """Print one net at one depth."""
    head = [f"{result['net']} d{result['depth']}", "to plan s", "CPU", "whole s", "CPU"]
    head += [*(f"{name[:6]}" for name in PHASES), *COUNTS, "MB", "plan"]
    rows = [_row(side, result["runs"][side]) for side in SIDES]
    print(text_table(head, rows), flush=True)
    for side, (least, middle, most) in result["ratios"].items():
        text = interval_text([middle, least, most])
        print(f"  {side}, whole pass, CPU, ours / stock, median [least, most]: {text}")
    stock = result["runs"]["stock"]
    if stock:
        last = stock[-1]
        text = last.get("failed") or (
            f"whole: {_median(stock, 'seconds'):.3f} s, CPU {_median(stock, 'cpu_seconds'):.3f} s,"
            f" peak {last['peak_mb']:.1f} MB, plan {last['price']:.6g}"
        )
        print(f"  stock, {text}", flush=True)


def _row(side: str, runs: list[dict]) -> list[str]:
    """Return medians of the runs; seconds of phases are those of the CPU."""
    last = runs[-1]
    keys = ("plan_seconds", "plan_cpu_seconds", "seconds", "cpu_seconds")
    phases = [[run["cpu_phases"].get(phase, 0.0) for run in runs] for phase in PHASES]
    seconds = [*(_median(runs, key) for key in keys), *map(statistics.median, phases)]
    counts = [str(last[count]) for count in COUNTS]
    remarks = ["optimal" if last["optimal"] else f"NOT OPTIMAL, {_gap(last)}"]
    asked = f"{last['asked']} of {last['distinct']}"
    remarks.append(f"asked for {asked} distinct costs in {last['rounds']} rounds")
    remarks += [*last["cuts"], last["limit"]]
    rest = [f"{_median(runs, 'peak_mb'):.1f}", f"{last['price']:.6g}", "; ".join(remarks)]
    return [side, *(f"{value:.3f}" for value in seconds), *counts, *rest]


def main(given: list[str] | None = None) -> int:
    """Prepare, compare and report; end with 1 where there are faults."""
    sized = ",".join(f"{kind}:{size}" for kind in models.SIZED for size in SIZES)
    parser = arguments.make_parser(
        __doc__,
        nets=f"{PUBLISHED},{WIDEST},{sized}",
        rounds=3,
        allow_slow=False,
        output=arguments.ROOT / "build/bench/search.json",
    )
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--no-stock", action="store_true", help="ours alone")
    args = parser.parse_args(given)
    folder = args.output.parent / "search_nets"
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for net in args.nets:
        path = folder / f"{net.name.replace(':', '_')}.json"
        child.call("search_sides:prepare_net", {"name": net.name, "path": str(path)})
        for depth in args.depths:
            results.append(compare(net.name, path, depth, args=args))
            report(results[-1])
    records.write_figures(args.output, results)
    return arguments.status_of(
        line for result in results for line in faults(result, args.allow_slow)
    )


if __name__ == "__main__":
    sys.exit(main())
