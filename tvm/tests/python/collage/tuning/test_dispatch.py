# SPDX-License-Identifier: Apache-2.0
"""One road for schedules: whoever found one, TVM's candidates are measured with it and what ships
has it, and what is said of both names who found it."""

import json

import pytest
from tuning_nets import (
    KINDS,
    TARGET,
    conv,
    dense,
    in_mode,
    line_in_blocks,
    some_context,
    some_lines,
)
from tvm import auto_scheduler
from tvm import meta_schedule as ms
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.costs.build_step import build_module
from tvm.relay.collage.costs.candidate import TUNING, candidate_module
from tvm.relay.collage.placement.made_with import tuning_of
from tvm.relay.collage.tuning import TRANSFERRED, load_records, records_in_force
from tvm.relay.collage.tuning.ansor_records import TRANSFERRED_VERSION
from tvm.relay.collage.tuning.records import mode

BUILDER = f"{build_library.__module__}:{build_library.__name__}"


@pytest.fixture(params=[*KINDS, TRANSFERRED])
def log(request, tmp_path):
    """A log with one record, and who found it."""
    path = tmp_path / request.param
    if request.param == "metaschedule":
        path.mkdir()
        database = ms.database.JSONDatabase(work_dir=str(path))
        for record in some_context("metaschedule", dense(), 1).get_all_tuning_records():
            database.commit_workload(record.workload.mod)
            database.commit_tuning_record(record)
        return path, request.param
    lines = some_lines("ansor" if request.param == TRANSFERRED else request.param, dense(), 1)
    if request.param == TRANSFERRED:
        lines = [json.dumps({**json.loads(line), "v": TRANSFERRED_VERSION}) for line in lines]
    path.write_text("\n".join(lines) + "\n")
    return path, request.param


def code(library):
    return library.get_lib().get_source("asm")


def test_what_is_measured_has_the_schedule_that_ships_and_says_whose_it_is(log):
    path, origin = log
    records = load_records([path], TARGET)
    assert set(records.origins()) == {origin}
    with records.in_force():
        in_force, _ = records_in_force(TARGET)
        shipped = build_library(dense(), TARGET)
    assert in_force.origins() == records.origins()  # TVM's contexts do not keep it
    candidate = candidate_module(dense(), "tvm", TARGET, {"opt_level": 3}, tuning=in_force)
    assert f"({origin} {len(records)})" in candidate.build_options[TUNING]
    measured = build_module(candidate.instantiate(), candidate, BUILDER)
    assert code(measured) == code(shipped)
    # Without the record it has another schedule, so the comparison can fail.
    assert code(build_library(dense(), TARGET)) != code(shipped)


def test_weights_that_a_record_lays_out_anew_are_so_where_candidates_are_measured(tmp_path):
    [task], _ = auto_scheduler.extract_tasks(dense(), {}, TARGET)
    path = tmp_path / "log"
    path.write_text(line_in_blocks(task) + "\n")
    with load_records([path], TARGET).in_force():
        in_force, _ = records_in_force(TARGET)
        shipped = build_library(dense(), TARGET)
    candidate = candidate_module(dense(), "tvm", TARGET, {"opt_level": 3}, tuning=in_force)
    measured = build_module(candidate.instantiate(), candidate, BUILDER)
    for library in (shipped, measured):
        shapes = [value.shape for value in library.get_params().values()]
        assert shapes == [(3, 32, 8)]  # 24 columns in blocks of 8
    assert code(measured) == code(shipped)


def test_placements_say_how_many_were_found_for_other_kernels(log):
    path, origin = log
    tuning = tuning_of(load_records([path], TARGET), dense())
    assert tuning.transferred == (tuning.records if origin == TRANSFERRED else 0)
    assert ("of them transferred" in tuning.Summary()) == (origin == TRANSFERRED)


def test_equal_records_are_one_and_that_counts_which_says_whose_it_is(log):
    path, origin = log
    records = load_records([path], TARGET)
    nameless = type(records)(record._replace(origin="") for record in records)
    both = type(records)([*nameless, *records, *nameless])
    assert len(both) == len(records) and both.digest() == nameless.digest() == records.digest()
    assert both.origins() == records.origins()


def test_kernels_without_a_record_are_no_warning(caplog):
    with caplog.at_level("WARNING"), mode("ansor"):
        build_library(dense(), TARGET)
    assert "Cannot find tuned schedules" not in caplog.text
    # Who turns Ansor on himself is told by TVM as always: of another kernel, since it tells once.
    with caplog.at_level("WARNING"), in_mode("ansor"):
        build_library(conv(size=6), TARGET)
    assert "Cannot find tuned schedules" in caplog.text
