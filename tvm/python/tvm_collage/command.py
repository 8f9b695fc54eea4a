# SPDX-License-Identifier: Apache-2.0
"""The script `collage`: the command line of `tvm.relay.collage`. Test: cli/test_cli.py."""

import sys

from tvm_collage_hook import INTERRUPTED

from .interrupt import LINE, ended_by_interrupt


def main() -> int:
    """Run the command; its exit code. Ctrl-C while TVM is still imported is one line too."""
    try:
        return _run()
    except KeyboardInterrupt:
        print(LINE, file=sys.stderr)
        return INTERRUPTED


def _run() -> int:
    try:
        with ended_by_interrupt():
            from tvm.relay.collage.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "tvm.relay.collage.cli":
            raise
        print("collage: tvm.relay.collage is TVM's own; unset COLLAGE_DISABLE", file=sys.stderr)
        return 1
    return int(run())
