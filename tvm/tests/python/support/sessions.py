# SPDX-License-Identifier: Apache-2.0
"""One measuring session for many builds of a test file: starting workers takes seconds."""

import contextlib
from collections.abc import Iterator

import pytest
from tvm.relay.collage import optimizer
from tvm.relay.collage.estimators.session import Session, open_session


@contextlib.contextmanager
def shared_session(options, external_targets=()) -> Iterator[Session]:
    """A session that every search of `optimize` in the block has in place of its own, since
    `relay.build` has no argument for one."""
    with open_session(options, external_targets) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimizer, "open_session", lambda *_: contextlib.nullcontext(session))
        yield session
