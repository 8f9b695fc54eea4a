# SPDX-License-Identifier: Apache-2.0
"""update_tuning_log: logs for every build of the process."""

import pytest
from tuning_nets import TARGET, dense, some_lines
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, OptionError, UnknownBackendError, update_tuning_log
from tvm.relay.collage.tuning import TuningLogError, load_records
from tvm.relay.collage.tuning.from_options import given_records


@pytest.fixture
def logs(tmp_path):
    """Two logs of AutoTVM, with another schedule each."""
    paths = [tmp_path / "first.log", tmp_path / "second.log"]
    for choice, path in enumerate(paths):
        path.write_text("\n".join(some_lines("autotvm", dense(), choice, 1.0 + choice)) + "\n")
    yield paths
    update_tuning_log("tvm", [])


def digest(**options):
    return given_records(CollageOptions(**options).tuning, TARGET).digest()


def test_it_holds_until_it_is_updated_or_taken_back(logs):
    first, second = (load_records([path], TARGET).digest() for path in logs)
    assert first != second and digest() == ""
    update_tuning_log("tvm", logs[0])
    assert digest() == first
    update_tuning_log("tvm", [str(logs[1])])
    assert digest() == second
    update_tuning_log("tvm", logs)
    assert digest() == first  # the faster record of the two
    update_tuning_log("tvm", [])
    assert digest() == ""


def test_the_option_comes_before_it(logs):
    update_tuning_log("tvm", logs[0])
    assert digest(tuning_log=[str(logs[1])]) == load_records([logs[1]], TARGET).digest()


def test_a_relative_path_is_that_of_the_call(logs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    update_tuning_log("tvm", "first.log")
    monkeypatch.chdir("/")
    assert digest() == load_records([logs[0]], TARGET).digest()


def test_builds_use_it(logs):
    update_tuning_log("tvm", logs[0])
    result = collage.optimize(dense(), targets=[TARGET])
    assert result.records.digest() == digest()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("tvm", "/no/such.log"), TuningLogError, "/no/such.log.*No such file"),
        (("tvm", 7), TypeError, "takes a path or a list of paths, got 7"),
        (("tvm", [7]), TypeError, r"takes a path or a list of paths, got \[7\]"),
        (("nobody", []), UnknownBackendError, "unknown backend 'nobody': 'tvm' is the one"),
        (("dnnl", []), OptionError, "backend 'dnnl' has no tuning log, 'tvm' has: .*Target"),
    ],
)
def test_what_is_wrong_changes_nothing(logs, arguments, error, message):
    update_tuning_log("tvm", logs[0])
    before = digest()
    with pytest.raises(error, match=message):
        update_tuning_log(*arguments)
    assert digest() == before
