# SPDX-License-Identifier: Apache-2.0
"""A user's predicates as TVM's passes can bear them: an answer of yes or no, never an error.

An interrupt or a want of memory is no error of the predicate's and ends the pass (interrupts.py).

Test: test_greedy.py, test_backends.py.
"""

import functools
import logging
from collections.abc import Callable

from ..interrupts import carried

_LOGGER = logging.getLogger(__name__)


def raised_is_reason(function: Callable, what: str = "predicate") -> Callable:
    """Return a user's function with what it raises as the text of a refusal.

    The pass's C++ learns of a Python exception only that there was one.
    """

    @carried
    @functools.wraps(function)
    def guarded(*args):
        try:
            return function(*args)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code may raise
            return f"unsupported: its {what} raised {error!r}"

    return guarded


def never_raises(name: str, predicate: Callable) -> Callable[..., bool]:
    """Return the predicate with its answer as a bool; what it raises means no.

    A text is the reason of a refusal, hence no, unless it is empty. Reasons and what was raised go
    to this module's logger, with ``name`` (a composite's or an op's). Its attribute ``with_reason``
    answers as the user's own does, what it raises being a reason too: for our rules.
    """
    predicate = getattr(predicate, "asked", predicate)

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
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code may raise
            _LOGGER.info("%s refused: its predicate raised %r", name, error)
            return False

    guarded.asked = predicate
    guarded.with_reason = raised_is_reason(predicate)
    return guarded
