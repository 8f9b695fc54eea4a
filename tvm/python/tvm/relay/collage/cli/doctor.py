# SPDX-License-Identifier: Apache-2.0
"""`collage doctor`: is this machine fit to measure on?

Docs: docs/tools.md. Test: doctor/test_checks.py.
"""

from __future__ import annotations

import argparse
import json
import textwrap

from ..doctor import examine, read_machine
from ..doctor.checks import Finding
from ..messages.progress import one_step

_WIDTH = 100


def examine_machine(options: argparse.Namespace) -> int:
    with one_step("examining", "this machine", options.progress):
        findings = examine(read_machine(options.target, options.store))
    states = [finding.state for finding in findings.values()]
    if options.json:
        rows = [{"check": name, **each._asdict()} for name, each in findings.items()]
        print(json.dumps(rows, indent=1))
    else:
        for name, finding in findings.items():
            print(_row(name, finding))
        print(", ".join(_counted(states.count(state), state) for state in ("problem", "warning")))
    bad = {"problem", "warning"} if options.strict else {"problem"}
    return 1 if bad & set(states) else 0


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _row(name: str, finding: Finding) -> str:
    """Return the finding under its state and name, the advice below it."""
    head = f"{finding.state:<8} {name:<13} "
    indent = " " * len(head)
    lines = [textwrap.fill(finding.found, _WIDTH, initial_indent=head, subsequent_indent=indent)]
    if finding.advice:
        lines.append(
            textwrap.fill(
                finding.advice,
                _WIDTH,
                initial_indent=f"{indent}-> ",
                subsequent_indent=f"{indent}   ",
            )
        )
    return "\n".join(lines)
