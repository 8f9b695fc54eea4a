# SPDX-License-Identifier: Apache-2.0
"""`collage explain`: why each part runs where it does.

Docs: docs/report.md. Test: cli/test_explain.py.
"""

from __future__ import annotations

import argparse
import os

from ..files.text import json_text
from ..messages.progress import one_step
from ..report.explain import explain
from ..report.explain_lines import explain_lines
from .decisions import READS, read_decision
from .parser import Commands, add_progress


def add_parser(commands: Commands) -> None:
    help = "say why each part runs where it does, and why this plan ships"
    parser = commands.add_parser("explain", help=help, description=help)
    parser.add_argument("decision", metavar="FILE", help="a library, a report or a placement")
    parser.add_argument("--node", type=int, metavar="N", help="tell all of one node, by its index")
    parser.add_argument(
        "--op", metavar="NAME", help="tell all of the nodes of an operator, as nn.conv2d"
    )
    parser.add_argument("--backend", metavar="NAME", help="tell of this backend alone")
    parser.add_argument(
        "--all", action="store_true", help="list all parts or nodes, not only the dearest"
    )
    parser.add_argument("--plan", help="explain this plan, not what ships; any that was seen")
    add_progress(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.reads = READS
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with one_step("explaining", os.path.basename(options.decision), options.progress):
        report, plan = read_decision(options.decision)
        told = explain(
            report,
            options.plan or plan,
            node=options.node,
            op=options.op,
            backend=options.backend,
        )
    if options.json:
        print(json_text(told.once()))
    else:
        is_long = options.node is not None or options.op is not None
        print("\n".join(explain_lines(told, is_long, options.all)))
    return 0
