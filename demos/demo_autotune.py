# SPDX-License-Identifier: Apache-2.0
"""One net three times: TVM untuned, with schedules of other nets in seconds, tuned for minutes.

Each time Collage searches again which parts TVM gets beside oneDNN; known costs stay known.
`make demo-autotune` runs this, and demos/autotune.py does the same as a notebook. It writes a JSON
file and, with matplotlib, a picture beside it.
Docs: docs/transfer.md. Test: demos/test_demo_autotune.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from demo_compare import beside_each_other

UNTUNED, TRANSFERRED, TUNED = "untuned", "transferred", "tuned"
_ROUNDS = 20
# Only to see that everything works: the figures say little.
QUICK = {
    "tvm_max_depth": 1,
    "byoc_max_depth": 1,
    "measure_seconds": 0.01,
    "guard_rounds": 2,
    "workers": 1,
}


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    from tvm.relay.collage.errors import CollageError

    options.output.parent.mkdir(parents=True, exist_ok=True)
    mod = make_net(options.pixels)
    steps, results = [], {}
    with tempfile.TemporaryDirectory(prefix="collage-demo-") as folder:
        try:
            for row, result in searches(mod, folder, options):
                steps.append(row)
                results[row["name"]] = result
                print(text_of(row), flush=True)
        except CollageError as error:
            name = [*settings(options)][len(steps)]
            print(f"demo-autotune: {name}: {error}", file=sys.stderr)
            return 1
    add_latencies(steps, results, options)
    print("\n".join(latency_text(row) for row in steps))
    options.output.write_text(json.dumps({"steps": steps}, indent=2, allow_nan=False) + "\n")
    picture = options.output.with_suffix(".png")
    drawn = f"picture: {picture}" if draw(steps, picture) else "no picture: it needs matplotlib"
    print(f"figures: {options.output}, {drawn}")
    return int(any(row["failure"] for row in steps))


def searches(
    mod: Any, folder: str, options: argparse.Namespace
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each step's row, without a latency, and what Collage decided. CollageError."""
    import tvm
    from tvm.relay import collage

    targets = [tvm.target.Target(options.target) if options.target else collage.host_target()]
    targets.append(tvm.target.Target("dnnl"))
    common = {"store": str(Path(folder, "costs.sqlite")), "measure_seconds": 0.1}
    common |= {"tune_log": str(Path(folder, "trials.jsonl"))}
    common |= {"tvm_max_depth": 4, "byoc_max_depth": 4, "progress": options.progress}
    common |= QUICK if options.quick else {}
    options.sources = options.sources or sources_for(targets[0], folder, options)
    for name, more in settings(options).items():
        began = time.perf_counter()
        result = collage.optimize(
            mod, None, targets, options=collage.CollageOptions(**common, **more)
        )
        yield row_of(name, result, time.perf_counter() - began), result


