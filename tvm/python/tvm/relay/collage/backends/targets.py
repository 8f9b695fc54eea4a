# SPDX-License-Identifier: Apache-2.0
"""The target list of a compilation, checked: one host target, then external kinds that can run.

Test: test_errors.py.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm.target import Target, codegen
from tvm_collage.words import nearest

from ..compile import host_target
from ..errors import BackendUnavailableError, HostTargetError, OptionError, UnknownBackendError
from ..messages.foreign import last_line, unknown_target_kind
from ..relay_util.external import is_external
from . import find_backend, list_backends, which_was_meant, why_unavailable

_logger = logging.getLogger(__name__)

# What `relay.build` takes as targets: one, several, or None for the current one.
GivenTargets: TypeAlias = str | Target | Sequence[str | Target] | Mapping[Any, Any] | None

_CPU = 1  # DLPack's number
_CPU_KINDS = ("llvm", "c")  # that TVM compiles for itself

# What stands in quotes, or a quote that is not closed.
_QUOTED = re.compile(r"""["][^"]*["]|'[^']*'|["']""")

# An option with its value, in which quotes hold blanks and a comma before a blank ends it; a name;
# a comma between targets.
_WORD = re.compile(r"""-(?:"[^"]*"|'[^']*'|,(?=[^\s,])|[^\s,"'])+|[^\s,]+|,""")


@dataclasses.dataclass(frozen=True)
class TargetList:
    """The targets of a build."""

    host: Target  # what TVM compiles for
    external: tuple  # the backends, in the user's order

    @property
    def all(self) -> list[Target]:
        """Return host and backends in the form that TVM's make_compilation_config takes."""
        return [self.host, *self.external]

    @property
    def backends(self) -> list[str]:
        """Return the names of the external ones."""
        return [target.kind.name for target in self.external]


def parse_targets(target: GivenTargets, target_host: str | Target | None = None) -> TargetList:
    """Return the TargetList of whatever ``relay.build`` takes as target.

    UnknownBackendError, BackendUnavailableError and HostTargetError say what to change.
    """
    if isinstance(target, (list, tuple)) and not target:
        raise HostTargetError(
            "the target list is empty: give a host target, e.g. [collage.host_target(), ...]"
        )
    try:
        raw = list(
            Target.canon_multi_target_and_host(Target.target_or_current(target), target_host)
        )
    except (ValueError, tvm.TVMError) as error:
        raise _as_unknown_backend(error) from None
    external = [item for item in raw if is_external(item)]
    hosts = [item for item in raw if not is_external(item)]
    _check_hosts(hosts, external)
    _check_cpu(hosts[0])
    for item in external:
        backend = find_backend(item.kind.name)
        reason = why_unavailable(backend) if backend else None
        if reason:
            raise BackendUnavailableError(
                f"backend {item.kind.name!r} is not available: {reason}; "
                "install what it names, or leave it out of the target list"
            )
    return TargetList(hosts[0], _each_once(external))


def host_named(text: str, called: str) -> Target:
    """Return the host target of a command line, this CPU for "". OptionError, naming the flag that
    it is `called`, for what is none."""
    named = text.strip().partition(" ")[0]
    is_kind = named in Target.list_kinds() and find_backend(named) is None
    if is_kind and named not in _CPU_KINDS:  # TVM would look for its device, and warn of it
        raise OptionError(
            f"{called}: {named!r} is no CPU, and Collage places parts on the CPU so far; give e.g. "
            "'llvm -mcpu=znver4', or leave it out for this CPU"
        )
    try:
        return Target(text) if text else host_target()
    except (ValueError, tvm.TVMError) as error:
        kind = unknown_target_kind(error)
        reason = f"TVM knows no target {kind!r}" if kind else last_line(error)
        raise OptionError(
            f"{called}: {reason}; give e.g. 'llvm -mcpu=znver4', or leave it out for this CPU"
        ) from None


def split_targets(text: str, called: str) -> list[str]:
    """Return the targets of a list as command lines have it, "llvm, dnnl -winograd=never": an
    option's own commas part nothing, but for one of a backend's option before the name of a target.
    OptionError, naming the flag that it is `called`, for an open quote."""
    for match in _QUOTED.finditer(text):
        if len(match[0]) == 1:
            rest = text[: match.start()].rpartition(" ")[2] + text[match.start() :]
            raise OptionError(f"{called}: a quote is not closed: {rest}")
    pieces: list[list[str]] = [[]]
    for word in _WORD.findall(text):
        if word == ",":
            pieces.append([])
            continue
        is_of_backend = bool(pieces[-1]) and find_backend(pieces[-1][0]) is not None
        first, *targets = _without_targets(word) if is_of_backend else [word]
        pieces[-1].append(first)
        pieces += [[target] for target in targets]
    return [" ".join(words) for words in pieces if words]


def _without_targets(option: str) -> list[str]:
    """Return a backend's option, then the targets that its text goes on with,
    "-winograd=never,cblas"; in quotes they are of its value."""
    names = "|".join(re.escape(name) for name in ["llvm", *(b.name for b in list_backends())])
    return re.findall(rf"""(?:"[^"]*"|'[^']*'|(?!,(?:{names})(?:,|$)).)+""", option)


def _each_once(external: Sequence[Target]) -> tuple[Target, ...]:
    """Make a backend that was named twice one; with different options it is an error."""
    found: dict[str, Target] = {}
    for item in external:
        first = found.setdefault(item.kind.name, item)
        if str(first) != str(item):
            raise OptionError(
                f"backend {item.kind.name!r} is in the target list with different options "
                f"('{first}' and '{item}'): leave one out, or register it by a second name"
            )
    return tuple(found.values())


def available_targets(accuracy_budget: float = 0.0) -> list[Target]:
    """Return [host_target(), ...] with a target for each registered backend that can run here.

    Those that cannot are left out, which is logged with the reason; so are, unless there is an
    ``accuracy_budget`` (the option's value), those that trade accuracy.
    """
    return [host_target(), *(Target(name) for name in _available_names(accuracy_budget))]


def warn_host_alone(host: Target, accuracy_budget: float) -> None:
    """Log that a target list of the CPU ``host`` alone leaves nothing to choose from."""
    if host.get_target_device_type() != _CPU:
        return
    names = _available_names(accuracy_budget)
    if not names:
        _logger.warning(
            "the target list names no backend, so TVM alone takes everything; no backend can run "
            "here either: `collage backends` says why"
        )
        return
    example = ", ".join(f"tvm.target.Target({name!r})" for name in names)
    _logger.warning(
        "the target list names no backend, so TVM alone takes everything. Available here: %s; for "
        "all of them: target=[collage.host_target(), %s], which collage.available_targets() gives",
        ", ".join(names),
        example,
    )


def _available_names(accuracy_budget: float) -> list[str]:
    """Return the names of the backends of available_targets."""
    names = []
    for backend in list_backends():
        reason = why_unavailable(backend)
        if reason is None and backend.trades_accuracy and not accuracy_budget:
            reason = f"it computes in {backend.trades_accuracy}, and there is no accuracy budget"
        if reason is None:
            names.append(backend.name)
        else:
            _logger.info("backend %s is left out: %s", backend.name, reason)
    return names


def _check_hosts(hosts: Sequence[Target], external: Sequence[Target]) -> None:
    if not hosts:
        names = ", ".join(item.kind.name for item in external)
        raise HostTargetError(
            f"the targets ({names}) are all external backends: put a host target first, "
            "e.g. [collage.host_target(), ...]"
        )
    if external and hosts[0].get_target_device_type() != _CPU:
        raise HostTargetError(
            f"the host target is '{hosts[0].kind.name}': Collage places parts on the CPU so far, "
            "so put collage.host_target() first"
        )
    if len(hosts) > 1:
        names = " and ".join(f"'{item}'" for item in hosts)
        raise HostTargetError(
            f"the target list has {len(hosts)} host targets ({names}): give one, "
            "e.g. [collage.host_target(), ...]; other targets must be external backends"
        )


def _check_cpu(host: Target) -> None:
    """HostTargetError for a CPU that LLVM does not know: TVM says so again and again, and then
    compiles for a generic one."""
    if host.kind.name != "llvm" or not host.mcpu or not tvm.runtime.enabled("llvm"):
        return
    ours = codegen.llvm_get_system_triple()
    if str(host.attrs.get("mtriple", ours)).split("-")[0] != ours.split("-")[0]:
        return  # and LLVM is not asked: of an unknown one the question would end the process
    known = [str(name) for name in codegen.llvm_get_cpu_archlist(Target(f"llvm -mtriple={ours}"))]
    if host.mcpu not in known:
        near = nearest(host.mcpu, known)
        hint = f", did you mean {near!r}?" if near else "."
        raise HostTargetError(
            f"the host target has -mcpu={host.mcpu}, which is no CPU of {ours.split('-')[0]} for "
            f"LLVM{hint} This machine's is -mcpu={codegen.llvm_get_system_cpu()}, and "
            "collage.host_target() names all of it"
        )


def _as_unknown_backend(error: Exception) -> Exception:
    """Return the user's error for TVM's, when a target kind is not known; else TVM's own."""
    kind = unknown_target_kind(error)
    if kind is None:
        return error
    known = sorted(backend.name for backend in list_backends())
    return UnknownBackendError(
        f"unknown backend or target kind {kind!r}{which_was_meant(kind, known)}: registered "
        f"backends are {', '.join(known)}; "
        "register your own with collage.register_backend(...)"
    )
