# SPDX-License-Identifier: Apache-2.0
"""Reports of what Collage decided and why: a record (record.py), what is said of it (facts.py), and
its forms: lines and tables in a terminal, a page, pictures, explanations. Test: report/."""

from .dot import to_dot
from .facts import agreement_line, doubt, explained_mark, head_lines
from .forms import ToldDecision, notebook_html, plot_history, write_form
from .record import CostCounts, OriginalAgreement, PlanSearch, Report, read_report
from .tables import make_console, plan_table, print_decision, print_report, print_titled

__all__ = [
    "CostCounts",
    "OriginalAgreement",
    "PlanSearch",
    "Report",
    "ToldDecision",
    "agreement_line",
    "doubt",
    "explained_mark",
    "head_lines",
    "make_console",
    "notebook_html",
    "plan_table",
    "plot_history",
    "print_decision",
    "print_report",
    "print_titled",
    "read_report",
    "to_dot",
    "write_form",
]
