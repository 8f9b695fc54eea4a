# SPDX-License-Identifier: Apache-2.0
"""Seeds -> graphs -> placements -> findings, each shrunk and printed with the command to repeat it.

Test: backends/test_fuzz.py. Docs: docs/testing.md.
"""

import argparse
import collections
import dataclasses
import importlib
import itertools
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from tvm.relay.collage.backends import list_backends

from .graph import Graph
from .place import ALONE, Variant, own_variants, placed, variants_of, wrong_outputs
from .profiles import grown
from .shrink import shrink
from .work import SECONDS, Died, run

# Graphs of one process: as many as make up for opening the libraries.
_CHUNK = 12
# Instruction sets that oneDNN's kernels and ours are limited to: that of this machine, and others.
ISAS = ("", "", "", "AVX2", "SSE41")
_LIMITED = ("dnnl", "qnn")
# More seeds than anybody has time for.
_NO_END = 1 << 40


class Task(NamedTuple):
    """A graph in some placements."""

    seed: int
    variants: tuple[Variant, ...]
    isa: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """kind: wrong, error, crash, or tvm for what is wrong with TVM alone."""

    seed: int
    variant: Variant
    isa: str
    kind: str
    text: str
    outputs: tuple[int, ...] = ()


def check(graph: Graph, seed: int, variant: Variant, isa: str = "") -> Finding | None:
    """What is wrong with the graph in that placement. Runs it."""
    try:
        wrong = wrong_outputs(graph, variant, seed)
    except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
        line = str(error).strip().splitlines()[-1:] or [""]
        return Finding(seed, variant, isa, "error", f"{type(error).__name__}: {line[0]}")
    if not wrong:
        return None
    outputs = tuple(index for index, _, _ in wrong)
    text = max(wrong, key=lambda each: each[1])[2]
    return Finding(seed, variant, isa, "wrong", text, outputs)


def do(task: Task) -> list[Finding]:
    """The findings of a task. What TVM alone gets wrong as well is TVM's, or the reference's."""
    graph = grown(task.seed)[1]
    found, alone = [], None
    for variant in task.variants:
        finding = check(graph, task.seed, variant, task.isa)
        if finding is None:
            continue
        if variant != ALONE:
            alone = alone or check(graph, task.seed, ALONE, task.isa) or "right"
            if alone != "right" and _same(alone, finding):
                finding = dataclasses.replace(finding, kind="tvm")
        else:
            finding = dataclasses.replace(finding, kind="tvm")
        found.append(finding)
    return found


def _same(alone: Finding, other: Finding) -> bool:
    if alone.kind == "error" or other.kind == "error":
        return alone.kind == other.kind  # what TVM cannot build, a backend may get wrong
    return not set(other.outputs) - set(alone.outputs)


def tasks(
    seeds: range, options: argparse.Namespace, available: set[str], done: set[int]
) -> Iterator[Task]:
    """A task a seed: `options.placements` of its profile's placements, drawn by the seed.

    Seeds that have none are added to `done`.
    """
    for seed in seeds:
        profile = grown(seed)[0]
        rng = np.random.default_rng([seed, 1])
        isa = options.isa
        if isa is None:
            is_limited = profile in _LIMITED and not options.target
            isa = str(rng.choice(ISAS)) if is_limited else ""
        if options.target:
            variants = [each for target in options.target for each in own_variants(target)]
        else:
            variants = variants_of(profile, available)
        if isa and not options.target:
            variants = [each for each in variants if "dnnl" in each.targets[0]]
        if options.placement:
            variants = [each for each in [*variants, ALONE] if each.name == options.placement]
        elif len(variants) > options.placements:
            picked = rng.choice(len(variants), options.placements, replace=False)
            variants = [variants[i] for i in sorted(picked)]
        if not options.placement and rng.random() < options.alone:
            variants.append(ALONE)
        if variants:
            yield Task(seed, tuple(variants), isa)
        else:
            done.add(seed)


def _chunks(all_tasks: Iterator[Task], until: float) -> Iterator[tuple[list[Task], dict[str, str]]]:
    """One process has one instruction set: oneDNN reads it once."""
    waiting: dict[str, list[Task]] = collections.defaultdict(list)
    for task in all_tasks:
        if time.monotonic() > until:
            break
        waiting[task.isa].append(task)
        if len(waiting[task.isa]) == _CHUNK:
            yield waiting.pop(task.isa), _environment(task.isa)
    for isa, rest in waiting.items():
        yield rest, _environment(isa)


def _environment(isa: str) -> dict[str, str]:
    return {"ONEDNN_MAX_CPU_ISA": isa} if isa else {}


def _in_one(graph: Graph, finding: Finding, seconds: float) -> Any:
    """check in a process of its own; what TVM alone gets wrong as well does not count."""

    def work(_):
        found = check(graph, finding.seed, finding.variant, finding.isa)
        if found and finding.kind != "tvm" and found.kind == "wrong":
            alone = check(graph, finding.seed, ALONE, finding.isa)
            found = None if alone and _same(alone, found) else found
        return [found]

    ((_, answer),) = run(work, [([None], _environment(finding.isa))], 1, seconds)
    return answer if isinstance(answer, Died) else answer[0]


