# SPDX-License-Identifier: Apache-2.0
"""The class of a backend, from which everything else (target kind, rules, report) follows.

Test: backends/test_registry.py.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from tvm import relay
from tvm.ir import IRModule
from tvm.runtime import Module

from ..costs.cost import Cost
from ..costs.kernel import KernelRuns, KernelStep
from ..options import CollageOptions
from ..rules.pattern_entry import entry_rules, pattern_entry
from ..rules.rule import Composite, rule_of_entries

OP_LEVEL = "op-level"
GRAPH_LEVEL = "graph-level"
# The attribute of a composite that says with which options, as JSON, it was found.
TARGET_OPTIONS = "target_options"


@dataclasses.dataclass(frozen=True)
class OwnKernels:
    """Kernels that are ours beside a backend's library: they run inside its parts, where they are
    measured to be faster, and count as a backend of their own where backends are listed."""

    name: str  # what reports call them, as "winograd"
    version: str  # which keys what was measured of them
    takes: tuple[str, ...]  # what they run, a short phrase each
    without: str  # the target that leaves all to the library, as "dnnl -winograd=never"


# Nodes of the function at hand that no backend which trades accuracy is to compute for less of it.
KEPT: ContextVar[frozenset[int]] = ContextVar("collage_kept", default=frozenset())
# The attribute of a part's function: which of its operator calls these are, as a list in JSON.
KEPT_CALLS = "collage_kept_calls"


def kept_calls(function: relay.Function) -> frozenset[int]:
    """Return which operator calls of a part, by their places, its backend is not to compute for
    less accuracy."""
    text = function.attrs.get(KEPT_CALLS) if function.attrs else None
    return frozenset(json.loads(str(text))) if text else frozenset()


class Backend:
    """A library or compiler that runs parts of a model. Subclass, then ``register_backend``.

    Attributes:
        name: what targets, reports and the cost store call it; letters, digits, ``_``.
        library: what its library is called where that is another word than its name, which is then
            found by it in errors; "" where it is not.
        kind: ``OP_LEVEL`` (a call or composite at a time) or ``GRAPH_LEVEL`` (a region at a time).
        device_type: DLPack's number of the device that it runs on; 1 is the CPU.
        can_be_wrong: its results are compared with TVM's before they are believed.
        trades_accuracy: the type that it computes in where the model's is finer, one of
            costs.rounding.RELATIVE ("bfloat16"); "" for none. Such a backend takes part where
            the option accuracy_budget allows an error, and its results may be off as that type is.
        traded_ops: the operators that it computes so, by their Relay names; None for all.
        variant_of: another backend of the same library, whose parts cost as much beside profiles.
        keeps_calls: do its parts compute the calls that ``kept_calls(function)`` names in the
            model's own type? Where not, one that trades accuracy gets no part with such a call.
        own_threads: do its parts run on threads of the library's own, not on TVM's? Then it is part
            of their cost to wake these, and TVM's behind them.
        local_predicates: do its predicates look only at the matched calls: their ops, attributes
            and types, and constants of up to 16 elements that they read? Then one answer does for
            all equal matches of a model.
        op_predicates: Relay op name -> function of a call that tells whether the backend takes it
            bare, outside of any pattern. What it raises means no; a text is a reason for no.
        annotate_predicates: the same for TVM's own AnnotateTarget, where it differs: with TVM's
            pattern tables calls are bare that a pattern of ours takes.
        options: its options and their defaults (bool, int or str), set by a target:
            ``Target("<name> -fast=1")``. In every method ``self.options`` has what holds. They
            reach what its patterns find; bare calls of op_predicates know of none.
        restrictions: what it does not take, a short phrase each, for `collage backends`.
        colour: that of its parts in every picture, as "#0072b2"; "" for one that is free.
        set_options: those of its options that the target at hand sets to other than the default.
        added_patterns, added_rules: what add_patterns and add_pattern_rule gave it; rules
            by the composite that each finds.
    """

    name: str = ""
    library: str = ""
    kind: str = OP_LEVEL
    device_type: int = 1
    can_be_wrong: bool = False
    trades_accuracy: str = ""
    traded_ops: frozenset[str] | None = None
    variant_of: str = ""
    keeps_calls: bool = False
    own_threads: bool = False
    local_predicates: bool = False
    op_predicates: dict[str, Callable[[relay.Call], bool | str]] = {}
    annotate_predicates: dict[str, Callable[[relay.Call], bool | str]] = {}
    options: dict[str, Any] = {}
    restrictions: tuple[str, ...] = ()
    colour: str = ""
    set_options: dict[str, Any] = {}
    added_patterns: tuple[tuple, ...] = ()
    added_rules: dict[str, Any] = {}

    def trades(self, op: str) -> str:
        """Return the type that it computes an operator in for less accuracy; "" for none."""
        is_traded = self.traded_ops is None or op in self.traded_ops
        return self.trades_accuracy if is_traded else ""

    def version(self) -> str:
        """Return the library's version, which keys stored costs; "" when there is none."""
        return ""

    def own_kernels(self) -> Sequence[OwnKernels]:
        """Return the kernels of ours that its parts may run; asked only where it is available."""
        return ()

    def available(self) -> str | None:
        """Return None when it can run on this machine, else the reason why not, in one sentence."""
        return None

    def patterns(self) -> list[tuple]:
        """Return (composite name, pattern[, predicate[, attrs]]) entries.

        The predicate gets the matched expression and answers with a bool, or a text that says why
        not; what it raises is a refusal. ``attrs`` gets it too and gives a dict of further
        attributes of the composite function (ints, floats, strs or lists of such). Largest
        first, as for TVM's pattern tables. A composite's name begins with ``<name>.``.
        """
        return []

    def with_options(self, values: Mapping[str, Any]) -> Backend:
        """Return the backend, itself or a copy, with these of its options set."""
        if not values:
            return self
        bound = copy.copy(self)
        bound.options = {**self.options, **values}
        changed = (key for key, value in values.items() if value != self.options.get(key))
        bound.set_options = {key: values[key] for key in changed}
        return bound

    def all_patterns(self) -> list[tuple]:
        """Return its own patterns, then those that were added to it."""
        return [*self.patterns(), *self.added_patterns]

    def partition_rule(self, options: CollageOptions) -> Any:
        """Return the rule that finds the backend's candidates, a rule of ``collage.rules``.

        By default made of ``patterns()``, ``op_predicates`` and ``default_rule()``; an override may
        take that as a part of its own. ``options``: the current CollageOptions.
        """
        rows = [pattern_entry(self.name, entry) for entry in self.all_patterns()]
        rows = [row._replace(attrs=self._with_options(row.attrs)) for row in rows]
        attrs = self._with_options(None)
        entries = entry_rules(self.name, rows)
        entries += [Composite(label, rule, attrs) for label, rule in self.added_rules.items()]
        # A graph-level backend merges by regions; joining a few at a time is not its way.
        return rule_of_entries(
            self.name,
            entries,
            options.candidates,
            regions=self.default_rule() == GRAPH_LEVEL,
            left_out=KEPT.get() if self.trades_accuracy and not self.keeps_calls else (),
        )

    def _with_options(self, attrs: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a getter of a composite's attributes: those of `attrs`, and options that were
        set."""
        if not self.set_options:
            return attrs
        text = json.dumps(self.set_options, sort_keys=True)
        return lambda expr: {**(attrs(expr) if attrs else {}), TARGET_OPTIONS: text}

    def compile(self, function: relay.Function) -> Module:
        """Return the runtime module that defines the function's ``global_symbol``."""
        raise TypeError(f"backend {self.name!r} compiles nothing: define compile(function)")

    def cost(self, candidate: IRModule) -> float | Cost | None:
        """Return the seconds of one run of the module's main, which holds a part of this backend.

        None (the default) has it measured. Seconds are labelled ``estimated``; a ``measure.Cost``
        may also be a failure, which keeps the candidate out of plans. What it raises is one, too.
        Candidates with a cost of their own are neither run nor verified, nor kept in the store; the
        guard measures whole plans all the same.
        """
        return None

    def kernel_steps(self, function: relay.Function) -> Sequence[KernelStep]:
        """Return the steps of a part of which it has several kernels; none by default.

        They are timed, and the fastest is written into the functions that ``compile`` gets:
        ``costs.kernel.kernels_in(function)`` reads it there.
        """
        return ()

    def kernel_runs(self, text: str, kernel: str, seed: int) -> KernelRuns:
        """Return what runs the step of that text by the kernel, on data of its own."""
        raise TypeError(f"backend {self.name!r} runs no step by itself: define kernel_runs")

    def profiled_steps(self, text: str) -> list[tuple[str, float]]:
        """Return the steps that a part runs, in their order, of what the function ``profile`` of
        its module returned: a name and the seconds of one run. A step is one of the part's K-th
        operator call if its name has the word ``call_K``. A module may lack the function.
        """
        return [(name, seconds) for name, seconds in json.loads(text)]

    def constants(self, function: relay.Function, symbol: str) -> dict | None:
        """Return the constants that the module asks for by name, or None for TVM's own naming.

        The names begin with the backend's name; the module lists them in ``get_const_vars``.
        """
        return None

    def default_rule(self) -> str:
        """Return which partition rule makes its candidates: its kind's, unless overridden."""
        return self.kind

    def summary(self) -> str:
        """Return one line for lists and reports."""
        reason = why_unavailable(self)
        state = f"version {self.version()}" if reason is None else f"not available: {reason}"
        return f"{self.name} ({self.kind}): {state}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.kind})>"


def why_unavailable(backend: Backend) -> str | None:
    """Return why the backend cannot run on this machine; None when it can.

    What available() raises is a reason too, and an answer that is none; the others go on.
    """
    try:
        reason = backend.available()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own look-up
        return f"looking it up raised {type(error).__name__}: {error}"
    if reason is not None and not isinstance(reason, str):
        return f"available() returns None, or a text that says why not; got {reason!r}"
    return reason or None


def describe_backend(backend: Backend) -> dict[str, Any]:
    """Return the backend as JSON values.

    version is "" when it has none or cannot be asked; reason, why it is not available, is "" when
    it is; patterns are the names of its composites, those of added rules too, bare_operators what
    it takes outside of them; options are those of its target, with their defaults; trades_accuracy
    is the type that it computes in for less accuracy, "" for none; own_kernels are ours inside its
    parts, none where it is not available.
    """
    reason = why_unavailable(backend)
    return {
        "name": backend.name,
        "kind": backend.kind,
        "version": _version(backend) if reason is None else "",
        "is_available": reason is None,
        "reason": reason or "",
        "patterns": [*(entry[0] for entry in backend.all_patterns()), *backend.added_rules],
        "options": dict(backend.options),
        "bare_operators": sorted(backend.op_predicates),
        "restrictions": list(backend.restrictions),
        "trades_accuracy": backend.trades_accuracy,
        "traded_ops": sorted(backend.traded_ops or ()),
        "own_kernels": [
            dataclasses.asdict(each) for each in (backend.own_kernels() if reason is None else ())
        ],
        "defined_in": type(backend).__module__,
    }


def _version(backend: Backend) -> str:
    try:
        return backend.version()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own code; it is listed all the same
        return f"? ({type(error).__name__}: {error})"
