# SPDX-License-Identifier: Apache-2.0
"""The report as a file of JSON, as the option `report` asks. Test: test_report_file.py."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from .errors import OptionError
from .whole_file import write_whole

_logger = logging.getLogger(__name__)


def check_report_path(path: str) -> None:
    """check_file_path of the option `report`."""
    check_file_path(path, "option relay.collage.report")


def check_file_path(path: str, called: str) -> None:
    """OptionError when no file can be written there: better before measuring than after.

    An empty path stands for no file; `called` is what names it.
    """
    if not path:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        reason = "it is a folder"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder!r}"
    elif not os.access(folder, os.W_OK):
        reason = f"files cannot be made in {folder!r}"
    else:
        return
    raise OptionError(
        f"{called}: {path!r} cannot be written: {reason}; name a file in a "
        "folder that exists and can be written to"
    )


def write_report(result: Any, path: str) -> None:
    """Write Result.to_json(), unless the path is empty.

    What fails is logged: the result is worth more than its report.
    """
    if not path:
        return
    try:
        write_whole(path, json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")
    except (OSError, ValueError) as error:
        _logger.error("report %r was not written: %s", path, error)
