#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mixing could gain in a net at most, if borders between parts cost nothing.

The net runs on oneDNN, and on TVM, with the tuning records of --tuned if there are any. The kernel
of each convolution and product of matrices is timed in both, as it runs in its net, in whatever
layout and with whatever is fused into it there. The bound takes the faster of the two for each of
them, in no layout in particular, and charges nothing for going from one to the other: no plan that
shares them between these two gains more, but for what the one fuses and the other does not. What is
neither stays on oneDNN. Our own kernels are left out. See docs/additivity.md, docs/tuned_mixes.md.

Both run in processes of their own, in turns; the quickest of all runs counts for each kernel.
Run: python bench/border_bound.py --nets resnet50,mobilenetv2. Test: bench/test_border_bound.py.
"""

from __future__ import annotations

import math
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
from tvm.relay.collage import host_target
from tvm.relay.collage.plans.competing import TVM_ALONE
from tvm.relay.collage.tuning import load_records

_ONEDNN = "dnnl -winograd=never"
_TIMEOUT = 300.0
# Of a convolution groups, channels in and out, rows and columns in and out, those of the window; of
# a product how many there are at once, rows and columns of the result, terms of a sum.
Shape = tuple[int, ...]
Times = Mapping[Shape, list[float]]


def onednn_kernels(log: Log) -> Times:
    """Microseconds of each convolution and product by its shape."""
    found = defaultdict(list)
    for name, problem, microseconds, _ in log.onednn:
        sizes = {key: int(value) for key, value in re.findall(r"([a-z]+)(\d+)", problem)}
        if name.startswith("convolution"):
            names = ("ic", "oc", "ih", "iw", "oh", "ow", "kh", "kw")
            found[sizes.get("g", 1), *(sizes.get(each, 1) for each in names)].append(microseconds)
        elif name.startswith("inner_product"):
            found[1, *(sizes[each] for each in ("mb", "oc", "ic"))].append(microseconds)
        elif name.startswith("matmul"):
            left, right = (
                [int(extent) for extent in text.split("x")] for text in problem.split(":")[:2]
            )
            found[_product(left, right[-1], math.prod(right[:-2]))].append(microseconds)
    return found


def tvm_kernels(log: Log) -> Times:
    """The same of TVM's kernels, of convolutions those for blocks of channels; the others have no
    times."""
    found = defaultdict(list)
    for name, microseconds, text in log.tvm:
        shapes = [
            [int(extent) for extent in re.findall(r"\d+", dims)]
            for dims in re.findall(r"\[([\d, ]*)\]", text)
        ]
        if shape := _shape_of(name, shapes):
            found[shape].append(microseconds)
    return found


def _shape_of(name: str, shapes: Sequence[list[int]]) -> Shape | None:
    """Of a kernel of TVM's; data and weights come first and the result last."""
    if len(shapes) < 3:
        return None
    data, weights, *_, result = shapes
    if "conv2d_NCHWc" in name and len(data) == 5:
        channels = data[1] * data[4]
        groups = channels if "depthwise" in name else channels // (weights[1] * weights[4])
        outputs = result[1] * (result[4] if len(result) == 5 else 1)
        return (groups, channels, outputs, *data[2:4], *result[2:4], *weights[2:4])
    # A weight may be laid out in blocks, so what counts is how many numbers it has.
    if ("dense" in name and len(data) == 2) or ("batch_matmul" in name and len(data) == 3):
        count = data[0] if len(data) == 3 else 1
        return _product(data, math.prod(weights) // (count * data[-1]), count)
    return None


def _product(left: Sequence[int], columns: int, count: int) -> Shape:
    """Of a product, `count` of whose right sides there are."""
    return count, math.prod(left[:-1]) // count, columns, left[-1]


def bound(onednn: Times, tvm: Times) -> dict[str, float]:
    """Kernels on oneDNN, how many have one of TVM's to compare with and how many are faster there,
    and the microseconds that these gain."""
    faster, gain = 0, 0.0
    for shape, times in onednn.items():
        difference = statistics.fmean(times) - statistics.fmean(tvm.get(shape, times))
        if difference > 0:
            faster, gain = faster + len(times), gain + difference * len(times)
    return {
        "kernels": sum(map(len, onednn.values())),
        "compared": sum(len(times) for shape, times in onednn.items() if shape in tvm),
        "faster": faster,
        "gain": gain,
    }


def measure(net: models.Net, options: Any) -> Iterator[str]:
    """A net's row."""
    with files_of(net, options.threads, options.batch) as files:
        mod = prepared(files.model)
        libraries = {"dnnl": files.library("dnnl", mod, _ONEDNN)}
        records = load_records(options.tuned, host_target()).of_module(mod)
        with records.in_force():
            libraries[TVM_ALONE] = files.library(TVM_ALONE, mod, TVM_ALONE)
        logs: dict[str, list[Log]] = {name: [] for name in libraries}
        for _ in range(options.rounds):
            for name, library in libraries.items():
                environment = {**files.environment, **LOGS.get(name, {})}
                lines = watched(library, files.inputs, _TIMEOUT, environment)
                logs[name].append(read_log(lines))
    onednn, tvm = map(quickest, logs.values())
    times = onednn_kernels(onednn), tvm_kernels(tvm)
    microseconds = sum(c[2] for c in onednn.onednn) + sum(c[1] for c in onednn.tvm)
    yield table(net.name, microseconds, bound(*times), len(records))
    if options.kernels:
        yield table_of_kernels(*times)


def quickest(logs: Sequence[Log]) -> Log:
    """The quickest of each call in any of them, which are of one library."""
    return Log(
        [min(calls, key=lambda call: call[2]) for calls in zip(*(log.onednn for log in logs))],
        [min(calls, key=lambda call: call[1]) for calls in zip(*(log.tvm for log in logs))],
        min(log.microseconds for log in logs),
    )


def table(net: str, microseconds: float, row: Mapping[str, float], records: int) -> str:
    """microseconds: of all kernels of the net on oneDNN."""
    counts = (str(row[key]) for key in ("kernels", "compared", "faster"))
    gain = f"{row['gain']:.0f} us, {row['gain'] / (microseconds or 1.0):.1%}"
    heads = ["net", "all, us", "conv/matmul", "compared", "faster on tvm", "gain at most"]
    return text_table(
        [*heads, "records"], [[net, f"{microseconds:.0f}", *counts, gain, str(records)]]
    )


def table_of_kernels(onednn: Times, tvm: Times) -> str:
    """Each shape's kernels, the dearest first."""
    lines = [
        [
            " ".join(map(str, shape)),
            str(len(times)),
            f"{statistics.fmean(times):.1f}",
            f"{statistics.fmean(tvm[shape]):.1f}" if shape in tvm else "-",
        ]
        for shape, times in sorted(onednn.items(), key=lambda item: -sum(item[1]))
    ]
    return text_table(["shape", "calls", "us on dnnl", "us on tvm"], lines)


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(
        __doc__, nets="resnet50,mobilenetv2", rounds=5, threads=None, batch=1
    )
    add = parser.add_argument
    add("--tuned", action="append", default=[], metavar="LOG", help="records for TVM's kernels")
    add("--kernels", action="store_true", help="print the times of each shape")
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


if __name__ == "__main__":
    sys.exit(main())
