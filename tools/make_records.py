#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the schedules that come with the package (tvm/relay/collage/tuning/transfer/records), on a
CPU of the kind that they are for:

    collage tt export --models resnet18,mobilenetv2 -o nets --python .venv-zoo/bin/python
    python tools/make_records.py nets/*.onnx --folder build/records --trials 500 --budget 7200

It goes on where it stopped: run it again until all nets have their trials. Then it measures TVM's
candidates of each net with the schedules that were found and without, and the file keeps those that
were faster, since each of them costs every search that it may serve a measurement. For the same
reason kernels that hardly count in their net are left out. The file says how many trials the kernel
had that had the fewest, and on which machine.
Test: tools/test_make_records.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

# What the package may grow by.
MOST_BYTES = 5_000_000
# Of the time of a net's kernels together. What takes less can hardly make the net faster.
LEAST_SHARE = 0.01


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("nets", nargs="+", type=Path, help="ONNX files")
    add("--folder", type=Path, required=True, help="of the logs, a net each")
    add("--trials", type=int, default=64, help="of each kernel (64)")
    add("--budget", type=float, default=600.0, help="seconds to search all nets in (600)")
    add("--best", type=int, default=1, help="trials of each kernel that the file keeps (1)")
    add("--output", type=Path, help="instead of the package's own file for the target")
    add("--search-model", choices=["xgb", "random"], default="xgb")
    add("--target", default="", help="as collage tt takes it")
    options = parser.parse_args(arguments)
    from tvm.relay.collage.backends.targets import host_named
    from tvm.relay.collage.errors import CollageError
    from tvm.relay.collage.tuning.transfer.shipped import path_for

    if options.best < 1:
        parser.error("--best must be at least 1")
    options.folder.mkdir(parents=True, exist_ok=True)
    logs = [options.folder / f"{net.stem}.jsonl" for net in options.nets]
    end = time.monotonic() + options.budget
    try:
        output = options.output or path_for(host_named(options.target, "--target"))
        for place, (net, log) in enumerate(zip(options.nets, logs, strict=True)):
            # What a net does not need is left for those after it.
            share = (end - time.monotonic()) / (len(logs) - place)
            if share > 0:
                search(net, log, share, options)
        searched = [(net, log) for net, log in zip(options.nets, logs, strict=True) if log.exists()]
        faster = {
            each
            for net, log in searched
            for each in worth_shipping(net, log, options) & that_count(log)
        }
        count = write([log for _, log in searched], faster, output, options.best)
    except (CollageError, ValueError) as error:
        print(f"make_records: {error}", file=sys.stderr)
        return 1
    print(f"{count} kernels are faster than with TVM's default schedule")
    return 0


def search(net: Path, log: Path, seconds: float, options: argparse.Namespace) -> None:
    """Ansor's search of a net for so long, its preparation included: what the log lacks then,
    another run goes on with. CollageError for a net or a target that cannot be taken."""
    from tvm.relay.collage.backends.targets import host_named
    from tvm.relay.collage.importer.onnx_file import onnx_module
    from tvm.relay.collage.tuning.ansor import NAME
    from tvm.relay.collage.tuning.from_options import check_cost_model
    from tvm.relay.collage.tuning.model import autoschedule, one_worker, open_model
    from tvm.relay.collage.tuning.tuner import SearchOptions

    check_cost_model(options.search_model, "make_records", "--search-model random")
    began, target = time.monotonic(), host_named(options.target, "--target")
    with one_worker() as workers:
        model = open_model(onnx_module(net, {}), target, net.stem, workers)
        left = seconds - (time.monotonic() - began)
        asked = SearchOptions(NAME, options.trials, str(log), model=options.search_model)
        searched = autoschedule(model, workers, asked, seconds=left)
    for unfinished in searched.unfinished.values():
        if not unfinished.is_late:
            print(f"make_records: {net.stem}: {unfinished.reason}", file=sys.stderr)
    late = sum(unfinished.is_late for unfinished in searched.unfinished.values())
    if late:
        print(f"{net.stem}: time ended the search of {late} kernels: run it again to go on")


def worth_shipping(net: Path, log: Path, options: argparse.Namespace) -> set[str]:
    """Return the kernels of a log, by workload, with whose best trial a candidate of TVM's for the
    net was measured to be faster than with TVM's default schedule. CollageError as for `search`."""
    import tvm
    from tvm.relay.collage import CollageOptions, optimize
    from tvm.relay.collage.backends.targets import host_named
    from tvm.relay.collage.importer.onnx_file import onnx_module
    from tvm.relay.collage.tuning.log import lines_of

    host = host_named(options.target, "--target")
    with tempfile.TemporaryDirectory() as folder, tvm.transform.PassContext(opt_level=3):
        # A search that has no time finds nothing new: it judges what the log has. Of kernels that
        # the net's other candidates have it makes notes, which are not for the log itself. Whole
        # nets are left to the guard of each build that the file serves.
        judging = CollageOptions(
            tune=1,
            tuner="ansor",
            tune_model="random",
            tune_seconds=1e-3,
            tune_log=shutil.copy(log, folder),
            guard=False,
            log_level="error",
        )
        found = optimize(onnx_module(net, {}), {}, [host], judging)
    return {line.workload for line in lines_of(found.records)}


def that_count(log: Path) -> set[str]:
    """Return the kernels of a log, by workload, that take a share of their net's time that counts:
    each as fast as its best trial, and as often as the net runs it."""
    from tvm.relay.collage.tuning.log import kernels_of
    from tvm.relay.collage.tuning.transfer.log import read_ansor
    from tvm.relay.collage.tuning.transfer.sources import distil

    calls = {workload: each.calls for workload, each in kernels_of(log).items()}
    seconds = {
        line.workload: (line.seconds or 0.0) * calls[line.workload]
        for line in distil(read_ansor(log))
        if line.workload in calls
    }
    least = LEAST_SHARE * sum(seconds.values())
    return {workload for workload, each in seconds.items() if each >= least}


def write(logs: list[Path], faster: set[str], path: Path, best: int = 1) -> int:
    """Write the best trials of each kernel of all logs that is among `faster` (workloads) in one
    file, which says how it was made; return how many kernels there are. ValueError where the file
    would be too large, or hold nothing."""
    import tvm
    from tvm.relay.collage.files.text import write_whole
    from tvm.relay.collage.machine.environment import cpu_model, tvm_build
    from tvm.relay.collage.tuning.ansor_kernel import to_comment
    from tvm.relay.collage.tuning.log import kernels_of
    from tvm.relay.collage.tuning.transfer.log import read_ansor
    from tvm.relay.collage.tuning.transfer.shipped import MADE
    from tvm.relay.collage.tuning.transfer.sources import distil

    lines = [line for log in logs for line in read_ansor(log)]
    facts = {
        "nets": {log.stem: _least_trials(log) for log in logs},
        "cpu": cpu_model(),
        "threads": int(tvm.runtime.num_threads()),
        "tvm": tvm_build(),
        "date": datetime.date.today().isoformat(),
    }
    kernels = {name: each for name, each in kernels_of(*logs).items() if name in faster}
    kept = [line for line in distil(lines, best) if line.workload in kernels]
    if not kept:
        raise ValueError(
            "no kernel has a trial that is faster than TVM's default schedule: give it more "
            "--trials and a larger --budget"
        )
    texts, told = [MADE + json.dumps(facts)], set()
    for line in kept:
        if line.workload not in told:
            texts.append(to_comment(kernels[line.workload]))
            told.add(line.workload)
        texts.append(line.text)
    text = "\n".join([*texts, ""])
    size = len(text.encode())
    if size > MOST_BYTES:
        raise ValueError(
            f"{path.name} would have {size} bytes, and {MOST_BYTES} is the most: name fewer "
            "nets or a smaller --best"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(str(path), text)
    return len(told)


def _least_trials(log: Path) -> int:
    """Return the trials of the kernel of a log that has the fewest."""
    from tvm.relay.collage.tuning.log import kernels_of
    from tvm.relay.collage.tuning.transfer.log import read_ansor

    counts = Counter(line.workload for line in read_ansor(log))
    return min((counts[workload] for workload in kernels_of(log)), default=0)


if __name__ == "__main__":
    sys.exit(main())
