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
from .decisions import read_decision


def explain_decision(options: argparse.Namespace) -> int:
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
