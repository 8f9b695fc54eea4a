# SPDX-License-Identifier: Apache-2.0
"""Try one net in a process of its own: compiled at each effort, to the library on disk, and what
they ship beside each other.

The store is empty before the first, normal. The exhaustive search comes last and finds what that
one measured, so that its seconds are none of a cold one; what it ships is.
Test: bench/test_efforts.py.
"""

from __future__ import annotations

import time
from typing import Any

import models
import tvm
from harness.sides import files_of, rows_of
from tvm.relay import collage
from tvm.relay.collage.measure import Contestant, compare
from tvm.relay.collage.report.facts import most_gain
from tvm_collage.words import Effort

from .trial import Facts, prepare_net


def trial(request: dict[str, Any]) -> Facts:
    """Tell of each effort its seconds, to the first answer and in all, the costs that it asked for
    and what ships; then the times of what ships over the exhaustive one's."""
    yield {"stage": "import"}
    net = prepare_net(request)
    with (
        files_of(net, request["threads"], request["batch"]) as files,
        tvm.transform.PassContext(opt_level=3),
    ):
        mod, params = models.to_relay(files.model)
        targets = [collage.host_target(), *map(tvm.target.Target, request["backends"])]
        contestants, efforts = [], {}
        for effort in (Effort.NORMAL, Effort.QUICK, Effort.EXHAUSTIVE):
            yield {"stage": f"compile, {effort}"}
            # Quick asks for nothing that another has measured.
            store = f"{files.folder}/costs.sqlite"
            config = {"store": store, "effort": effort, "original": files.file}
            began = time.monotonic()
            options = collage.CollageOptions(**{**config, **request["config"]})
            result = collage.optimize(mod, params, targets, options=options)
            library = str(files.folder / f"{effort}.so")
            result.save_library(library)
            efforts[effort] = {"seconds": time.monotonic() - began, **_facts_of(result)}
            contestants.append(
                Contestant.of_library(effort, library, files.inputs, environment=files.environment)
            )
            yield {"efforts": efforts}
        yield {"stage": "measure"}
        found = compare(contestants, [*efforts], rounds=request["rounds"], rtol=request["rtol"])
        base = next((item for item in found if item.name == Effort.EXHAUSTIVE), None)
        yield {"rows": rows_of(found, base, [])}


def _facts_of(result: collage.Result) -> dict[str, Any]:
    """Return what a compile says of itself."""
    report = result.to_json()
    searched = [row for row in report["functions"] if not row["skipped"]]
    phases = report["seconds"]
    return {
        "phases": phases,
        "first_answer": sum(phases.get(name, 0.0) for name in ("prepare", "first answer")),
        "candidates": sum(row["costs"]["distinct"] for row in searched),
        "asked": sum(row["costs"]["asked"] for row in searched),
        "below_bounds": sum(row["below_bounds"] for row in searched),
        "is_beaten": any(row["is_beaten"] for row in searched),
        "most_gain": most_gain(result.record),
        "ships": result.plan,
        "backends": sorted({row["backend"] for row in report["placement"]}),
    }
