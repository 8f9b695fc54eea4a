# SPDX-License-Identifier: Apache-2.0
"""What Collage decided and why, as JSON values, one line, or tables in a terminal.

The tables show what the JSON holds, nothing else. Test: report/test_report.py.
"""

from .facts import Summary, is_single, result_to_json
from .forms import (
    FORMS,
    PICTURES,
    check_has_ratios,
    check_is_full,
    write_form,
    write_picture,
)
from .full import full_report, with_search_of
from .graph import to_dot
from .head import agreement_line, doubt, explained_mark, head_lines
from .history import plot_history
from .notebook import notebook_html
from .picture import MOST_BOXES
from .plans import compare_plans
from .tables import (
    make_console,
    parts_table,
    plan_table,
    print_decision,
    print_report,
    print_result,
    print_titled,
)

__all__ = [
    "FORMS",
    "MOST_BOXES",
    "PICTURES",
    "Summary",
    "agreement_line",
    "check_has_ratios",
    "check_is_full",
    "compare_plans",
    "doubt",
    "explained_mark",
    "full_report",
    "head_lines",
    "is_single",
    "make_console",
    "notebook_html",
    "parts_table",
    "plot_history",
    "plan_table",
    "print_decision",
    "print_report",
    "print_result",
    "print_titled",
    "result_to_json",
    "to_dot",
    "with_search_of",
    "write_form",
    "write_picture",
]
