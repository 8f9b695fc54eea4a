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
from types import ModuleType
from typing import Any

import tvm
from tvm.relay import build_module
from tvm.relay.backend import vm
from tvm_collage_hook import hand_at_import

from .options import unknown_option
from .process_wide.interrupts import carried, interrupts_kept
from .process_wide.lazy import late_function

OPTION = "relay.collage.enable_collage"

# Module of TVM and its function -> where the original is kept, for ``build.stock``, and ours.
_WRAPPED = {
    (build_module, "build"): ("_collage_stock_build", "relay_builds:build"),
    (build_module, "create_executor"): (
        "_collage_stock_create_executor",
        "relay_builds:create_executor",
    ),
    (vm, "compile"): ("_collage_stock_compile", "relay_builds:compile_vm"),
}
_KEPT_INIT = "_collage_stock_init"  # where PassContext keeps its own
# What C++ asks for by name, behind "tvm.relay.collage.", and where it is.
_CALLBACKS = {
    "ask": "rules.predicates:ask",
    "estimate_seconds": "collage:estimate_seconds",
    "kept_constants": "measure.candidate.flows:kept_constants",
    "make_byoc_partition_rule": "backends.rule:make_byoc_partition_rule",
    "pass_options": "options:pass_options",
    "read_placement": "plans.placement.replay:read_placement",
    "reading_ops": "measure.candidate.reads:reading_ops",
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
    _tell_of_unknown_options()
    for (module, name), (kept_as, ours) in _WRAPPED.items():
        _wrap(module, name, kept_as, late_function(__package__, ours))
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


def _tell_of_unknown_options() -> None:
    """Make PassContext name the option of ours that an unknown key is nearly; TVM lists all."""
    context = tvm.transform.PassContext
    if hasattr(context, _KEPT_INIT):
        return
    stock = context.__init__

    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            stock(self, *args, **kwargs)
        except AttributeError:
            config = inspect.signature(stock).bind(self, *args, **kwargs).arguments.get("config")
            if reason := unknown_option(config):
                raise AttributeError(reason) from None
            raise

    setattr(context, _KEPT_INIT, stock)
    context.__init__ = init


def _wrap(module: ModuleType, name: str, kept_as: str, ours: Callable[..., Any]) -> None:
    if hasattr(module, kept_as):
        return
    stock = getattr(module, name)

    @functools.wraps(stock)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_enabled():
            return stock(*args, **kwargs)
        with interrupts_kept():
            return ours(stock, *args, **kwargs)

    setattr(module, kept_as, stock)
    setattr(module, name, wrapper)
