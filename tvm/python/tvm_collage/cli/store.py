# SPDX-License-Identifier: Apache-2.0
"""The arguments of `collage store` and `collage cache`. Docs: docs/store.md, docs/tools.md.
Test: collage/cli/test_store.py, collage/cli/test_cache.py.
"""

from __future__ import annotations

import argparse

from ..words import CostKey, CostStatus
from .parser import Commands, Parser, add_command, add_progress


def add_store(commands: Commands) -> None:
    help = "look into the store of measured times, or move them between stores"
    actions = _actions(commands, "store", help)

    def add(name: str, run: str, help: str) -> Parser:
        action = add_command(actions, name, f"store.{run}", help=help)
        action.add_argument("--store", default="", help="its file, by default the user's own")
        add_progress(action)
        return action

    _add_filters(add("list", "list_costs", "print costs"))
    help = "print the decisions of earlier compiles, which later ones of the same model use"
    add("decisions", "list_decisions", help)
    help = "tell which costs serve here and now, and why others do not"
    action = add("explain", "explain_costs", help)
    _add_filters(action)
    action.add_argument(
        "--set",
        metavar="PART=VALUE",
        type=_part,
        action="append",
        default=[],
        help=f"ask for another value of a part of the key ({', '.join(CostKey._fields)})",
    )
    action = add("export", "export_costs", "write costs as lines of JSON")
    _add_filters(action)
    action.add_argument("--output", default="-", help="a file; - is standard output")
    action.add_argument("--salvage", action="store_true", help="what a damaged file still holds")
    action.set_defaults(gives_data=True)
    action = add("import", "import_costs", "add exported costs; of equal keys the newer one stays")
    action.add_argument("input", help="a file of `collage store export`; - is standard input")
    help = "remove costs that all of the options apply to, and decisions likewise; print them"
    action = add("prune", "prune_costs", help)
    _add_filters(action)
    help = "measured more than so many days ago"
    action.add_argument("--older-than", metavar="DAYS", type=_days, help=help)
    help = "measured with another TVM or an older collage, or here with another backend version"
    action.add_argument("--other-versions", action="store_true", help=help)
    action.add_argument("--dry-run", action="store_true", help="print, and remove nothing")
    add("check", "check_store", "read everything, tell whether it is sound")
    help = "the schedules for TVM's kernels that come with the package"
    add("shipped", "show_shipped", help)


def add_cache(commands: Commands) -> None:
    actions = _actions(commands, "cache", "show how much is kept on disk, or remove it")
    for name, help in (
        ("size", "how much there is, and where"),
        ("clear", "remove all of it: later searches measure anew"),
    ):
        action = add_command(actions, name, f"cache.{name}_all", help=help)
        action.add_argument("--store", default="", help="the store's file, else the user's own")
        add_progress(action)
    action.add_argument("--yes", action="store_true", help="do it: without, nothing is removed")


def _actions(commands: Commands, name: str, help: str) -> Commands:
    parser = commands.add_parser(name, help=help, description=help)
    return parser.add_subparsers(metavar="ACTION", required=True)


def _add_filters(action: Parser) -> None:
    action.add_argument("candidate", nargs="?", default="", help="a hash, or how it begins")
    action.add_argument("--backend", default="")
    action.add_argument("--status", default="", choices=["", *CostStatus], metavar="STATUS")


def _part(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in CostKey._fields:
        raise argparse.ArgumentTypeError(f"{text!r} is no PART=VALUE")
    return name, value


def _days(text: str) -> float:
    try:
        days = float(text)
        if not 0 <= days <= 36500:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days from 0 to 36500") from None
    return days
