# SPDX-License-Identifier: Apache-2.0
"""`collage tt`: Transfer-Tuning, from logs of Ansor to schedules for another model.

Docs: docs/transfer.md. Test: cli/test_tt.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..parser import Commands
from . import compare, export, logs, many, search

# Each has add_actions(add): add(name, run, help) makes an action's parser.
_MODULES = (export, logs, search, many, compare)


def add_parser(commands: Commands) -> None:
    help = "speed up a model's kernels by schedules that were found for others (docs/transfer.md)"
    parser = commands.add_parser("tt", help=help, description=help)
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, run: Callable[..., int], help: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=help, description=help)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
        return action

    for module in _MODULES:
        module.add_actions(add)
