#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the schedules that come with the package (tvm/relay/collage/transfer/records), on a CPU of
the kind that they are for:

    collage tt export --models resnet18,mobilenetv2 -o nets --python .venv-zoo/bin/python
    python tools/make_records.py nets/*.onnx --folder build/records --trials 64 --seconds 600

It goes on where it stopped: run it again until no net has time left. The file
says how many trials the kernel had that had the fewest. Test: tools/test_make_records.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections import Counter
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+", type=Path, help="ONNX files")
    parser.add_argument("--folder", type=Path, required=True, help="of the logs, a net each")
    parser.add_argument("--trials", type=int, default=64, help="of each kernel (64)")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each net now (600)")
    parser.add_argument("--output", type=Path, help="instead of the package's own file")
    parser.add_argument("--search-model", choices=["xgb", "random"], default="xgb")
    parser.add_argument("--target", default="", help="as collage tt takes it")
    options = parser.parse_args(arguments)
    from tvm.relay.collage.cli import main as collage

    options.folder.mkdir(parents=True, exist_ok=True)
    logs = []
    for net in options.nets:
        log = options.folder / f"{net.stem}.jsonl"
        search = ["tt", "autoschedule", str(net), "--log", str(log), "--target", options.target]
        search += ["--trials", str(options.trials), "--seconds", str(options.seconds)]
        if collage([*search, "--search-model", options.search_model]):
            return 1
        logs.append(log)
    count = write(logs, options.output)
    print(f"{count} kernels")
    return 0


def write(logs: list[Path], output: Path | None = None) -> int:
    """The best trial of each kernel of all logs in one file, which says how it was made; answers
    how many there are."""
    import tvm
    from tvm.relay.collage.files import write_whole
    from tvm.relay.collage.machine.environment import cpu_model, tvm_build
    from tvm.relay.collage.transfer.kernel import to_comment
    from tvm.relay.collage.transfer.log import distil, kernels_of, read_ansor
    from tvm.relay.collage.transfer.shipped import MADE, RECORDS, vector_bits

    lines = [line for log in logs for line in read_ansor(log)]
    facts = {
        "nets": {log.stem: _least_trials(log) for log in logs},
        "cpu": cpu_model(),
        "threads": int(tvm.runtime.num_threads()),
        "tvm": tvm_build(),
        "date": datetime.date.today().isoformat(),
    }
    kernels = kernels_of(*logs)
    best = [line for line in distil(lines) if line.workload in kernels]
    texts = [MADE + json.dumps(facts)]
    for line in best:
        texts += [to_comment(kernels[line.workload]), line.text]
    path = output or RECORDS / f"x86-{vector_bits()}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(str(path), "\n".join([*texts, ""]))
    return len(best)


def _least_trials(log: Path) -> int:
    """Of the kernel of a log that has the fewest."""
    from tvm.relay.collage.transfer.log import kernels_of, read_ansor

    counts = Counter(line.workload for line in read_ansor(log))
    return min((counts[workload] for workload in kernels_of(log)), default=0)


if __name__ == "__main__":
    sys.exit(main())
