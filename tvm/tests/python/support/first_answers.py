# SPDX-License-Identifier: Apache-2.0
"""First answers for tests of what comes behind them: they take builds and processes."""

import contextlib

from tvm.relay.collage import optimizer
from tvm.relay.collage.plans.first_answer import FirstAnswer


def answer_first(monkeypatch, answer=lambda: FirstAnswer()):
    """Have a build's first answer be what `answer` gives, by default none."""
    monkeypatch.setattr(
        optimizer, "first_answer", lambda request, how: contextlib.nullcontext(answer())
    )
