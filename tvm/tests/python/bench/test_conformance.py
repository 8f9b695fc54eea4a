# SPDX-License-Identifier: Apache-2.0
"""bench/conformance.py: what becomes of ONNX's own cases, in a process of its own each, also where
one dies or hangs; what is counted, and what a page and a comparison say of it."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import onnx
import pytest
from harness import records
from tree import ROOT
from tvm.relay.collage.errors import ModelError

pytest.importorskip("onnxruntime")
import conformance
from node_tests import sides
from node_tests.cases import Case, Tensor, all_cases, difference, why_not_plain
from summaries import cases

CASES = {case.name: case for case in all_cases()}
# Of all kinds: types, shapes that are inputs, control flow, layers, functions, what is no array.
SAMPLE = (
    *("add", "add_uint8", "averagepool_2d_default", "batchnorm_example", "bitshift_left_uint8"),
    *("cast_FLOAT_to_DOUBLE", "clip", "concat_2d_axis_0", "conv_with_strides_padding"),
    *("constantofshape_int_zeros", "convtranspose", "cosh", "gather_0", "gemm_all_attributes"),
    *("if", "layer_normalization_2d_axis0", "logsoftmax_axis_1", "lstm_defaults", "matmul_2d"),
    *("nonzero_example", "reshape_reordered_all_dims", "range_float_type_positive_delta"),
    *("relu", "slice", "top_k", "transpose_default", "where_example"),
    *("sequence_insert_at_back", "string_concat"),
)


def run_the_bench(record, *arguments, limit=None):
    """In a process of its own: this one has threads of TVM's, which its forks would lack. Its exit
    status and its records."""
    command = [sys.executable, "bench/conformance.py", "--record", str(record), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    assert record.exists(), done.stderr
    return done, records.load(record, conformance.KEY)


def outcomes(found, side):
    return {case: each["outcome"] for (case, of), each in found.items() if of == side}


def test_a_sample_is_right_or_refused(tmp_path):
    record = tmp_path / "records.jsonl"
    names = "|".join(f"^test_{name}$" for name in SAMPLE)
    done, found = run_the_bench(record, "--cases", names)
    ours, peer = outcomes(found, "tvm"), outcomes(found, "onnxruntime")
    refused = {"test_sequence_insert_at_back", "test_string_concat"}
    assert len(ours) == len(SAMPLE) and set(ours) - set(peer) == refused
    assert {name for name in refused if found[name, "tvm"]["not_plain"]} == refused
    assert {name for name, outcome in ours.items() if outcome != "right"} == refused, done.stdout
    assert set(peer.values()) == {"right"} and done.returncode == 0
    assert f"tvm                                     {len(peer)}" in done.stdout
    again, _ = run_the_bench(record, "--cases", "^test_add$", "--against", str(record))
    assert "test_add tvm: is in records.jsonl: right" in again.stdout
    assert "newly" not in again.stdout


@pytest.mark.slow("1,450 models imported, built and run, a quarter of an hour")
@pytest.mark.timeout(2400)
def test_no_case_is_wrong_crashes_or_hangs(tmp_path):
    done, found = run_the_bench(tmp_path / "records.jsonl")
    assert done.returncode == 0, done.stdout[-9000:]
    plain = [each for each in found.values() if not each["not_plain"]]
    right = Counter(each["side"] for each in plain if each["outcome"] == "right")
    assert right["tvm"] >= 0.98 * right["onnxruntime"] and right["tvm"] >= 1230


@pytest.mark.slow("a search and a guard for each of some models")
def test_a_sample_through_collage_with_two_backends(tmp_path):
    arguments = ["--cases", "^test_(add|relu|matmul_2d|conv_with)", "--collage", "dnnl,onnxruntime"]
    done, found = run_the_bench(tmp_path / "records.jsonl", *arguments)
    ours = outcomes(found, "dnnl,onnxruntime")
    assert set(ours.values()) == {"right"} and done.returncode == 0, done.stdout


def crash(*_):
    os.kill(os.getpid(), signal.SIGKILL)  # of others pytest writes a stack


def hang(*_):
    time.sleep(60)


@pytest.mark.parametrize(
    "side, fault, limit, outcome, reason",
    [
        ("tvm", crash, 20.0, "crashed", "killed by SIGKILL"),
        ("dnnl,onnxruntime", hang, 0.5, "hung", "took longer than 0.5 s"),
    ],
)
def test_a_case_that_dies_or_hangs_is_a_record(monkeypatch, side, fault, limit, outcome, reason):
    monkeypatch.setattr(sides, "of_ours", fault)
    found = conformance.measure(CASES["test_add"], side, "", limit)
    assert found == {"not_plain": "", "outcome": outcome, "reason": reason, "is_clean": False}


def test_errors_are_outcomes(monkeypatch):
    """Before a model runs it is refused, cleanly or not; when it runs it has crashed."""
    case = CASES["test_add"]

    def raising(error):
        def fail(*_):
            raise error

        return fail

    def outcome(error):
        monkeypatch.setattr(sides, "built", raising(error))
        found = sides.of_ours(case)
        return found["outcome"], found["is_clean"], found["reason"]

    assert outcome(ModelError("node Moa: its axis 3 is no axis of (2, 3)"))[:2] == ("refused", True)
    kinds = (
        ModelError("node Moa: 'num_heads'"),
        ModelError("node Moa: Check failed: (x) is false: rank"),
        ModelError("two\nlines of it"),
        ModelError("node Moa: 'NoneType' object has no attribute 'shape'"),
        ValueError("a line, but TVM's own"),
    )
    assert [outcome(error)[:2] for error in kinds] == [("refused", False)] * len(kinds)
    monkeypatch.setattr(sides, "built", lambda *_: raising(ValueError("rank 3 for 2")))
    found = sides.of_ours(case)
    assert found == {"outcome": "crashed", "reason": "ValueError: rank 3 for 2", "is_clean": False}
    monkeypatch.setattr(sides, "built", lambda *_: lambda inputs: [inputs["x"].array])
    assert sides.of_ours(case)["outcome"] == "wrong"


def test_what_differs_as_onnxruntime_does_is_told_from_what_is_wrong(monkeypatch):
    case = CASES["test_add"]
    (right,) = case.outputs()
    ours = [right.array + 1]
    monkeypatch.setattr(sides, "built", lambda *_: lambda _: ours)
    monkeypatch.setattr(sides, "session_of", lambda _: lambda _: [right.array + 1])
    found = sides.of_ours(case)
    assert found["outcome"] == "like onnxruntime" and found["reason"].startswith("output 0: ")
    assert sides.of_onnxruntime(case)["outcome"] == "wrong"
    ours = [right.array + 2]
    assert sides.of_ours(case)["outcome"] == "wrong"


def test_values_of_chance_are_not_compared():
    case = CASES["test_bernoulli"]
    (right,) = case.outputs()
    assert difference([1 - right.array], [right], case) == ""
    assert "shape" in difference([right.array[None]], [right], case)


def test_cases_are_all_of_onnx_s():
    assert len(CASES) == 1450
    assert sum(not why_not_plain(case.model()) for case in CASES.values()) == 1389
    assert why_not_plain(CASES["test_string_concat"].model()) == "x has strings"
    sequence = CASES["test_sequence_insert_at_back"]
    assert why_not_plain(sequence.model()) == "sequence is of kind sequence"
    assert sequence.inputs() == {}


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda right: [right], ""),
        (lambda right: [right * np.float32(1.0005)], ""),
        (lambda right: [right * np.float32(1.01)], "output 0: "),
        (lambda right: [right.astype("float64")], "output 0: float64 for float"),
        (lambda right: [right[None]], "output 0: shape (1, 3, 4, 5) for (3, 4, 5)"),
        (lambda right: [], "0 outputs for 1"),
    ],
)
def test_outputs_are_compared_as_onnx_does(change, why):
    case = CASES["test_add"]
    found = difference(change(case.outputs()[0].array), case.outputs(), case)
    assert found.startswith(why) and bool(found) == bool(why)


def test_types_that_numpy_lacks_are_their_bits():
    to_four = CASES["test_cast_FLOAT_to_UINT4"]
    (wanted,) = to_four.outputs()
    assert wanted.is_bits and wanted.array.dtype == "uint8" and wanted.array.max() <= 15
    as_float = difference([wanted.array.astype("float32")], [wanted], to_four)
    assert as_float == "output 0: float32 for uint4"
    assert difference([wanted.array.view("int8")], [wanted], to_four) == ""
    bits = Tensor(np.array([0x3F80], "uint16"), onnx.TensorProto.BFLOAT16)
    assert bits.numbers(bits.array) == [1.0]
    from_four = CASES["test_cast_INT4_to_FLOAT"]
    assert from_four.inputs()["input"].array.min() < 0
    for case in (from_four, CASES["test_cast_FLOAT_to_FLOAT8E5M2"]):
        assert sides.of_onnxruntime(case)["outcome"] == "right"


def made(case, outcome, side="tvm", reason="", **facts):
    conditions = {"versions": {"onnx": "1.18.0", "collage": "hash"}, "commit": "abc"}
    conditions["machine"] = {"cpu": "a CPU", "cores": 2}
    record = {"case": case, "side": side, "outcome": outcome, "reason": reason, "is_clean": True}
    return {**record, "not_plain": "", "conditions": conditions, "date": "2026-11-28", **facts}


FOUND = [
    made("test_a", "right"),
    made("test_b", "refused", reason='node Moa "b": rank|3'),
    made("test_c", "refused", reason='node Moa "c": rank|3', is_clean=False),
    made("test_d", "wrong", reason="output 0: 3 for 4"),
    made("test_e", "refused", reason="strings", not_plain="x has strings"),
    made("test_b", "right", "onnxruntime"),
]


def test_the_summary_counts_by_side_and_names_what_is_not_right():
    rows = [line.split("  ") for line in cases.summary_text(FOUND).splitlines()]
    numbers = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert numbers[1] == ["tvm", "4", "1", "0", "1", "2", "0", "0", "1"]
    assert numbers[2][1:] == ["1", "0", "0", "0", "1", "0", "0", "0"]
    assert list(cases.not_right(FOUND)) == [
        "test_d (wrong): output 0: 3 for 4",
        'test_b (refused, onnxruntime right): node Moa "b": rank|3',
        'test_c (refused, not one clean line): node Moa "c": rank|3',
        "test_e (refused): strings",
    ]


def test_changes_are_named():
    before = [made("test_a", "wrong", reason="3 for 4"), made("test_d", "right"), FOUND[1]]
    assert list(cases.changes(before, FOUND)) == [
        "newly right: test_a tvm: wrong 3 for 4",
        "newly not right: test_d tvm: wrong output 0: 3 for 4",
    ]


def test_the_page_says_what_the_records_say():
    text = cases.tables(FOUND)
    assert "| tvm | 4 | 1 | 0 | 1 | 2 | 0 | 0 | 1 |" in text
    assert '| refused | right | b | node Moa "b": rank\\|3 |' in text
    assert "- Versions: onnx 1.18.0. Commits: abc.\n" in text and "hash" not in text


@pytest.mark.parametrize(
    "given, why",
    [
        (["--cases", "("], "'(' is no regular expression: "),
        (["--cases", "moa"], "no case has 'moa' in its name"),
        (["--collage", "moa"], "unknown backend 'moa'"),
        (["--every", "0"], "must be at least 1"),
    ],
)
def test_what_is_refused_is_named(given, why, capsys):
    with pytest.raises(SystemExit):
        conformance.parse(given)
    assert why in capsys.readouterr().err


def test_every_nth_case_of_the_given(tmp_path):
    options = conformance.parse(["--cases", "^test_string_concat", "--every", "2"])
    assert [job.key["case"] for job in conformance.jobs_of("tvm", options)] == [
        case.name for case in all_cases() if case.name.startswith("test_string_concat")
    ][::2]
    assert conformance.jobs_of("onnxruntime", options) == []
    assert isinstance(options.cases[0], Case) and options.side == "tvm"
