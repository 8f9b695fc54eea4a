# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.models --list`: what the nets hold and do, counted, beside what is published.

Test: bench/test_models.py.
"""

from __future__ import annotations

import argparse
import sys

from . import count, find


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print a table (also the default)")
    parser.add_argument("--nets", default="all", help="names with commas between (default: all)")
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.batch < 1:
        parser.error("--batch must be at least 1")
    try:
        nets = find(options.nets)
    except ValueError as error:
        parser.error(str(error))
    print(f"{'net':14}{'parameters':>12}{'published':>12}{'GMACs':>9}{'published':>10}{'nodes':>7}")
    failed = False
    for net in nets:
        try:
            found = count(net.build(options.batch))
        except FileNotFoundError as error:
            print(f"{net.name:14}{error}")
            failed = True
            continue
        published = f"{net.parameters:,.0f}" if net.parameters else "-"
        macs = net.macs and net.macs * options.batch
        print(
            f"{net.name:14}{found.parameters:12,}{published:>12}"
            f"{_giga(found.macs):>9}{_giga(macs):>10}{found.nodes:7}"
        )
    return 1 if failed else 0


def _giga(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:.3f}"


if __name__ == "__main__":
    sys.exit(main())
