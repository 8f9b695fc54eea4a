#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What schedules of other nets gain, beside Ansor's own search in the same time and for long.

    python bench/transfer.py --nets resnet18,alexnet --trials 64 --budget 600   # again to go on
    python bench/transfer.py --write-docs                                       # docs/transfer.md

Each net gets the schedules that Ansor found for the others. All trials stay in logs, so that a run
goes on where the budget ended the one before. Docs: docs/transfer.md. Test: bench/test_transfer.py.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import arguments, records
from harness.resume import Book, Job, run
from harness.tables import markdown_table, milliseconds

if TYPE_CHECKING:
    from tvm.relay.collage.messages.progress import OnStep

# A net's figures of machines with vectors of another width stand beside each other.
KEY = ["net", "vector_bits"]
# The nets that are named are each other's sources.
SETTINGS = ["threads", "trials", "schedules", "rounds", "nets", "target"]
COUNTED = [*SETTINGS, "machine"]
# Speed-up over untuned and minutes of search on a Xeon E5-2620 (paper, table 4 and figure 5).
PAPER = {
    "resnet18": (1.20, 1.2),
    "resnet50": (1.16, 7.6),
    "alexnet": (4.6, 1.7),
    "vgg16": (1.19, 5.2),
    "mobilenetv2": (1.20, 1.8),
    "efficientnet_b0": (1.23, 12.0),
    "efficientnet_b4": (1.13, 13.0),
    "googlenet": (1.15, 8.8),
    "mnasnet": (1.26, 4.8),
    "bert": (59.0, 0.3),
    "mobilebert": (13.0, 0.3),
}
PAPERS_SHARE, PAPERS_RATIO = 0.49, 6.5


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        return Book(options.record, KEY).write_page(options.docs, tables)
    end = time.monotonic() + options.budget
    options.folder.mkdir(parents=True, exist_ok=True)
    from tvm.relay.collage.errors import OptionError

    with contextlib.ExitStack() as held:
        try:
            nets = Nets(options, held)
        except OptionError as error:
            print(f"transfer: {error}", file=sys.stderr)
            return 1
        for name in options.nets:
            why = export(name, options)
            if why:
                print(f"{name}: {why}", file=sys.stderr)
                return 1
        late = [name for name in options.nets if not search(nets, name, options, end)]
        late += [name for name in options.nets if not transfer(nets, name, options, end)]
        if late:
            print(f"the budget of {options.budget:g} s ended: run it again to go on")
            return 0
        book = Book(options.record, KEY, conditions_of(options), COUNTED)
        jobs = [job_of(nets, name, options) for name in options.nets]
        found = run(jobs, book, summary, budget=end - time.monotonic(), keep=options.keep)
        print(tables(found), end="")
    return 0


class Nets:
    """Models by name with a worker each, opened when they are first asked for and held, since to
    open one takes half a minute. OptionError for a target that is none."""

    def __init__(self, options: argparse.Namespace, held: contextlib.ExitStack) -> None:
        from tvm.relay.collage.backends.targets import host_named

        self._options, self._held = options, held
        self._target = host_named(options.target, "--target")
        self._opened: dict[str, tuple[Any, Any]] = {}

    def of(self, name: str) -> tuple[Any, Any]:
        """The model, and its worker."""
        if name not in self._opened:
            from tvm.relay.collage.importer.onnx_file import onnx_module
            from tvm.relay.collage.tuning.model import one_worker, open_model

            workers = self._held.enter_context(one_worker())
            mod = onnx_module(file_of(name, self._options), {})
            self._opened[name] = open_model(mod, self._target, name, workers), workers
        return self._opened[name]


def file_of(name: str, options: argparse.Namespace) -> Path:
    return options.folder / f"{name}.onnx"


def log_of(name: str, options: argparse.Namespace) -> Path:
    """Of Ansor's own search."""
    return options.folder / f"{name}.jsonl"


def moved_of(name: str, options: argparse.Namespace) -> Path:
    """Of the trials of other nets' schedules."""
    return options.folder / f"{name}-transferred.jsonl"


