# SPDX-License-Identifier: Apache-2.0
"""Try one net in a process of its own: each backend alone, beside the libraries on the same file.

Facts are told as they are found, so that a process that dies or hangs has told how far it came.
Test: bench/test_zoo.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import child

if TYPE_CHECKING:
    import models
    from tvm.relay.collage.measure import Comparison

# Libraries on the original file; the outputs of the first that runs count as right.
PEERS = ("onnxruntime", "openvino")
_LONGEST_MESSAGE = 600
_GIVE_UP_RATIO = 20.0
Facts = Iterator[dict[str, Any]]


def run_trial(request: dict[str, Any], function: str) -> dict[str, Any]:
    """Return the facts that the function tells of a net; what ended it early stands under
    "failure": stage and message.

    request: net, size, batch, file (None for the builders of bench/models), folder, threads,
    backends, rounds, rtol, limit in seconds, and what the function takes besides.
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


def prepare_net(request: Mapping[str, Any]) -> models.Net:
    """Return the net of a request, with the tools of bench/models."""
    import models
    import onnx
    from architectures.nets import NETS

    if request["file"] is None:
        [net] = models.find(request["net"])
        return net
    row = NETS[request["net"]]

    def load(_: int) -> onnx.ModelProto:
        return onnx.load(request["file"])

    return models.Net(row.name, row.family, load, source=row.package, limits=row.limits())


def alone(request: dict[str, Any]) -> Facts:
    """Tell how fast each backend alone is beside each library, and how far off its outputs are."""
    from harness.sides import files_of, prepared
    from tvm.relay.collage.backends import find_backend
    from tvm.relay.collage.measure import Contestant, compare
    from tvm.relay.collage.measure.outputs.tolerance import output_tolerance
    from tvm.relay.collage.measure.peers import PEERS as FRAMEWORKS
    from tvm.relay.collage.messages.foreign import last_line

    yield {"stage": "import"}
    net = prepare_net(request)
    with files_of(net, request["threads"], request["batch"]) as files:
        yield {"model": _described(files.model)}
        mod = prepared(files.model)
        contestants, failures = [], {}
        for backend in request["backends"]:
            yield {"stage": f"build {backend}"}
            name = f"{backend} alone"
            try:
                library = files.library(backend, mod)
            except Exception as error:  # noqa: BLE001 - one row of the record, not the end of it
                failures[name] = last_line(error)
                continue
            contestants.append(
                Contestant.of_library(name, library, files.inputs, environment=files.environment)
            )
        yield {"stage": "measure"}
        peers = [name for name in PEERS if FRAMEWORKS[name].is_installed()]
        limits = {}
        for name in [*(each.name for each in contestants), *peers]:
            backend = find_backend(name.removesuffix(" alone"))
            coarser = backend.trades_accuracy if backend else ""
            limits[name] = max(request["rtol"], output_tolerance(mod, coarser))
        found = compare(
            [*contestants, *map(files.peer, peers)],
            peers,
            rounds=request["rounds"],
            rtol=limits,
            give_up_ratio=_GIVE_UP_RATIO,
        )
        yield {"rows": rows_of(found, peers, failures)}


def rows_of(
    found: Sequence[Comparison], peers: Sequence[str], failures: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row for each side: ratio is the time of the fastest library over its own, and own
    that of the library which is its backend; above 1 it is faster."""
    from harness import sides

    by_name = {item.name: item for item in found}
    usable = [by_name[name] for name in peers if name in by_name and by_name[name].cost.is_usable]
    fastest = min(usable, key=lambda item: item.cost.seconds, default=None)
    rows = []
    for row in sides.rows_of(found, None, peers, failures=failures):
        item = by_name.get(row["name"])
        library = None if row["is_peer"] else by_name.get(row["name"].removesuffix(" alone"))
        own = sides.ratio_of(library, item)
        rows.append(row | {"ratio": sides.ratio_of(fastest, item), "own": own})
    return rows


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
