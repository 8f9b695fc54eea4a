# SPDX-License-Identifier: Apache-2.0
"""The script `collage`: the command line of `tvm.relay.collage`. Test: test_cli_store.py."""

import sys


def main() -> int:
    try:
        from tvm.relay.collage.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "tvm.relay.collage.cli":
            raise
        print("collage: tvm.relay.collage is TVM's own; unset COLLAGE_DISABLE", file=sys.stderr)
        return 1
    return int(run())
