# SPDX-License-Identifier: Apache-2.0
"""One measuring session for many builds of a test file: starting workers takes seconds."""

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest
from tvm.relay.collage import optimizer
from tvm.relay.collage.estimators.session import Session, open_session


@contextlib.contextmanager
def shared_session(options, external_targets=()) -> Iterator[Session]:
    """A session that every search of `optimize` in the block has in place of its own, since
    `relay.build` has no argument for one."""
    means = open_session(options.session, external_targets)
    with means as session, pytest.MonkeyPatch.context() as patch:

        def open_shared(options, *_, **__):
            return contextlib.nullcontext(dataclasses.replace(session, options=options))

        patch.setattr(optimizer, "open_session", open_shared)
        yield session
