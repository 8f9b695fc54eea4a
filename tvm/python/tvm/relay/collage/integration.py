# SPDX-License-Identifier: Apache-2.0
"""Puts Collage where TVM calls it: around its build functions, and behind the pass's callbacks.

It runs in every process that imports TVM, so all that it installs is named here and imported at
its first call. The wrappers stand in TVM's modules before anybody has imported the originals, and
hand over to them unchanged, argument for argument, when the option is off.
Test: test_integration.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tvm
from tvm._ffi import get_global_func
from tvm_collage_hook import hand_at_import

from .options import unknown_option
from .process_wide.interrupts import carried, interrupts_kept
from .process_wide.lazy import late_function
from .tvm_fixes.apply import replace

OPTION = "relay.collage.enable_collage"

# Functions of TVM that build, and ours.
_WRAPPED = {
    "build": "relay_builds:build",
    "create_executor": "relay_builds:create_executor",
    "compile": "relay_builds:compile_vm",
}
# What C++ asks for by name, behind "tvm.relay.collage.", and where it is.
_CALLBACKS = {
    "ask": "rules.predicates:ask",
    "estimate_seconds": "collage:estimate_seconds",
    "kept_constants": "candidate.flows:kept_constants",
    "make_byoc_partition_rule": "backends.rule:make_byoc_partition_rule",
    "pass_options": "options:pass_options",
    "read_placement": "plans.placement.replay:read_placement",
    "reading_ops": "candidate.reads:reading_ops",
    "rules_of_targets": "backends.rule:rules_of_targets",
    "seconds_waited": "machine.cpu_lock:seconds_waited",
}
# Functions of TVM's prototype, behind "relay.collage.", and what answers in their place.
_PROTOTYPES = {
    "MakeLabelledDFPatternPartitionRule": "rules.pattern_entry:prototypes_entry",
    "MakeLabelledDFPatternPartitionRuleWithPredicate": "rules.pattern_entry:prototypes_entry",
    "MakePatternBYOCPartitionRule": "backends.rule:freely_joined",
}
# Modules of TVM's command line whose functions ours stand before, and what puts them there.
_TVMC = ("target", "pass_config", "frontends", "compiler")
_TVMC_WRAP = "tvmc:wrap"
# What the client of an RPC server calls there (rpc/session.py), behind "collage.device.".
_OF_DEVICES = ("open", "submit", "poll")


def is_enabled() -> bool:
    """Tell whether the innermost PassContext asks for Collage."""
    value = tvm.transform.PassContext.current().config.get(OPTION, False)
    return bool(getattr(value, "value", value))


def install() -> None:
    """Put the wrappers in place, once, and register the callbacks."""
    replace("unknown options", _telling_of_unknown_options)
    replace(
        "builds",
        {
            name: functools.partial(when_enabled, late_function(__package__, ours))
            for name, ours in _WRAPPED.items()
        },
    )
    replace("prototype", lambda _: get_global_func("relay._transform.CollagePartition"))
    for name, ours in _CALLBACKS.items():
        _register(f"tvm.relay.collage.{name}", late_function(__package__, ours))
    for name, ours in _PROTOTYPES.items():
        _register(f"relay.collage.{name}", late_function(__package__, ours))
    for name in _OF_DEVICES:
        _register(
            f"collage.device.{name}", late_function(__package__, f"rpc.service:SERVICE.{name}")
        )
    for name in _TVMC:
        hand_at_import(f"tvm.driver.tvmc.{name}", late_function(__package__, _TVMC_WRAP))


def _register(name: str, function: Callable[..., Any]) -> None:
    tvm.register_func(name, carried(function), override=True)


def _telling_of_unknown_options(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return PassContext's own that tells of a key that is nearly an option of ours."""

    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            stock(self, *args, **kwargs)
        except AttributeError:
            config = inspect.signature(stock).bind(self, *args, **kwargs).arguments.get("config")
            if reason := unknown_option(config):
                raise AttributeError(reason) from None
            raise

    return init


def when_enabled(ours: Callable[..., Any], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return TVM's function `stock`, which hands over to ours where the option asks for it."""

    @functools.wraps(stock)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_enabled():
            return stock(*args, **kwargs)
        with interrupts_kept():
            return ours(stock, *args, **kwargs)

    return wrapper
