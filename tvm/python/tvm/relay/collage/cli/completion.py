# SPDX-License-Identifier: Apache-2.0
"""`collage completion`: a script by which a shell completes commands and flags.

Docs: docs/tools.md. Test: cli/test_completion.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from .parser import Commands


def add_parser(commands: Commands, make_parser: Callable[[], argparse.ArgumentParser]) -> None:
    help = "print a script by which a shell completes commands and flags"
    parser = commands.add_parser(
        "completion",
        help=help,
        description=f"{help}: source <(collage completion bash), or in a file that it reads",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=lambda options: _run(options, make_parser()), gives_data=True)


def _run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    import shtab  # which no other command waits for

    script = shtab.complete(parser, shell=options.shell)
    print(json.dumps({"script": script}) if options.json else script)
    return 0