def export(name: str, options: argparse.Namespace) -> str:
    """Have the net's file; why there is none, or ""."""
    if file_of(name, options).exists():
        return ""
    command = [sys.executable, "-m", "tvm.relay.collage", "tt", "export", "--models", name]
    command += ["-o", str(options.folder), "--python", options.torch_python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or ["no file"])[-1] if done.returncode else ""


def search(nets: Nets, name: str, options: argparse.Namespace, end: float) -> bool:
    """Ansor's search of the net until all its kernels have their trials; whether they have."""
    from tvm.relay.collage.tuning.model import TIME, autoschedule
    from tvm.relay.collage.tuning.tuner import SearchOptions

    if time.monotonic() >= end:
        return False
    model, workers = nets.of(name)
    began, log = time.monotonic(), log_of(name, options)
    asked = SearchOptions("ansor", options.trials, str(log), model=options.search_model)
    searched = autoschedule(model, workers, asked, seconds=end - began, on_step=told(name))
    print(f"{name}: searched for {time.monotonic() - began:.0f} s", flush=True)
    return time.monotonic() < end and searched.ended != TIME


def transfer(nets: Nets, name: str, options: argparse.Namespace, end: float) -> bool:
    """The other nets' schedules tried on the net; whether all were."""
    from tvm.relay.collage.tuning.model import transfer_to
    from tvm.relay.collage.tuning.transfer.sources import sources_of
    from tvm.relay.collage.tuning.transfer.transfer import Transfer, TransferOptions, outcomes

    if time.monotonic() >= end:
        return False
    model, workers = nets.of(name)
    sources = sources_of([log_of(each, options) for each in options.nets if each != name])
    how = TransferOptions(most=options.schedules)
    tried = Transfer(sources, moved_of(name, options), workers, how)
    found = transfer_to(model, tried, end - time.monotonic(), told(name))
    trials = [trial for each in found.values() for trial in each]
    print(f"{name}: transferred, {outcomes(trials)}", flush=True)
    return time.monotonic() < end


def job_of(nets: Nets, name: str, options: argparse.Namespace) -> Job:
    return Job(name, key_of(name, options), lambda: measure(nets, name, options))


def key_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The net, and the width of the vectors that TVM's code for the target uses."""
    from tvm.relay.collage.backends.targets import host_named
    from tvm.relay.collage.tuning.transfer.shipped import bits_of

    return {"net": name, "vector_bits": bits_of(host_named(options.target, "--target"))}


