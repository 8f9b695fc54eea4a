# SPDX-License-Identifier: Apache-2.0
"""A user's predicates as TVM's passes can bear them: an answer of yes or no, never an exception.

Test: test_greedy.py, test_backends.py.
"""

import functools
import logging
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)


def never_raises(name: str, predicate: Callable) -> Callable[..., bool]:
    """Return the predicate with its answer as a bool; what it raises means no.

    A text is the reason of a refusal, hence no, unless it is empty. Reasons and what was raised go
    to this module's logger, with ``name`` (a composite's or an op's).
    """

    @functools.wraps(predicate)
    def guarded(*args) -> bool:
        try:
            answer = predicate(*args)
            # A reason may be TVM's String too, which is a str.
            if not isinstance(answer, str):
                return bool(answer)
            if answer:
                _LOGGER.debug("%s refused: %s", name, answer)
            return not answer
        except Exception as error:  # noqa: BLE001 - whatever a user's code may raise
            _LOGGER.info("%s refused: its predicate raised %r", name, error)
            return False

    return guarded
