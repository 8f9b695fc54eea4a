# SPDX-License-Identifier: Apache-2.0
"""One road for schedules: whoever found one, TVM's candidates are measured with it and what ships
has it, and what is said of both names who found it."""

import functools
import json

import pytest
from tuning_nets import (
    KINDS,
    TARGET,
    conv,
    dense,
    in_mode,
    line_in_blocks,
    some_lines,
    write_log,
)
from tvm import auto_scheduler
from tvm.relay.collage.candidate.candidate import TUNING, candidate_module
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.measure.builder import build_module
from tvm.relay.collage.plans.placement.made_with import tuning_of
from tvm.relay.collage.tuning import TRANSFERRED, TuningRecords, load_records, records_in_force
from tvm.relay.collage.tuning.ansor import TRANSFERRED_VERSION
from tvm.relay.collage.tuning.records import mode
from tvm.relay.collage.tuning.transfer.shipped import NAME

BUILDER = f"{build_library.__module__}:{build_library.__name__}"


@pytest.fixture(params=[*KINDS, TRANSFERRED])
def log(request, tmp_path):
    """A log with one record, and who found it."""
    path, origin = tmp_path / request.param, request.param
    if origin == TRANSFERRED:
        write_log(path, "ansor", dense())
        path.write_text(transferred(path.read_text()) + "\n")
    else:
        write_log(path, origin, dense())
    return path, origin


def transferred(line):
    """A line of Ansor's as a transfer writes it."""
    return json.dumps({**json.loads(line), "v": TRANSFERRED_VERSION})


def code(library):
    return library.get_lib().get_source("asm")


# Of the other kinds in test_records.py.
@pytest.mark.parametrize("log", ["ansor", TRANSFERRED], indirect=True)
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


def test_placements_say_how_many_came_from_where(log):
    path, origin = log
    records = load_records([path], TARGET)
    tuning = tuning_of(records, dense())
    assert tuning.origins == {origin: tuning.records}
    assert ("of them" in tuning.Summary()) == (origin == TRANSFERRED)
    shipped = TuningRecords(record._replace(origin=NAME) for record in records)
    assert tuning_of(shipped, dense()).Summary().endswith(f", {len(records)} of them shipped")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Gives the code of a net with the records of some kinds together."""
    folder = tmp_path_factory.mktemp("logs")

    @functools.cache
    def log(net, kind):
        return write_log(folder / f"{net.__name__} {kind}", kind, net())

    @functools.cache
    def built(net, *kinds):
        with load_records([log(net, kind) for kind in kinds], TARGET).in_force():
            return code(build_library(net(), TARGET))

    return built


@pytest.mark.parametrize(
    "net, kinds, served",
    [
        (dense, ("metaschedule", "autotvm"), "metaschedule"),
        (dense, ("ansor", "autotvm"), "ansor"),
        (conv, ("metaschedule", "ansor"), "metaschedule"),
        # In Ansor's mode the dense layer is no kernel that MetaSchedule knows.
        (dense, KINDS, "ansor"),
        # AutoTVM's record has the convolution in other blocks than the others know.
        (conv, KINDS, "autotvm"),
    ],
)
def test_metaschedule_comes_first_then_ansor_unless_the_mix_makes_another_kernel(
    net, kinds, served, built
):
    alone = {kind: built(net, kind) for kind in kinds}
    assert len(set(alone.values())) == len(kinds)
    assert built(net, *kinds) == alone[served]


def test_of_several_of_ansors_for_a_kernel_the_fastest_counts_whoever_found_it(tmp_path):
    path = tmp_path / "log"
    for seconds, origin in ((1e-5, TRANSFERRED), (3e-5, "ansor")):
        [exact] = some_lines("ansor", dense(), 0, 2e-5)
        [line] = some_lines("ansor", dense(), 1, seconds)
        path.write_text(f"{exact}\n{transferred(line)}\n")
        assert load_records([path], TARGET).origins() == {origin: 1}


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