def sources_for(target: Any, folder: str, options: argparse.Namespace) -> list[str]:
    """The package's schedules, or where none are for this CPU and what the net mostly computes,
    those of a smaller net, for which Ansor searches now."""
    from tvm.relay.collage.tuning.model import autoschedule, one_worker, open_model
    from tvm.relay.collage.tuning.transfer.shipped import NAME, shipped_log
    from tvm.relay.collage.tuning.transfer.sources import sources_of
    from tvm.relay.collage.tuning.tuner import SearchOptions

    log, seconds = Path(folder, "smaller.jsonl"), options.tune_seconds
    with one_worker() as workers:
        model = open_model(make_net(options.pixels * 2 // 3), target, "smaller", workers=workers)
        dearest = max(model.kernels, key=lambda kernel: kernel.calls * kernel.operations)
        shipped = shipped_log(target)
        if shipped and dearest.kind in {source.kernel.kind for source in sources_of([shipped])}:
            return [NAME]
        print(f"the package has none for this: a smaller net is searched for {seconds:.0f} s")
        asked = SearchOptions("ansor", options.trials, str(log), model=options.search_model)
        autoschedule(model, workers, asked, seconds=seconds)
    return [str(log)]


def settings(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """By step, the options that it adds."""
    transfer = {"transfer_log": options.sources, "tune_seconds": options.transfer_seconds}
    tune = {"tune": options.trials, "tuner": "ansor", "tune_seconds": options.tune_seconds}
    tune |= {"tune_model": options.search_model, "transfer_log": options.sources}
    return {UNTUNED: {}, TRANSFERRED: transfer, TUNED: tune}


def make_net(pixels: int) -> Any:
    """A small residual net, of convolutions that other nets have as well in other sizes."""
    import tvm
    from tvm import relay

    generator = np.random.default_rng(0)

    def conv(x: Any, inputs: int, channels: int, kernel: int, stride: int = 1) -> Any:
        shape = (channels, inputs, kernel, kernel)
        weight = (
            generator.standard_normal(shape).astype("float32") * (2 / np.prod(shape[1:])) ** 0.5
        )
        bias = relay.const(generator.standard_normal((channels, 1, 1)).astype("float32") * 0.1)
        y = relay.nn.conv2d(
            x,
            relay.const(weight.astype("float32")),
            strides=stride,
            padding=kernel // 2,
            channels=channels,
            kernel_size=(kernel, kernel),
        )
        return relay.add(y, bias)

    image = relay.var("image", shape=(1, 3, pixels, pixels))
    x = relay.nn.relu(conv(image, 3, 32, kernel=3, stride=2))
    for inputs, channels in ((32, 64), (64, 128)):
        short = conv(x, inputs, channels, kernel=1, stride=2)
        y = relay.nn.relu(conv(x, inputs, channels, kernel=3, stride=2))
        x = relay.nn.relu(relay.add(conv(y, channels, channels, kernel=3), short))
    x = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x))
    weight = generator.standard_normal((10, 128)).astype("float32")
    mod = tvm.IRModule.from_expr(relay.Function([image], relay.nn.dense(x, relay.const(weight))))
    return relay.transform.InferType()(mod)


def row_of(name: str, result: Any, took: float) -> dict[str, Any]:
    """What a step came to, but for its latency."""
    parts = Counter(
        part.backend
        for function in result.placement.functions
        for part in function.parts
        if part.is_compiled
    )
    return {
        "name": name,
        "search_seconds": took,
        "plan": result.plan,
        "parts": dict(parts),
        "records": result.records.origins(),
    }


def text_of(row: dict[str, Any]) -> str:
    parts = ", ".join(f"{count} on {name}" for name, count in row["parts"].items()) or "none"
    records = ", ".join(f"{count} {name}" for name, count in row["records"].items()) or "none"
    return (
        f"{row['name']}: plan {row['plan']} after {row['search_seconds']:.0f} s; parts: {parts}; "
        f"schedules: {records}"
    )


def add_latencies(
    steps: list[dict[str, Any]], results: dict[str, Any], options: argparse.Namespace
) -> None:
    """What each step ships, measured beside the others; outputs are compared with those of the
    first."""
    shape = (1, 3, options.pixels, options.pixels)
    image = np.random.default_rng(1).standard_normal(shape).astype("float32")
    libraries = {name: result.library for name, result in results.items()}
    # The slowest stays to the end, since the others are told as times of it.
    compared = beside_each_other(
        libraries,
        {"image": image},
        options.rounds,
        reference=UNTUNED,
        rtol=1e-3,
        give_up_ratio=None,
    )
    found = {item.name: item for item in compared}
    for row in steps:
        row.update(latency_of(found[row["name"]], found[UNTUNED]))


def latency_of(item: Any, untuned: Any) -> dict[str, Any]:
    """Of a step, by the rounds that both ran; why there is none, "" where there is."""
    from tvm.relay.collage.measure.race.comparison import paired_ratio

    if not item.samples:
        return {"seconds": None, "speedup": None, "failure": item.cost.Summary()}
    ratio = paired_ratio(untuned.samples, item.samples) if untuned.samples else None
    return {"seconds": item.cost.seconds, "speedup": ratio and ratio.to_json(), "failure": ""}


def latency_text(row: dict[str, Any]) -> str:
    """A step's latency beside untuned."""
    from tvm.relay.collage.costs.statistics import Interval

    if row["failure"]:
        return f"{row['name']}: {row['failure']}"
    text = f"{row['name']}: {1e3 * row['seconds']:.3f} ms"
    if row["speedup"] is None:
        return text
    speedup = Interval.from_json(row["speedup"])
    return f"{text}, {speedup.Summary('.2f', 'times as fast as untuned')}"


def draw(steps: list[dict[str, Any]], picture: Path) -> bool:
    """Bars of latencies, the time of each search under them, and no bar of a step that failed;
    False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure((8.0, 4.5), layout="constrained")
    axes = figure.subplots()
    places = range(len(steps))
    labels = [f"{row['name']}\n{row['search_seconds']:.0f} s of search" for row in steps]
    bars = {place: row["seconds"] for place, row in enumerate(steps) if not row["failure"]}
    axes.bar(list(bars), [1e3 * seconds for seconds in bars.values()])
    for place in set(places) - set(bars):
        axes.text(place, 0.0, "failed", ha="center", va="bottom")
    axes.set_xticks(places, labels)
    axes.set_ylabel("latency of what ships, ms")
    figure.savefig(picture)
    return True


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo-autotune ARGS=", description=__doc__)
    parser.add_argument(
        "--from",
        dest="sources",
        nargs="+",
        default=[],
        metavar="LOG",
        help="logs of Ansor whose schedules are tried; by default those of the package or, where "
        "it has none for this CPU and such kernels, of a smaller net that is searched first",
    )
    parser.add_argument("--transfer-seconds", type=float, default=30.0)
    parser.add_argument("--tune-seconds", type=float, default=120.0)
    parser.add_argument("--trials", type=int, default=64, help="of each kernel at most")
    parser.add_argument("--search-model", choices=["xgb", "random"], default="xgb")
    parser.add_argument("--quick", action="store_true", help="a short run: figures say little")
    parser.add_argument("--pixels", type=int, default=96, help="of the image, each way")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of the last comparison")
    parser.add_argument("--target", default="", help="a host target, else this CPU's")
    parser.add_argument("--progress", default="auto")
    parser.add_argument("--output", type=Path, default=Path("build/demo/autotune.json"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
