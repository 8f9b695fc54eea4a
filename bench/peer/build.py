# SPDX-License-Identifier: Apache-2.0
"""Build a net with Collage, or with TVM alone, in a process of its own; libraries come as files.

A build that fails, hangs or dies is data. Run as a module it is that process.
Test: bench/test_peers.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COLLAGE, STOCK = "collage", "stock"
_BENCH = Path(__file__).resolve().parent.parent
_LOG_TAIL = 300


@dataclasses.dataclass
class Built:
    """Library files by contestant, seconds that it took, Collage's report; or why not.

    ships: the plan that Collage chose; its library is the one called "collage".
    """

    libraries: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    ships: str | None = None
    report: dict[str, Any] | None = None
    failure: str = ""


def build(side: str, model: str, folder: Path, threads: int, options: dict[str, Any]) -> Built:
    """Build the ONNX file `model` for a side (COLLAGE or STOCK).

    options: alone (whether libraries of each backend alone are kept too), timeout in seconds,
    backends, names of Collage's external backends, and config, its options by name.
    """
    answer = folder / f"{side}.json"
    request = {"side": side, "model": model, "folder": str(folder), "answer": str(answer)}
    request |= {"alone": options["alone"], "config": options["config"]}
    request["backends"] = options["backends"]
    environment = {"TOPHUB_LOCATION": "NONE", **os.environ, "TVM_NUM_THREADS": str(threads)}
    environment.pop("COLLAGE_DISABLE", None)
    if side == STOCK:
        environment["COLLAGE_DISABLE"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(
        item for item in (str(_BENCH), environment.get("PYTHONPATH")) if item
    )
    command = [sys.executable, "-P", "-m", "peer.build", json.dumps(request)]
    log = folder / f"{side}.log"
    began = time.perf_counter()
    with log.open("w") as stream:
        try:
            code = subprocess.run(
                command, env=environment, stdout=stream, stderr=stream, timeout=options["timeout"]
            ).returncode
        except subprocess.TimeoutExpired:
            return Built(failure=f"the build took longer than {options['timeout']:g} s")
    if code or not answer.exists():
        text = log.read_text(errors="replace").strip() or "no output"
        return Built(failure=f"the build ended with {code}: {text.splitlines()[-1][-_LOG_TAIL:]}")
    return Built(**json.loads(answer.read_text()), seconds=time.perf_counter() - began)


def _build_stock(mod: Any, params: Any, request: dict[str, Any]) -> dict[str, Any]:
    import tvm
    from tvm import relay

    target = f"llvm -mcpu={tvm.target.codegen.llvm_get_system_cpu()}"
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target=target, params=params)
    return {"libraries": {STOCK: _export(library, request, STOCK)}}


def _build_ours(mod: Any, params: Any, request: dict[str, Any]) -> dict[str, Any]:
    import tvm
    from tvm import relay
    from tvm.relay import collage

    config = {f"relay.collage.{name}": value for name, value in request["config"].items()}
    config["relay.collage.enable_collage"] = True
    external = [tvm.target.Target(name) for name in request["backends"]]
    targets = [collage.host_target(), *external]
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = relay.build(mod, target=targets, params=params)
    result = library.collage
    files = {COLLAGE: _export(library, request, COLLAGE)}
    if request["alone"] and result.guard:
        from tvm.relay.collage.report import is_single

        for name in result.guard.libraries:
            if is_single(name) and name != result.plan:
                files[f"{name} alone"] = _export(result.guard.libraries[name], request, name)
    return {"libraries": files, "ships": result.plan, "report": result.to_json()}


def _export(library: Any, request: dict[str, Any], name: str) -> str:
    file = str(Path(request["folder"]) / f"{request['side']}_{name}.so")
    library.export_library(file)
    return file


def main(request: dict[str, Any]) -> None:
    import onnx
    from models import to_relay

    mod, params = to_relay(onnx.load(request["model"]))
    make = _build_stock if request["side"] == STOCK else _build_ours
    Path(request["answer"]).write_text(json.dumps(make(mod, params, request)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
