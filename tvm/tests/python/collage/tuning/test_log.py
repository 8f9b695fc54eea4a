# SPDX-License-Identifier: Apache-2.0
"""Tuning logs: their kind, the best lines, torn and foreign ones, several writers."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from tuning_nets import KINDS, TARGET, dense, in_mode, kernel_source, some_context, write_log
from tvm import relay
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.tuning import TuningLogError, load_records, read_log, records_in_force
from tvm.relay.collage.tuning.log import best_lines


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A log of each kind, as TVM writes it, of two schedules; the second one is the faster."""
    folder, trials = tmp_path_factory.mktemp("logs"), [(0, 2.0), (1, 1.0)]
    return {kind: write_log(folder / kind, kind, dense(), trials) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_gives_the_records_that_tvm_would_find_in_it(kind, logs):
    lines = read_log(logs[kind])
    assert {line.kind for line in lines} == {kind}
    assert {line.target for line in lines} == {str(TARGET)}
    assert sorted({line.seconds for line in lines}) == [1.0, 2.0]
    assert {line.seconds for line in best_lines(lines)} == {1.0}
    records = load_records([logs[kind]], TARGET)
    with in_mode(kind), some_context(kind, dense(), 1, 1.0):
        assert records.digest() == records_in_force(TARGET)[0].digest() != ""


def test_logs_of_several_kinds_go_together(logs):
    records = load_records(list(logs.values()), TARGET)
    assert set(records.to_json()) == set(KINDS)
    with records.in_force():
        assert records_in_force(TARGET)[0].digest() == records.digest()


def test_a_line_that_was_cut_off_costs_itself_alone(logs, tmp_path, caplog):
    log = tmp_path / "cut.log"
    lines = logs["autotvm"].read_text().splitlines()
    log.write_text(f"{lines[0]}\n{lines[-1][:40]}")
    with caplog.at_level(logging.WARNING):
        [line] = read_log(log)
    assert line.seconds == 2.0 and "1 lines are no records" in caplog.text
    append_line(log, lines[-1])
    assert [line.seconds for line in read_log(log)] == [2.0, 1.0]


def test_a_database_that_was_cut_off_costs_its_last_row(logs, tmp_path):
    for file in logs["metaschedule"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rows = tmp_path / "database_tuning_record.json"
    whole = len(read_log(tmp_path))
    rows.write_text(rows.read_text()[:-30])
    assert len(read_log(tmp_path)) == whole - 1


def test_lines_of_several_writers_stay_whole(tmp_path):
    log = tmp_path / "shared.log"
    texts = [json.dumps({"writer": i, "text": "x" * 5000}) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: append_line(log, text), texts))
    assert sorted(log.read_text().splitlines()) == sorted(texts)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.log", None, "No such file"),
        (
            "text.log",
            "hello\nworld\n",
            "none of its 2 lines is a record, and it seems to be a text",
        ),
        ("other.json", '{"a": 1}\n', "none of its 1 lines is a record"),
        ("binary.log", b"\xff\xfe\x00", "it seems to be a binary file"),
        ("net.so", b"\x7fELF\x02\xff", "it seems to be a library"),
        ("folder", {}, "database_workload.json"),
    ],
)
def test_what_is_no_log_is_refused_by_name(tmp_path, name, content, reason):
    path = tmp_path / name
    if isinstance(content, dict):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TuningLogError, match=f"{name}.*{reason}.*it should be"):
        load_records([path], TARGET)


def test_an_empty_log_has_no_records(tmp_path):
    (tmp_path / "empty.log").write_text("# nothing yet\n")
    assert not load_records([tmp_path / "empty.log"], TARGET)


def with_logs(*logs):
    """A context whose builds use the logs by the option tuning_log."""
    config = {"enable_collage": True, "tuning_log": list(map(str, logs))}
    config = {f"relay.collage.{name}": value for name, value in config.items()}
    return tvm.transform.PassContext(opt_level=3, config=config)


@pytest.mark.parametrize("kind", KINDS)
def test_the_option_tuning_log_builds_the_kernels_of_a_build_in_the_users_context(kind, logs):
    mod = dense()
    with in_mode(kind), some_context(kind, mod, 1, 1.0):
        tuned = kernel_source(mod)
    with with_logs(logs[kind]):
        library = relay.build(mod, target=TARGET)
    assert library.get_lib().get_source("asm") == tuned != kernel_source(mod)


def test_executors_and_the_vm_use_the_logs_of_the_option(logs):
    mod, paths = dense(), [logs["autotvm"]]
    with with_logs(*paths):
        executor = relay.create_executor("graph", mod, tvm.cpu(), TARGET)
        relay.vm.compile(mod, target=TARGET)
    assert executor.collage.records.digest() == load_records(paths, TARGET).digest() != ""
    # It builds when it is first evaluated, outside of the PassContext.
    x = np.random.default_rng(0).standard_normal((4, 32)).astype("float32")
    expected = relay.create_executor("graph", mod, tvm.cpu(), TARGET).evaluate()(x).numpy()
    np.testing.assert_allclose(executor.evaluate()(x).numpy(), expected, rtol=1e-4, atol=1e-4)
