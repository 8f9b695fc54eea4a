# SPDX-License-Identifier: Apache-2.0
"""What is measured of one net in a process of its own, at each depth; facts are told as they are
found, so that a process that dies or hangs has told how far it came. Test: bench/test_zoo.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import child

# Peers on the original file; whose outputs count as right.
PEERS = ("onnxruntime", "openvino")
SECONDS, MINUTES = "seconds", "minutes"
TRIAL = f"{__name__}:trial"
_LONGEST_MESSAGE = 600
Facts = Iterator[dict[str, Any]]


def run_trial(request: dict[str, Any], function: str = TRIAL) -> dict[str, Any]:
    """The facts of a trial; what ended it early stands under "failure": stage and message.

    request: net, size, batch, depth, file (None for the builders of bench/models), folder, threads,
    backends, rounds, rtol, limit in seconds.
    """
    threads = dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(request["threads"]))
    ended = child.run(
        function,
        {"request": request},
        limit=request["limit"],
        environment=threads,
        log=Path(request["folder"]) / "log.txt",
    )
    facts: dict[str, Any] = {"stage": "start"}
    for each in ended.values:
        facts |= each
    failure = {"stage": facts.pop("stage"), "message": ended.failure[:_LONGEST_MESSAGE]}
    return facts | {"failure": failure if ended.failure else None}


def trial(request: dict[str, Any]) -> Facts:
    """The facts at the depth that is asked for, with the seconds of each stage."""
    stage, last = "start", time.monotonic()
    spent: dict[str, float] = {}
    for facts in DEPTHS[request["depth"]](request):
        now = time.monotonic()
        spent[stage] = round(spent.get(stage, 0.0) + now - last, 1)
        stage, last = facts.get("stage", stage), now
        yield facts | {"stages": spent}


def prepare_net(request: dict[str, Any]) -> Any:
    """The row as a net of bench/models, whose tools then serve for it."""
    import models
    import onnx

    from .nets import NETS

    row = NETS[request["net"]]
    if request["file"] is None:
        return models.NETS[row.make]
    return models.Net(
        row.name, row.family, lambda _: onnx.load(request["file"]), row.package, limits=row.limits()
    )


def at_seconds(request: dict[str, Any]) -> Facts:
    """Each backend alone beside each peer, and the slow kernels of each backend."""
    from harness.contestants import PEERS as FRAMEWORKS
    from harness.sides import files_of, prepared
    from tvm.relay.collage.measure import Contestant, compare
    from tvm.relay.collage.messages.foreign import last_line

    from .kernels import LOGS, probe_machine, slow_kernels
    from .record import rows_of

    yield {"stage": "import"}
    net = prepare_net(request)
    with files_of(net, request["threads"], request["batch"]) as files:
        yield {"model": _described(files.model)}
        mod = prepared(files.model)
        libraries: dict[str, str] = {}
        failures: dict[str, str] = {}
        for backend in request["backends"]:
            yield {"stage": f"build {backend}"}
            try:
                libraries[f"{backend} alone"] = files.library(backend, mod, backend)
            except Exception as error:  # noqa: BLE001 - one row of the record, not the end of it
                failures[f"{backend} alone"] = last_line(error)
        yield {"stage": "measure"}
        contestants = [
            Contestant.of_library(name, library, files.inputs, environment=files.environment)
            for name, library in libraries.items()
        ]
        peers = [name for name in PEERS if FRAMEWORKS[name].is_installed()]
        contestants += map(files.peer, peers)
        found = compare(contestants, peers, request["rounds"], request["rtol"], give_up_ratio=20.0)
        rows = rows_of(found, peers, failures)
        yield {"rows": rows}
        # A whole library that is as fast as the peers hides nothing of ours.
        slower = {row["name"] for row in rows if not row.get("ratio") or row["ratio"][0] < 1}
        slow: list[dict[str, Any]] = []
        yield {"stage": "kernels"}
        machine = probe_machine()
        for name, library in libraries.items():
            backend = name.removesuffix(" alone")
            if backend not in LOGS and name not in slower:
                continue
            try:
                kernels = slow_kernels(backend, library, files.inputs, machine, timeout=120.0)
            except RuntimeError as error:
                kernels = [{"where": "", "kernel": str(error)}]
            slow += [{"backend": backend, **kernel} for kernel in kernels]
        yield {"slow": slow}


def at_minutes(request: dict[str, Any]) -> Facts:
    """The full search and its guard; the plan that ships beside the peers."""
    import peers

    from .record import rows_of_peers

    yield {"stage": "search, guard, measure"}
    given = ["--contestants", ",".join(("collage", "alone", *PEERS))]
    given += ["--backends", ",".join(request["backends"])]
    for name in ("rounds", "rtol", "threads", "batch"):
        given += [f"--{name}", str(request[name])]
    given += ["--build-timeout", str(request["limit"]), *request["arguments"]]
    record = peers.measure(prepare_net(request), peers.parse(given))
    yield {"rows": rows_of_peers(record), "ships": record.get("ships")}


DEPTHS: dict[str, Callable[[dict[str, Any]], Facts]] = {SECONDS: at_seconds, MINUTES: at_minutes}


def _described(model: Any) -> dict[str, Any]:
    weights = sum(
        len(item.raw_data) or 4 * len(item.float_data) for item in model.graph.initializer
    )
    return {
        "nodes": len(model.graph.node),
        "weights_mb": round(weights / 1e6, 1),
        "opset": next((each.version for each in model.opset_import if not each.domain), 0),
        "exporter": f"{model.producer_name} {model.producer_version}".strip(),
    }