def smallest(finding: Finding, seconds: float) -> tuple[Graph, str]:
    """The finding's graph shrunk, and what is wrong with it."""
    last = [finding.text]

    def fails(graph: Graph) -> bool:
        answer = _in_one(graph, finding, seconds)
        is_crash = isinstance(answer, Died)
        kind = "wrong" if finding.kind == "tvm" and "Error" not in finding.text else finding.kind
        same = is_crash if kind == "crash" else not is_crash and answer and answer.kind == kind
        if finding.kind == "tvm" and answer and not is_crash:
            same = True
        if same:
            last[0] = answer.reason if is_crash else answer.text
        return bool(same)

    graph = shrink(grown(finding.seed)[1], fails, list(finding.outputs))
    return graph, last[0]


def report(finding: Finding, graph: Graph, text: str) -> str:
    """All that is needed to look into it."""
    isa = f" --isa {finding.isa}" if finding.isa else ""
    mod = graph.module()
    lines = [
        f"== seed {finding.seed}, {finding.variant.name}{f', {finding.isa}' if isa else ''}: "
        f"{finding.kind}",
        text,
        f'repeat: make fuzz ARGS="--seeds {finding.seed}:{finding.seed + 1} '
        f"--placement '{finding.variant.name}'{isa}\"",
        "graph:",
        mod.astext(show_meta_data=False),
    ]
    if finding.kind != "crash" and finding.variant.targets:
        lines += ["placement:", _placement_text(mod, finding)]
    return "\n".join(lines)


def _placement_text(mod, finding) -> str:
    try:
        return placed(mod, finding.variant, finding.seed).astext(show_meta_data=False)
    except Exception as error:  # noqa: BLE001 - to place it may be what fails
        return str(error).strip().splitlines()[-1]


def available_backends() -> set[str]:
    """The names of those that can run here, asked in a process that ends."""
    names = [backend.name for backend in list_backends()]

    def ask(_):
        return [backend.name for backend in list_backends() if not backend.available()]

    ((_, answer),) = run(ask, [([None], {})], 1)
    return set(names) if isinstance(answer, Died) else set(answer)


def seeds_in(text: str) -> range:
    """FIRST:LAST without LAST, or FIRST: for as many as there are."""
    first, _, last = text.partition(":")
    return range(int(first), int(last) if last else _NO_END)


def seeds_text(seeds: range) -> str:
    return f"seeds {seeds.start} " + ("and on" if seeds.stop == _NO_END else f"to {seeds.stop - 1}")


def main(arguments: list[str]) -> int:
    """Returns 1 when something was found."""
    options = _parsed(arguments)
    logging.disable(logging.WARNING)  # TVM has no tuned schedules for these shapes, it says
    for name in options.imports:
        importlib.import_module(name)
    began = time.monotonic()
    until = began + options.minutes * 60 if options.minutes else float("inf")
    available = available_backends()
    seeds = seeds_in(options.seeds)
    print(f"{seeds_text(seeds)}, {options.jobs} jobs; {', '.join(sorted(available))}")
    counts: collections.Counter[str] = collections.Counter()
    found: list[Finding] = []
    done: set[int] = set()
    chunks = _chunks(tasks(seeds, options, available, done), until)
    for task, answer in run(do, chunks, options.jobs, options.seconds):
        counts["graphs"] += 1
        counts["placements"] += len(task.variants)
        done.add(task.seed)
        if len(done) % 100 == 0:
            print(f"{len(done)} graphs in {time.monotonic() - began:.0f} s", flush=True)
        if isinstance(answer, Died):
            answer = _crashes(task, options.seconds)
        for finding in answer:
            counts[finding.kind] += 1
            is_tvms = finding.kind == "tvm" and not options.tvm
            if is_tvms or len(found) >= options.most:
                continue
            graph, text = smallest(finding, options.seconds)
            found.append(finding)
            print(report(finding, graph, text), flush=True)
    seconds = time.monotonic() - began
    first_left = next(seed for seed in itertools.count(seeds.start) if seed not in done)
    totals = f"{dict(counts)} in {seconds:.0f} s; findings: {len(found)}"
    print(f"{totals}; go on with --seeds {first_left}:")
    return 1 if found else 0


def _crashes(task: Task, seconds: float) -> list[Finding]:
    """Which placement of the task ends its process."""
    found = []
    for variant in task.variants:
        finding = Finding(task.seed, variant, task.isa, "crash", "")
        answer = _in_one(grown(task.seed)[1], finding, seconds)
        if isinstance(answer, Died):
            found.append(dataclasses.replace(finding, text=answer.reason))
        elif answer:
            found.append(answer)
    return found


def _parsed(arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    add = parser.add_argument
    add("--seeds", default="0:300", help="FIRST:LAST (not included), or FIRST: for no end")
    add("--minutes", type=float, default=0, help="begin no more graphs after so many")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    add("--placements", type=int, default=2, help="of each graph, of those of its profile")
    add("--placement", default="", help="this one alone, by its name as printed")
    add("--alone", type=float, default=0.3, help="the share of graphs that TVM alone runs too")
    add("--isa", default=None, help='ONEDNN_MAX_CPU_ISA of all; "" for this machine\'s')
    add("--target", action="append", default=[], help="this backend alone; may be repeated")
    add("--imports", action="append", default=[], help="a module that registers a backend")
    add("--most", type=int, default=20, help="findings that are shrunk and printed")
    add("--seconds", type=float, default=SECONDS, help="the limit of one graph")
    add("--tvm", action="store_true", help="print what TVM alone gets wrong, too")
    return parser.parse_args(arguments)
