# SPDX-License-Identifier: Apache-2.0
"""The script `collage`. Test: collage/cli/test_cli.py, tvm_collage/test_supervisor.py."""

import json
import os
import sys

from tvm_collage_hook import INTERRUPTED

from . import cli
from .cli.parser import line_of
from .supervisor import INTERRUPTED_LINE, supervised


def main() -> int:
    """Run the command; its exit code. Ctrl-C while TVM is still imported is one line too, as is
    the end by a fault of native code."""
    _open_closed()

    def tell(text: str) -> None:
        """Print an error's line, as the command's own are told."""
        if options.json:
            print(json.dumps({"error": text, "kind": "NativeError"}))
        else:
            print(line_of(text, options), file=sys.stderr)

    try:
        options = cli.parse()
        return supervised(lambda: cli.run(options), tell)
    except KeyboardInterrupt:
        print(INTERRUPTED_LINE, file=sys.stderr)
        return INTERRUPTED


def _open_closed() -> None:
    """Let what is told go nowhere where its stream was closed (2>&-): print() would take standard
    output for standard error, and a file that is opened later would get its number, by which C++
    writes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
