#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mixing could gain in a convolutional net at most, if borders between parts cost nothing.

The net runs on oneDNN, and on TVM. Each convolution's kernel is timed in both, as it runs in its
net, in whatever layout it has there. The bound takes the faster of the two for each convolution, in
no layout in particular, and charges nothing for going from one to the other: no plan that shares
convolutions between these two can gain more. What is no convolution stays on oneDNN. Our
own kernels are left out. See docs/additivity.md.

Both run in processes of their own, in turns; the quickest of all runs counts for each kernel.
Run: python bench/border_bound.py --nets resnet50,mobilenetv2. Test: bench/test_border_bound.py.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import models
from architectures.kernels import LOGS, Log, read_log, watched
from harness import arguments
from harness.records import machine_line
from harness.sides import files_of, prepared, print_each
from harness.tables import text_table
from tvm.relay.collage.plans import TVM_ALONE

_ONEDNN = "dnnl -winograd=never"
_TIMEOUT = 300.0
# Groups, channels in and out, rows and columns in and out, those of the window.
Shape = tuple[int, ...]
Times = Mapping[Shape, list[float]]


def onednn_convolutions(log: Log) -> Times:
    """Microseconds of each convolution by its shape."""
    found = defaultdict(list)
    for name, problem, microseconds, _ in log.onednn:
        if name.startswith("convolution"):
            sizes = {key: int(value) for key, value in re.findall(r"([a-z]+)(\d+)", problem)}
            names = ("ic", "oc", "ih", "iw", "oh", "ow", "kh", "kw")
            found[sizes.get("g", 1), *(sizes.get(each, 1) for each in names)].append(microseconds)
    return found


def tvm_convolutions(log: Log) -> Times:
    """The same of TVM's kernels for blocks of channels; the others have no times."""
    found = defaultdict(list)
    for name, microseconds, text in log.tvm:
        shapes = [
            [int(extent) for extent in re.findall(r"\d+", dims)]
            for dims in re.findall(r"\[([\d, ]*)\]", text)
        ]
        if "conv2d_NCHWc" not in name or len(shapes) < 3 or len(shapes[0]) != 5:
            continue
        data, window, *_, result = shapes
        channels = data[1] * data[4]
        groups = channels if "depthwise" in name else channels // (window[1] * window[4])
        outputs = result[1] * (result[4] if len(result) == 5 else 1)
        rows = (groups, channels, outputs, *data[2:4], *result[2:4], *window[2:4])
        found[rows].append(microseconds)
    return found


def bound(onednn: Log, tvm: Log) -> dict[str, Any]:
    """Microseconds of all kernels on oneDNN, convolutions, how many have a kernel of TVM's to
    compare with and how many are faster there, and the microseconds that these gain."""
    ours, theirs = onednn_convolutions(onednn), tvm_convolutions(tvm)
    faster, gain = 0, 0.0
    for shape, times in ours.items():
        difference = statistics.fmean(times) - statistics.fmean(theirs.get(shape, times))
        if difference > 0:
            faster, gain = faster + len(times), gain + difference * len(times)
    return {
        "microseconds": sum(c[2] for c in onednn.onednn) + sum(c[1] for c in onednn.tvm),
        "convolutions": sum(map(len, ours.values())),
        "compared": sum(len(times) for shape, times in ours.items() if shape in theirs),
        "faster": faster,
        "gain": gain,
    }


def measure(net: models.Net, options: Any) -> Iterator[str]:
    """A net's row."""
    with files_of(net, options.threads, options.batch) as files:
        mod, sides = prepared(files.model), {"dnnl": _ONEDNN, TVM_ALONE: TVM_ALONE}
        libraries = {name: files.library(name, mod, target) for name, target in sides.items()}
        logs: dict[str, list[Log]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, library in libraries.items():
                environment = {**files.environment, **LOGS.get(name, {})}
                lines = watched(library, files.inputs, _TIMEOUT, environment)
                logs[name].append(read_log(lines))
    yield table(net.name, bound(*map(quickest, logs.values())))


def quickest(logs: Sequence[Log]) -> Log:
    """The quickest of each call in any of them, which are of one library."""
    return Log(
        [min(calls, key=lambda call: call[2]) for calls in zip(*(log.onednn for log in logs))],
        [min(calls, key=lambda call: call[1]) for calls in zip(*(log.tvm for log in logs))],
        min(log.microseconds for log in logs),
    )


def table(net: str, row: Mapping[str, Any]) -> str:
    share = row["gain"] / (row["microseconds"] or 1.0)
    counts = (str(row[key]) for key in ("convolutions", "compared", "faster"))
    found = [net, f"{row['microseconds']:.0f}", *counts]
    heads = ["net", "kernels, us", "convolutions", "compared", "faster on tvm", "gain at most"]
    return text_table(heads, [[*found, f"{row['gain']:.0f} us, {share:.1%}"]])


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(
        __doc__, nets="resnet50,mobilenetv2", rounds=5, threads=None, batch=1
    )
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


if __name__ == "__main__":
    sys.exit(main())
