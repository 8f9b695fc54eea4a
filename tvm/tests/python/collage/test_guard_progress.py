# SPDX-License-Identifier: Apache-2.0
"""Progress of the guard: lines of JSON, a bar, or silence."""

import io
import json

import pytest
from tvm.relay.collage.graph_search import guard_progress


def shown(kind):
    stream = io.StringIO()
    with guard_progress(kind, stream) as on_step:
        on_step("building plan tvm", 0, 4)
        on_step("measuring", 4, 4)
    return stream.getvalue()


def test_json_lines():
    lines = [json.loads(line) for line in shown("json").splitlines()]
    assert lines[0] == {"guard": "building plan tvm", "done": 0, "total": 4}
    assert lines[1]["done"] == 4


def test_bar():
    assert "guard: measuring" in shown("rich") and "4/4" in shown("rich")


@pytest.mark.parametrize("kind", ["quiet", "auto"])
def test_silence(kind):
    assert shown(kind) == ""  # auto: a stream that is no terminal
