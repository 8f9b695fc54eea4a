# SPDX-License-Identifier: Apache-2.0
"""What is measured of one net in a process of its own, at each depth; facts are written as they are
found, so that a process that dies or hangs has told how far it came.

Run as a module it is that process. Test: bench/test_zoo.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BENCH = Path(__file__).resolve().parents[1]
# Peers on the original file; whose outputs count as right.
PEERS = ("onnxruntime", "openvino")
SECONDS, MINUTES = "seconds", "minutes"
_LOG_TAIL = 300
Note = Callable[..., None]


def run_trial(request: dict[str, Any], module: str = __name__) -> dict[str, Any]:
    """The facts of a trial; what ended it early stands under "failure": stage and message.

    request: net, size, batch, depth, file (None for the builders of bench/models), folder, threads,
    backends, rounds, rtol, limit in seconds.
    """
    folder = Path(request["folder"])
    answer, log = folder / "facts.jsonl", folder / "log.txt"
    environment = {**os.environ, "TVM_NUM_THREADS": str(request["threads"])}
    environment["OMP_NUM_THREADS"] = str(request["threads"])
    environment["PYTHONPATH"] = os.pathsep.join(
        item for item in (str(_BENCH), environment.get("PYTHONPATH")) if item
    )
    command = [sys.executable, "-P", "-m", module, json.dumps({**request, "answer": str(answer)})]
    with log.open("w") as stream:
        # A session of its own: its workers end with it.
        child = subprocess.Popen(
            command, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )
        try:
            code = child.wait(request["limit"])
            ended = f"ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            ended = f"took longer than {request['limit']:g} s"
        finally:
            _end_group(child)
    facts: dict[str, Any] = {"stage": "start", "failure": None}
    for line in answer.read_text().splitlines() if answer.exists() else []:
        facts |= json.loads(line)
    stage = facts.pop("stage")
    if ended and not facts["failure"]:
        last = (log.read_text(errors="replace").strip() or "no output").splitlines()[-1]
        facts["failure"] = {"stage": stage, "message": f"{ended}: {last[-_LOG_TAIL:]}"}
    return facts


def _end_group(child: subprocess.Popen) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of them have ended
    child.wait()


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


def at_seconds(request: dict[str, Any], note: Note) -> None:
    """Each backend alone beside each peer, and the slow kernels of each backend."""
    import models
    import onnx
    from peer.alone import build_alone, prepared
    from peer.contestants import PEERS as FRAMEWORKS
    from peer.sides import with_threads
    from tvm.relay.collage.errors import last_line
    from tvm.relay.collage.measure import Contestant, compare

    from .kernels import LOGS, probe_machine, slow_kernels
    from .record import rows_of

    note(stage="import")
    net = prepare_net(request)
    model = net.build(request["batch"])
    folder = Path(request["folder"])
    file, inputs = models.save(net, model, folder)
    note(model=_described(model))
    mod = prepared(onnx.load(file))
    libraries: dict[str, str] = {}
    failures: dict[str, str] = {}
    for backend in request["backends"]:
        name = f"{backend} alone"
        note(stage=f"build {backend}")
        try:
            library = str(folder / f"{backend}.so")
            build_alone(mod, backend).export_library(library)
            libraries[name] = library
        except Exception as error:  # noqa: BLE001 - one row of the record, not the end of it
            failures[name] = last_line(error)
    note(stage="measure")
    environment = with_threads(request["threads"])
    contestants = [
        Contestant.of_library(name, library, inputs, environment=environment)
        for name, library in libraries.items()
    ]
    peers = [name for name in PEERS if FRAMEWORKS[name].is_installed()]
    contestants += [FRAMEWORKS[name].contestant(file, inputs, environment) for name in peers]
    found = compare(contestants, peers, request["rounds"], request["rtol"], give_up_ratio=20.0)
    rows = rows_of(found, peers, failures)
    note(rows=rows)
    # A whole library that is as fast as the peers hides nothing of ours.
    slower = {row["name"] for row in rows if not row.get("ratio") or row["ratio"][0] < 1}
    slow: list[dict[str, Any]] = []
    note(stage="kernels")
    machine = probe_machine()
    for name, library in libraries.items():
        backend = name.removesuffix(" alone")
        if backend not in LOGS and name not in slower:
            continue
        try:
            kernels = slow_kernels(backend, library, inputs, machine, timeout=120.0)
        except RuntimeError as error:
            kernels = [{"where": "", "kernel": str(error)}]
        slow += [{"backend": backend, **kernel} for kernel in kernels]
    note(slow=slow)


def at_minutes(request: dict[str, Any], note: Note) -> None:
    """The full search and its guard; the plan that ships beside the peers."""
    import peers

    from .record import rows_of_peers

    note(stage="search, guard, measure")
    arguments = ["--contestants", ",".join(("collage", "alone", *PEERS))]
    arguments += ["--backends", ",".join(request["backends"])]
    for name in ("rounds", "rtol", "threads", "batch"):
        arguments += [f"--{name}", str(request[name])]
    arguments += ["--build-timeout", str(request["limit"]), *request["arguments"]]
    record = peers.measure(prepare_net(request), peers.parse(arguments))
    note(rows=rows_of_peers(record), ships=record.get("ships"))


DEPTHS: dict[str, Callable[[dict[str, Any], Note], None]] = {
    SECONDS: at_seconds,
    MINUTES: at_minutes,
}


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


def main(request: dict[str, Any], depths: Any = None) -> int:
    """Writes facts as JSON lines; a failure of the net is one of them."""
    # What is measured makes its temporary files where the parent cleans up.
    os.environ["TMPDIR"] = tempfile.tempdir = request["folder"]
    stage, began, spent = "start", time.monotonic(), {}
    with open(request["answer"], "a") as stream:

        def note(**facts: Any) -> None:
            nonlocal stage
            spent[stage] = round(time.monotonic() - began - sum(spent.values()), 1) + spent.get(
                stage, 0
            )
            stage = facts.get("stage", stage)
            facts["stages"] = spent
            stream.write(json.dumps(facts) + "\n")
            stream.flush()

        try:
            (depths or DEPTHS)[request["depth"]](request, note)
        except Exception as error:  # noqa: BLE001 - the record says so
            lines = [line for line in str(error).splitlines() if line.strip()]
            message = lines[-1].strip() if lines else ""
            note(failure={"stage": stage, "message": f"{type(error).__name__}: {message}"[:600]})
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
