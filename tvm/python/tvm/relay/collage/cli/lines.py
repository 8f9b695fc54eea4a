# SPDX-License-Identifier: Apache-2.0
"""The lines on standard error by which a command tells that it ends. Test: cli/test_cli.py."""

from __future__ import annotations

import argparse

from ..logs import json_line

# Where the parsed arguments of a command have it, if it shows its progress.
_PROGRESS = ("progress", "collage_progress")


def is_json_lines(options: argparse.Namespace) -> bool:
    """Whether all of the command's standard error is JSON."""
    return any(getattr(options, name, None) == "json" for name in _PROGRESS)


def line_of(text: str, options: argparse.Namespace) -> str:
    """What went wrong, as the command tells it."""
    return json_line("error", text) if is_json_lines(options) else f"collage: {text}"
