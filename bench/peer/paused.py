# SPDX-License-Identifier: Apache-2.0
"""A contestant whose process sleeps before each run, as a server's does between requests.

Test: bench/test_pauses.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.relay.collage.exec.resolve import path_of, resolve
from tvm.relay.collage.measure import Contestant


def paused(contestant: Contestant, pause: float) -> Contestant:
    """The same, sleeping for `pause` seconds before each run; the sleep is not in its times."""
    inner = {"factory": contestant.factory, "arguments": dict(contestant.arguments)}
    arguments: Mapping[str, Any] = {**inner, "pause": pause}
    factory = path_of(open_paused)
    return Contestant(contestant.name, factory, arguments, contestant.environment)


def open_paused(factory: str, arguments: dict[str, Any], pause: float) -> _Paused:
    """What runs in the worker."""
    return _Paused(resolve(factory)(**arguments), pause)


class _Paused:
    def __init__(self, model: Any, pause: float) -> None:
        self._model, self._pause = model, pause

    def run(self) -> None:
        self._model.run()

    def outputs(self) -> list[np.ndarray]:
        return self._model.outputs()

    def seconds(self, number: int) -> float:
        total = 0.0
        for _ in range(number):
            time.sleep(self._pause)
            began = time.perf_counter()
            self._model.run()
            total += time.perf_counter() - began
        return total
