# SPDX-License-Identifier: Apache-2.0
"""Progress in steps, as the guard and tuning have it: as text; silence under a second."""

import io

from tvm.relay.collage.messages.progress import steps


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def shown(kind, seconds):
    clock, stream = Clock(), io.StringIO()
    with steps("guard", kind, stream, clock) as on_step:
        on_step("building plan tvm", 0, 4)
        clock.now = seconds
        on_step("measuring", 4, 4)
    return stream.getvalue()


def test_steps_are_told():
    assert shown("lines", 11.0) == "collage: guard: measuring, 4/4, 11 s\n"


def test_silence():
    for kind in ("auto", "lines", "rich", "json"):
        assert shown(kind, 0.5) == "", kind
    assert shown("quiet", 20.0) == ""