def measure(nets: Nets, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Whole nets end to end, and how the transfers ended."""
    from tvm.relay.collage.cli.tt.gain import compare_searches
    from tvm.relay.collage.tuning.transfer.log import trials_of

    model, workers = nets.of(name)
    moved, searched = moved_of(name, options), log_of(name, options)
    gain = compare_searches(model, moved, searched, workers, options.rounds)
    return {
        "kernels": len(model.kernels),
        "from": [each for each in options.nets if each != name],
        "outcomes": Counter(facts["outcome"] for facts in trials_of(moved).values()),
        "gain": gain.to_json(),
    }


def summary(found: Mapping[str, Any]) -> str:
    from tvm.relay.collage.cli.tt.gain import Gain

    return "; ".join(Gain.from_json(found["gain"]).lines()[1:])


def told(name: str) -> OnStep:
    """Tells of a kernel of the net now and then."""
    last = [time.monotonic()]

    def on_step(step: str, done: int, total: int, is_waiting: bool = False) -> None:
        if time.monotonic() > last[0] + 30:
            last[0] = time.monotonic()
            print(f"{name}: {done} of {total}, {step[:60]}", flush=True)

    return on_step


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """The page's part: what was gained in which time, and beside the paper, by width of vectors."""
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for each in found:
        groups.setdefault(each["vector_bits"], []).append(each)
    return "\n".join(_table_of(bits, groups[bits]) for bits in sorted(groups))


def _table_of(vector_bits: int, found: Sequence[Mapping[str, Any]]) -> str:
    head = ["net", "untuned, ms", "transferred", "Ansor, same time", "Ansor, long", "share of gain"]
    head += ["Ansor matches after", "paper"]
    trials = ", ".join(
        f"{each['net']} {each['gain']['trials']['ansor']} trials for {each['kernels']} kernels"
        for each in found
    )
    outcomes: dict[str, int] = {}
    for each in found:
        for name, count in each["outcomes"].items():
            outcomes[name] = outcomes.get(name, 0) + count
    ended = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    return (
        f"### Vectors of {vector_bits} bits\n\n{markdown_table(head, map(_row, found))}\n"
        "Speed-ups are over untuned TVM, whole nets, with 95 % intervals. "
        f"{records.origin(found)}. Ansor's long search: {trials}. "
        f"How the transfers' trials ended: {ended}. {_together(found)} In the paper transferring "
        f"reaches {100 * PAPERS_SHARE:.0f} % of the gain of Ansor's searches of 20,000 trials, and "
        f"Ansor needs {PAPERS_RATIO} times as long to match.\n"
    )


def _together(found: Sequence[Mapping[str, Any]]) -> str:
    """Both ways' geometric means over the nets that have both. A mean of the nets' shares would be
    that of the net where Ansor gained least."""
    sides = [{side["name"]: side["speedup"] for side in each["gain"]["sides"]} for each in found]
    both = [each for each in sides if each.get("transferred") and each.get("ansor")]
    if not both:
        return "No net has both."
    moved, searched = (
        statistics.geometric_mean(each[name]["value"] for each in both)
        for name in ("transferred", "ansor")
    )
    return f"Geometric mean: transferred {moved:.2f}, Ansor's long search {searched:.2f}."


def _row(found: Mapping[str, Any]) -> list[str]:
    from tvm.relay.collage.cli.tt.gain import Gain, percent

    gain = Gain.from_json(found["gain"])
    sides = {side.name: side for side in gain.sides}

    def cell(name: str) -> str:
        side = sides.get(name)
        if side is None or side.speedup is None:
            return "-"
        return f"{side.speedup.Summary('.2f')} in {side.search_seconds:.0f} s"

    share, matching = gain.share_of_gain, gain.matching_seconds
    took = sides["transferred"].search_seconds
    paper = PAPER.get(found["net"])
    ratio = f" ({matching / took:.1f} times)" if matching is not None and took else ""
    return [
        found["net"],
        milliseconds(sides["untuned"].seconds),
        cell("transferred"),
        cell("ansor same time"),
        cell("ansor"),
        "-" if share is None else percent(share),
        "not in its log" if matching is None else f"{matching:.0f} s{ratio}",
        f"{paper[0]:g} in {60 * paper[1]:.0f} s" if paper else "-",
    ]


def conditions_of(options: argparse.Namespace) -> dict[str, Any]:
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings["nets"] = sorted(options.nets)
    return records.conditions({"commit": records.commit(), **settings}, [])


def parse(
    given: list[str] | None,
    description: str = __doc__,
    record: Path = arguments.ROOT / "docs/transfer.jsonl",
) -> argparse.Namespace:
    """The options of this script, which are those of bench/transfer_choices.py too."""
    parser = arguments.make_parser(
        description,
        threads=None,
        rounds=30,
        record=record,
        docs=arguments.ROOT / "docs/transfer.md",
        **arguments.RESUMED,
    )
    add = parser.add_argument
    add(
        "--nets",
        type=arguments.listed,
        default=["resnet18", "alexnet", "googlenet"],
        help="of collage tt export, or files of that name in the folder; at least two",
    )
    add("--trials", type=arguments.at_least(1), default=64, help="of Ansor's for each kernel")
    add("--schedules", type=arguments.at_least(1), default=8, help="tried on each kernel at most")
    add("--folder", type=Path, default=arguments.ROOT / "build/bench/transfer", help="of all logs")
    add("--target", default="", help="a host target, else the usual one")
    add("--search-model", choices=["xgb", "random"], default="xgb")
    add(
        "--torch-python",
        default=str(arguments.ROOT / ".venv-zoo/bin/python"),
        help="has torch (make zoo-environment)",
    )
    options = parser.parse_args(given)
    if len(options.nets) < 2:
        parser.error("--nets takes at least two: each gets the schedules of the others")
    return options


if __name__ == "__main__":
    sys.exit(main())
