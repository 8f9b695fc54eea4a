# SPDX-License-Identifier: Apache-2.0
"""Importing a model for `tvmc compile --collage`: ONNX is quick, what fails is one line.

Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from ..messages.foreign import last_line
from ..tvm_fixes.apply import replace
from .compilation import current

_logger = logging.getLogger("TVMC")


def wrap(_module: Any) -> None:
    """Put ours before tvm.driver.tvmc.frontends."""
    replace("tvmc import", _with_errors)


def _with_errors(stock: Callable) -> Callable:
    @functools.wraps(stock)
    def load_model(path: str, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return stock(path, *args, **kwargs)
        from tvm.driver.tvmc import TVMCException

        from ..importer import quick_import

        try:
            with quick_import():
                return stock(path, *args, **kwargs)
        except TVMCException:
            raise
        except Exception as error:
            _logger.info("import of %s", path, exc_info=True)
            kind = type(error).__name__
            raise TVMCException(
                f"'{path}' cannot be imported: {kind}: {last_line(error)}; -vv shows where"
            ) from error

    return load_model
