# SPDX-License-Identifier: Apache-2.0
"""bench/outputs.py: nets on each backend beside onnxruntime; what is off, or fails, ends with 1."""

import json

import models
import numpy as np
import outputs
import pytest
from bench_nets import small_classifier
from outputs import Row
from tvm.relay.collage.backends import BUILTIN, list_backends

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(
        models.NETS, "small", models.Net("small", "a net", small_classifier, "none")
    )


@pytest.mark.slow("a net built for each backend, and one in 8 bits")
def test_each_backend_that_is_there_is_right(capsys, tmp_path):
    file = tmp_path / "rows.json"
    # Tests before this one may have registered others.
    ours = [b.name for b in list_backends() if b.name in BUILTIN and b.available() is None]
    nets = {"small": ",".join(ours), "small_int8": "dnnl"}
    codes = [
        outputs.main(["--nets", net, "--backends", backends, "--output", str(file)])
        for net, backends in nets.items()
    ]
    rows = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    assert not [r.Summary() for r in rows if r.failure or not (r.error is None or r.is_right)]
    assert codes == [0, 0]
    by_name = {(row.net, row.backend): row for row in rows}
    assert by_name["small", "tvm"].is_right and by_name["small", "dnnl"].is_right
    assert by_name["small", "dnnl"].parts == 1 and by_name["small", "tvm"].parts == 0
    assert by_name["small", "tvm"].limit == 1e-4 and by_name["small_int8", "tvm"].limit == 0.1
    out = capsys.readouterr().out
    assert "small               dnnl                1 parts  error" in out
    assert "| net | tvm |" in out and "WRONG" not in out


@pytest.fixture
def made_up(monkeypatch):
    """Outputs of no process; it is all the same what was built."""
    monkeypatch.setattr(outputs, "_outputs", lambda contestant: [np.ones(1)])


def test_an_error_beyond_the_limit_ends_with_1(capsys, monkeypatch, made_up):
    monkeypatch.setattr(outputs, "output_error", lambda *_: 2e-3)
    arguments = ["--nets", "small", "--backends", "dnnl"]
    assert outputs.main([*arguments, "--rtol", "1e-2"]) == 0
    assert outputs.main([*arguments, "--rtol", "1e-3"]) == 1
    out = capsys.readouterr().out
    assert "(limit 0.001)  WRONG" in out and "| small | **2.0e-03**" in out
    # In a net that enlarges roundings, nobody is known to be right within the types' limit.
    assert outputs.main(arguments) == 0
    assert "(limit 0.006)" in capsys.readouterr().out


def test_a_build_that_fails_is_a_line_and_ends_with_1(capsys, monkeypatch, made_up):
    def fail(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(outputs, "greedy_partition", fail)
    assert outputs.main(["--nets", "small", "--backends", "dnnl"]) == 1
    assert "FAILED: build: no such thing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "row, right, said",
    [
        (Row("n", "b", 2, 1e-5, 1e-4), True, "2 parts  error 1.0e-05 (limit 0.0001)"),
        (Row("n", "b", 2, 1e-3, 1e-4), False, "WRONG"),
        (Row("n", "b", 2, float("inf"), 1e-4), False, "WRONG"),
        (Row("n", "b", 0, None, 1e-4), False, "takes nothing"),
        (Row("n", "b", 1, None, 1e-4, "crashed"), False, "FAILED: crashed"),
    ],
)
def test_a_row_says_what_it_is(row, right, said):
    assert row.is_right == right and said in row.Summary()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nets", "alexnet"], "unknown net alexnet"),
        (["--backends", "nope"], "unknown backend 'nope'"),
        (["--rtol", "-1"], "--rtol must be at least 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit):
        outputs.main(arguments)
    assert message in capsys.readouterr().err
