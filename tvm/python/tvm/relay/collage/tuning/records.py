# SPDX-License-Identifier: Apache-2.0
"""The tuning records that a build uses: taken from where TVM finds them, sent to workers as text.

What is measured must be what ships, so a candidate carries the records that its kernels can use,
and their hash is part of its key. Test: tuning/test_records.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import tvm

from ..relay_util.changed_context import changed_context
from ..relay_util.external import is_external_function
from ..relay_util.walk import elements_of, operator_calls, tensors_of
from .ansor import Ansor
from .autotvm import AutoTVM
from .metaschedule import MetaSchedule
from .tuner import CannotTravel, Record, Tuner

# By name, in the order in which TVM asks them. The first that has a record decides, but what a
# kernel is may depend on the records of another kind (docs/transfer.md).
TUNERS: dict[str, Tuner] = {tuner.name: tuner for tuner in (MetaSchedule(), Ansor(), AutoTVM())}
# Legalisation pads tensors of these types: sizes in the records are not those in the module.
_PADDED_TYPES = ("int8", "uint8")
# By tuner, what builds made of its records from the first version on, where that has changed; the
# last is what they make today. Costs from before do not count.
_BUILT_AS = {"ansor": ("ansor", "ansor, weights laid out")}


# Those that are in force by TuningRecords.in_force: TVM's contexts do not keep whose they are.
_entered: contextvars.ContextVar[tuple[Record, ...]] = contextvars.ContextVar("entered", default=())


def built_as(kind: str) -> str:
    """Return what builds make of a tuner's records, in words: equal where they make the same."""
    return _BUILT_AS.get(kind, (kind,))[-1]


class TuningRecords:
    """Records of one or more tuners, at most one a tuner and workload; empty for none."""

    def __init__(self, records: Iterable[Record] = (), modes: Iterable[str] = ()) -> None:
        """modes: tuners that builds are to be made for even without a record, as candidates were
        that such a tuner had a hand in."""
        # Of equal ones that which says whose it is.
        named_last = sorted(records, key=lambda record: bool(record.origin))
        found = {_identity(record): record for record in named_last}
        self._records = tuple(sorted(found.values(), key=_identity))
        self.modes = tuple(sorted(set(modes)))

    def __bool__(self) -> bool:
        return bool(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def changes_builds(self) -> bool:
        """Tell whether a build in force of these can differ from one without."""
        return bool(self) or any(TUNERS[kind].config for kind in self.modes)

    def origins(self) -> dict[str, int]:
        """Return how many there are of whom: Record.origin, or the tuner where nobody says."""
        return dict(sorted(Counter(r.origin or r.kind for r in self._records).items()))

    def named(self) -> str:
        """Return the digest, and whose they are; "" without any."""
        counts = ", ".join(f"{origin} {count}" for origin, count in self.origins().items())
        return f"{self.digest()} ({counts})" if self else ""

    def digest(self) -> str:
        """Return 16 hex digits, equal for equal records; "" without any."""
        return self._digest({})

    def earlier_digests(self) -> set[str]:
        """Return the digests of the same records where builds made something else of them."""
        ways = [{kind: way} for kind, ways in _BUILT_AS.items() for way in ways[:-1]]
        return {self._digest(earlier) for earlier in ways} - {self.digest()}

    def _digest(self, earlier: Mapping[str, str]) -> str:
        """earlier: by tuner, what builds made of its records, if not what they make today."""
        if not self:
            return ""
        rows = sorted(_identity(record, earlier) for record in self)
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def of_module(self, mod: tvm.IRModule) -> TuningRecords:
        """Return those that TVM's kernels in `mod` (typed) may use; perhaps more, never fewer."""
        if not self:
            return self
        sizes, is_padded = _tensor_sizes(mod)
        if is_padded:
            return self
        return TuningRecords(r for r in self._records if not r.sizes or r.sizes & sizes)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Have TVM's builds use the records in the block, with the PassContext that it takes."""
        by_kind = self.to_json()
        with contextlib.ExitStack() as stack:
            stack.callback(_entered.reset, _entered.set((*_entered.get(), *self._records)))
            for kind, lines in by_kind.items():
                stack.enter_context(TUNERS[kind].using(lines))
            for kind in sorted({*by_kind, *self.modes}):
                stack.enter_context(mode(kind))
            for tuner in TUNERS.values():
                if tuner.cannot_build():
                    stack.enter_context(tuner.using([]))
            yield

    def to_json(self) -> dict[str, list[str]]:
        """Return lines by tuner."""
        kinds = dict.fromkeys(record.kind for record in self)
        return {kind: [record.text for record in self if record.kind == kind] for kind in kinds}

    @classmethod
    def from_json(cls, fields: Mapping[str, Iterable[str]]) -> TuningRecords:
        """Undo to_json, but for what tells them apart: for builds alone."""
        rows = [(kind, text) for kind, texts in fields.items() for text in texts]
        return cls(Record(kind, text, text, sizes=frozenset()) for kind, text in rows)

    def Summary(self) -> str:
        """Return a text such as "2 ansor, 10 transferred records 3f2a9c0d11aa22bb"."""
        counts = [f"{count} {origin}" for origin, count in self.origins().items()]
        return f"{', '.join(counts)} records {self.digest()}" if counts else "no tuning records"


@contextlib.contextmanager
def mode(kind: str) -> Iterator[None]:
    """Have the PassContext consult records of a tuner in the block, if it did not before."""
    tuner, current = TUNERS[kind], tvm.transform.PassContext.current()
    missing = {key: value for key, value in tuner.config.items() if key not in current.config}
    if not missing:
        yield
        return
    with tuner.quiet(), changed_context(missing):
        yield


def records_in_force(target: tvm.target.Target | str) -> tuple[TuningRecords, list[str]]:
    """Return what a build for `target` would use here and now, and what of it cannot be written
    down.

    AutoTVM's and Ansor's `ApplyHistoryBest` and a MetaSchedule database are found where they were
    entered; the latter two count where the PassContext turns their tuner on.
    """
    records: list[Record] = []
    left_out = []
    for tuner in TUNERS.values():
        if tuner.is_enabled():
            try:
                records += tuner.records_in(tuner.contexts(), tvm.target.Target(target))
            except CannotTravel as error:
                left_out.append(str(error))
    origins = {_identity(record): record.origin for record in _entered.get()}
    return TuningRecords(
        r._replace(origin=origins.get(_identity(r), "")) for r in records
    ), left_out


def _tensor_sizes(mod: tvm.IRModule) -> tuple[set[int | None], bool]:
    """Return the elements of tensors that TVM's operators use, and whether one may be padded."""
    functions = [each for each in mod.functions.values() if isinstance(each, tvm.relay.Function)]
    own = [each for each in functions if not is_external_function(each)]
    calls = [call for function in own for call in operator_calls(function)]
    values = [value for call in calls for value in (*call.args, call)]
    tensors = [tensor for value in values for tensor in tensors_of(value.checked_type)]
    is_padded = any(tensor.dtype in _PADDED_TYPES for tensor in tensors)
    return set(map(elements_of, tensors)), is_padded


def _identity(record: Record, earlier: Mapping[str, str] = {}) -> tuple[str, str]:
    return earlier.get(record.kind, built_as(record.kind)), record.identity
