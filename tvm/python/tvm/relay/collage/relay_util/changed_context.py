# SPDX-License-Identifier: Apache-2.0
"""The current PassContext with some of it changed. Test: relay_util/test_changed_context.py.

A file of its own, because layers that share nothing else build under a changed context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tvm

_NO_ENTRIES: Mapping[str, Any] = MappingProxyType({})


def changed_context(
    config: Mapping[str, Any] = _NO_ENTRIES,
    *,
    opt_level: int | None = None,
    instruments: Sequence[Any] | None = None,
) -> tvm.transform.PassContext:
    """Return a new context to enter: the current one's, with these entries of its config besides,
    and with this level and these instruments in place of its own (None: kept).

    Instruments that are kept are entered and left once more with it.
    """
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=current.opt_level if opt_level is None else opt_level,
        required_pass=list(current.required_pass),
        disabled_pass=list(current.disabled_pass),
        instruments=list(current.instruments or []) if instruments is None else [*instruments],
        config={**dict(current.config.items()), **config},
    )
