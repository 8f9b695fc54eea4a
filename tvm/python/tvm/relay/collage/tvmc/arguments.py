# SPDX-License-Identifier: Apache-2.0
"""The argument group `collage` of `tvmc compile`, made from the one table of options.

Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tvm_collage.options import add_flags, shown

from ..backends.targets import available_targets
from ..integration import OPTION
from ..options import PREFIX, option_table
from ..options.flags import given_flags, values_of
from .compilation import as_tvmc_errors, before, enables, options_in
from .targets import split_target

# What the file is for in which tvmc's --config has its defaults; it names this host.
_DEFAULT_HOST = "llvm"
_FLAGS = "collage-"
_DESCRIPTION = (
    "Place every part of the model on the backend that was measured fastest there. --target "
    "takes external backends in any order beside the host, with their attributes, e.g. 'llvm "
    "-mcpu=znver4, dnnl -winograd=never'; without --target: this CPU and every backend that can "
    "run here. --tuning-records names logs of AutoTVM, Ansor or MetaSchedule. See docs/tvmc.md."
)


class _Unset(str):
    """The default of --target, which its value alone does not tell from one that was given."""


def config_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that --collage-<name> set, as a PassContext takes them. TVMCException."""
    with as_tvmc_errors():
        return {PREFIX + name: value for name, value in values_of(args, _FLAGS).items()}


def is_asked_for(args: argparse.Namespace) -> bool:
    """Return whether --collage, or the option in --pass-config, is there.

    TVMCException for options of Collage's without it, as tvmc refuses those of other executors.
    """
    if args.collage or enables(options_in(args.pass_config)):
        return True
    given = given_flags(args, _FLAGS)
    given += ["--collage-save-placement"] if args.collage_save_placement else []
    given += [flag for flag, _, _ in _backend_options(args)]
    if given:
        from tvm.driver.tvmc import TVMCException

        raise TVMCException(f"Passed {given[0]} but did not specify --collage")
    return False


def target_text(args: argparse.Namespace, config: dict[str, Any]) -> str:
    """Return the value of --target with the attributes that --target-<backend>-<name> set, or,
    where none was given, this CPU and every backend that can run here."""
    text = args.target
    if text is None or isinstance(text, _Unset):
        host, *backends = available_targets(config.get(PREFIX + "accuracy_budget", 0.0))
        text = ", ".join([str(host), *(target.kind.name for target in backends)])
    theirs, backends = split_target(text)
    for flag, name, attribute in _backend_options(args):
        chosen = [k for k, each in enumerate(backends) if each.split()[0] == name]
        if not chosen:
            from tvm.driver.tvmc import TVMCException

            raise TVMCException(f"Passed {flag} but did not specify {name} target")
        backends[chosen[0]] += f" {attribute}"
    return ", ".join([*backends, *filter(None, [theirs])])


@before
def with_group(
    stock: Callable, subparsers: Any, main_parser: argparse.ArgumentParser, json_params: Any
) -> Any:
    made = stock(subparsers, main_parser, json_params)
    parser = subparsers.choices["compile"]
    if parser.get_default("target") == _DEFAULT_HOST:
        parser.set_defaults(target=_Unset(_DEFAULT_HOST))
    group = parser.add_argument_group("collage", _DESCRIPTION)
    _add_options(group)
    _add_backend_options_late(parser, group)
    return made


def _add_options(group: argparse._ArgumentGroup) -> None:
    meaning = next(row.meaning for row in option_table() if PREFIX + row.name == OPTION)
    group.add_argument("--collage", action="store_true", help=meaning)
    add_flags(group, _FLAGS)
    group.add_argument(
        "--collage-save-placement",
        metavar="FILE",
        help="file that the placement of what ships is written to, for --collage-placement",
    )


def _add_backend_options_late(
    parser: argparse.ArgumentParser, group: argparse._ArgumentGroup
) -> None:
    """Add --target-<backend>-<name> when `compile` is what is parsed: backends are modules to
    import, for which no other command of tvmc should wait."""
    stock = parser.parse_known_args

    def parse_known_args(args: Any = None, namespace: Any = None) -> Any:
        if parser.parse_known_args is parse_known_args:
            parser.parse_known_args = stock  # type: ignore[method-assign]
            _add_backend_options(group)
        return stock(args, namespace)

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign]


def _add_backend_options(group: argparse._ArgumentGroup) -> None:
    from ..backends import list_backends

    for backend in list_backends():
        for name, default in backend.options.items():
            group.add_argument(
                f"--target-{backend.name}-{name}",
                dest=f"{_BACKEND_OPTION}{backend.name} {name}",
                metavar="VALUE",
                help=f"target {backend.name} {name} (default: {shown(default)})".replace("%", "%%"),
            )


# Of names in the parsed arguments that no flag of tvmc's can have.
_BACKEND_OPTION = "collage target "


def _backend_options(args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return the given --target-<backend>-<name>: flag, backend, attribute as target texts have
    it."""
    found = []
    for dest, value in vars(args).items():
        if dest.startswith(_BACKEND_OPTION) and value is not None:
            backend, name = dest.removeprefix(_BACKEND_OPTION).split()
            found.append((f"--target-{backend}-{name}", backend, f"-{name}={value}"))
    return found
