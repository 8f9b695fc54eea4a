# SPDX-License-Identifier: Apache-2.0
"""A benchmark as the program that a user starts, but with a net "small" which is quickly built:
`bench_program.py MODULE ARGUMENTS...`. For bench/test_killed.py."""

import importlib
import signal
import sys

import bench_nets
import models


def main(module, *arguments):
    # A shell's background jobs ignore Ctrl-C, and would pass this on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    small = models.Net("small", "a small net", bench_nets.small_classifier, "a test")
    models.NETS["small"] = small
    return importlib.import_module(module).main(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
