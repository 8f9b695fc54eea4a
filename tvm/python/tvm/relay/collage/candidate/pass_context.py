# SPDX-License-Identifier: Apache-2.0
"""The part of a PassContext that changes a build, as JSON for workers.
Test: candidate/test_pass_context.py.

Instruments stay behind: they watch a build. So do Collage's own options, but for what a build asks.
"""

from __future__ import annotations

import json
from typing import Any

import tvm

_OURS = "relay.collage."
# Of them, what changes kernels, with the value that it has unless set.
_OF_BUILDS = {"relay.collage.vector_math": True}
# Marks an object of TVM's, as UnrollLoopConfig, in its own JSON.
_NODE = "tvm_node"


def context_to_json(context: tvm.transform.PassContext) -> tuple[dict[str, Any], list[str]]:
    """Return the keywords for `context_from_json`, empty for defaults, and the names of entries
    left out.

    Left out are entries that hold code, as `tir.add_lower_pass`.
    """
    config, left_out = {}, []
    for name, value in sorted(context.config.items()):
        name = str(name)
        if name.startswith(_OURS) and name not in _OF_BUILDS:
            continue
        try:
            plain = _plain(value)
        except TypeError:
            left_out.append(name)
            continue
        if name not in _OF_BUILDS or plain != _OF_BUILDS[name]:
            config[name] = plain
    fields = {
        "config": config,
        "required_pass": [str(name) for name in context.required_pass],
        "disabled_pass": [str(name) for name in context.disabled_pass],
    }
    return {name: value for name, value in fields.items() if value}, left_out


def context_from_json(fields: dict[str, Any]) -> tvm.transform.PassContext:
    """Return the current PassContext with `fields` in place of its own."""
    config = {name: _restored(value) for name, value in fields.get("config", {}).items()}
    return tvm.transform.PassContext(
        opt_level=tvm.transform.PassContext.current().opt_level,
        **{**fields, "config": config},
    )


def _plain(value: Any) -> Any:
    """Return JSON for a config entry; TypeError when it has none."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (str, tvm.runtime.String)):
        return str(value)
    if isinstance(value, tvm.tir.IntImm):
        return bool(value.value) if value.dtype == "bool" else int(value.value)
    if isinstance(value, tvm.tir.FloatImm):
        return float(value.value)
    if isinstance(value, tvm.ir.container.Array):
        return [_plain(item) for item in value]
    boxed = getattr(value, "value", None)
    if isinstance(boxed, (bool, int, float)):
        return boxed
    if type(value) is tvm.runtime.Object:  # one that Python has no class for
        text = tvm.ir.save_json(value)
        graph = json.loads(text)
        if graph["nodes"][graph["root"]]["type_key"].endswith("Config"):
            return {_NODE: text}
    raise TypeError(f"no JSON for a {type(value).__name__}")


def _restored(value: Any) -> Any:
    return tvm.ir.load_json(value[_NODE]) if isinstance(value, dict) else value
