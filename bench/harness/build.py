# SPDX-License-Identifier: Apache-2.0
"""Build a net with Collage, or with TVM alone, in a process of its own; libraries come as files.

A build that fails, hangs or dies is data. Test: bench/test_peers.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import child

COLLAGE, STOCK = "collage", "stock"


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


def build(
    side: str,
    model: str,
    folder: Path,
    threads: int,
    *,
    backends: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    with_alone: bool = False,
    timeout: float = 3600.0,
) -> Built:
    """Build the ONNX file `model` for a side (COLLAGE or STOCK), in so many seconds at most.

    backends: names of Collage's external backends. config: its options by name. with_alone: are
    libraries of each backend alone kept, too?
    """
    arguments: dict[str, Any] = {"model": model, "folder": str(folder)}
    if side == COLLAGE:
        arguments |= {"backends": list(backends), "config": dict(config or {})}
        arguments["with_alone"] = with_alone
    ended = child.run(
        f"{__name__}:build_{side}",
        arguments,
        limit=timeout,
        is_stock=side == STOCK,
        environment={"TVM_NUM_THREADS": str(threads)},
        log=folder / f"{side}.log",
    )
    if ended.failure:
        return Built(failure=f"build: {ended.failure}")
    return Built(**ended.value, seconds=ended.seconds)


def build_stock(model: str, folder: str) -> dict[str, Any]:
    """In a process of stock TVM."""
    import onnx
    import tvm
    from models import to_relay
    from tvm import relay

    mod, params = to_relay(onnx.load(model))
    target = f"llvm -mcpu={tvm.target.codegen.llvm_get_system_cpu()}"
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target=target, params=params)
    return {"libraries": {STOCK: _export(library, folder, STOCK, STOCK)}}


def build_collage(
    model: str, folder: str, backends: list[str], config: dict[str, Any], with_alone: bool
) -> dict[str, Any]:
    """In a process of ours."""
    import onnx
    import tvm
    from models import to_relay
    from tvm import relay
    from tvm.relay import collage
    from tvm.relay.collage.report import is_single

    mod, params = to_relay(onnx.load(model))
    settings = {f"relay.collage.{name}": value for name, value in config.items()}
    settings["relay.collage.enable_collage"] = True
    targets = [collage.host_target(), *map(tvm.target.Target, backends)]
    with tvm.transform.PassContext(opt_level=3, config=settings):
        library = relay.build(mod, target=targets, params=params)
    result = library.collage
    files = {COLLAGE: _export(library, folder, COLLAGE, COLLAGE)}
    if with_alone and result.guard:
        for name in result.guard.libraries:
            if is_single(name) and name != result.plan:  # what is looked up is built again
                library = result.guard.libraries[name]
                files[f"{name} alone"] = _export(library, folder, COLLAGE, name)
    return {"libraries": files, "ships": result.plan, "report": result.to_json()}


def _export(library: Any, folder: str, side: str, name: str) -> str:
    file = str(Path(folder) / f"{side}_{name}.so")
    library.export_library(file)
    return file
