# SPDX-License-Identifier: Apache-2.0
"""`collage doctor`: is this machine fit to measure on?

Docs: docs/tools.md. Test: doctor/test_checks.py.
"""

from __future__ import annotations

import argparse
import textwrap

from ..doctor import examine, read_machine
from ..doctor.checks import Finding
from ..messages.progress import one_step
from . import tell

_WIDTH = 100
_TOLD = ("problem", "warning")


def examine_machine(options: argparse.Namespace) -> int:
    with one_step("examining", "this machine", options.progress):
        findings = examine(read_machine(options.target, options.store))
    states = [finding.state for finding in findings.values()]
    rows = [{"check": name, **each._asdict()} for name, each in findings.items()]
    counts = (f"{(n := states.count(state))} {state}{'s' * (n != 1)}" for state in _TOLD)
    tell(options, rows, [*map(_row, findings, findings.values()), ", ".join(counts)])
    bad = _TOLD if options.strict else _TOLD[:1]
    return int(any(state in bad for state in states))


def _row(name: str, finding: Finding) -> str:
    """Return the finding under its state and name, the advice below it."""
    head = f"{finding.state:<8} {name:<13} "
    indent = " " * len(head)
    texts = {head: finding.found, f"{indent}-> ": finding.advice}
    return "\n".join(
        textwrap.fill(text, _WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin))
        for begin, text in texts.items()
        if text
    )
