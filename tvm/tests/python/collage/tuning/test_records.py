# SPDX-License-Identifier: Apache-2.0
"""The tuning records in force: found, written down, in keys, and in force again in a worker."""

import contextlib
import json
import logging

import pytest
import tvm
from tuning_nets import KINDS, TARGET, conv, dense, in_mode, kernel_source, some_context, some_lines
from tvm import autotvm
from tvm import meta_schedule as ms
from tvm.relay.collage.backends.registry import why_not_here
from tvm.relay.collage.estimators.row import build_options, tuning_records
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.measure import candidate_module
from tvm.relay.collage.measure.builder import build_candidate
from tvm.relay.collage.process_wide import logs
from tvm.relay.collage.tuning import TuningRecords, records_in_force

# What the builder below has built, in the order of the builds.
built = []


def build_and_note(mod, target, **options):
    from tvm.relay.collage.compile import build_library

    library = build_library(mod, target, **options)
    built.append(library.get_lib().get_source("asm"))
    return library


def build(candidate, file):
    build_candidate(
        candidate, str(file), f"{__name__}:build_and_note", 0, why_unavailable=path_of(why_not_here)
    )


def found(kind, mod, **more):
    with in_mode(kind), some_context(kind, mod, **more):
        records, left_out = records_in_force(TARGET)
    assert left_out == []
    return records


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_builds_the_kernels_that_a_build_in_the_users_context_does(kind, tmp_path):
    mod = conv()
    untuned = kernel_source(mod)
    with in_mode(kind), some_context(kind, mod):
        tuned = kernel_source(mod)
        records, _ = records_in_force(TARGET)
        candidate = candidate_module(
            mod, "tvm", TARGET, build_options(), "conv", tuning_records(TARGET)
        )
    assert tuned != untuned
    assert candidate.records == records.to_json() and list(candidate.records) == [kind]
    # As in a worker: JSON is all that it gets, and none of the contexts.
    candidate = json.loads(json.dumps(candidate.to_json()))
    build(candidate, tmp_path / "candidate.so")
    assert built.pop() == tuned


@pytest.mark.parametrize("kind", KINDS)
def test_records_in_force_again_are_the_same_records(kind):
    records = found(kind, conv())
    assert records.digest() == found(kind, conv()).digest() != ""
    assert records.digest() != found(kind, conv(), choice=1).digest()
    for again in (records, TuningRecords.from_json(records.to_json())):
        with again.in_force():
            same, left_out = records_in_force(TARGET)
        assert left_out == [] and same.digest() == records.digest()
    nothing, left_out = records_in_force(TARGET)
    assert not nothing and nothing.digest() == "" and left_out == []


@pytest.mark.parametrize("kind", ["ansor", "metaschedule"])
def test_records_count_only_where_the_pass_context_turns_their_kind_on(kind):
    with some_context(kind, dense()):
        assert not records_in_force(TARGET)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_takes_the_records_that_it_can_use_and_its_key_their_hash(kind):
    records = TuningRecords([*found(kind, conv()), *found(kind, conv(channels=3, size=20))])
    plain = candidate_module(conv(), "tvm", TARGET)
    keys = {plain.key(), candidate_module(dense(), "tvm", TARGET, tuning=records).key()}
    tuned = candidate_module(conv(), "tvm", TARGET, tuning=records)
    assert len(records) > len(records.of_module(conv())) > 0
    assert tuned.records == records.of_module(conv()).to_json()
    assert tuned.hash == plain.hash and tuned.key() not in keys
    assert not candidate_module(dense(), "tvm", TARGET, tuning=records).records
    # Another workload's better record is no reason to measure again, an own one is.
    others = TuningRecords([*found(kind, conv()), *found(kind, conv(3, 20), choice=1)])
    assert candidate_module(conv(), "tvm", TARGET, tuning=others).key() == tuned.key()
    better = found(kind, conv(), choice=1)
    assert candidate_module(conv(), "tvm", TARGET, tuning=better).key() != tuned.key()


def test_of_padded_types_all_records_are_taken():
    x = tvm.relay.var("x", shape=(7,), dtype="int8")
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], x + x))
    records = found("autotvm", conv())
    assert len(records.of_module(tvm.relay.transform.InferType()(mod))) == len(records)


def test_the_inner_context_and_the_faster_record_win():
    mod = conv()
    with some_context("autotvm", mod), some_context("autotvm", mod, choice=1):
        inner, _ = records_in_force(TARGET)
    assert inner.digest() == found("autotvm", mod, choice=1).digest()
    lines = some_lines("autotvm", mod, seconds=2.0) + some_lines("autotvm", mod, choice=1)
    with autotvm.apply_history_best([autotvm.record.decode(line) for line in lines]):
        best, _ = records_in_force(TARGET)
    assert best.digest() == inner.digest()


def test_a_record_of_another_cpu_target_counts_as_it_does_for_tvm():
    with some_context("autotvm", conv()):
        assert len(records_in_force("llvm")[0]) == 1
        assert not records_in_force("cuda")[0]


@pytest.mark.parametrize("name", ["ApplyConfig", "ScheduleFnDatabase", "ApplyHistoryBest"])
def test_what_hides_its_records_is_named_once(name, caplog, monkeypatch):
    monkeypatch.setattr(logs, "warned", set())
    context = {
        "ApplyConfig": lambda: autotvm.task.ApplyConfig(None),
        "ScheduleFnDatabase": lambda: ms.database.ScheduleFnDatabase(lambda schedule: False),
        "ApplyHistoryBest": lambda: tvm.auto_scheduler.ApplyHistoryBest(
            [], include_compatible=True
        ),
    }[name]()
    with caplog.at_level(logging.WARNING), contextlib.ExitStack() as stack:
        stack.enter_context(in_mode("metaschedule" if "Database" in name else "ansor"))
        stack.enter_context(context)
        assert not tuning_records(TARGET)
        tuning_records(TARGET)
    [record] = caplog.records
    assert name in record.getMessage() and "measured without them" in record.getMessage()


def test_a_tuner_that_left_no_record_changes_builds_only_where_its_kind_has_passes_of_its_own():
    kinds = {kind for kind in KINDS if TuningRecords([], [kind]).changes_builds()}
    assert kinds == {"ansor", "metaschedule"}
    assert found("autotvm", dense()).changes_builds() and not TuningRecords().changes_builds()


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_record_left_the_build_is_still_made_for_the_tuners_kind(kind):
    """As candidates were that it had a hand in: what ships is what was measured."""
    mod, records = conv(), TuningRecords(modes=[kind])
    assert not records
    with in_mode(kind), TuningRecords().in_force():
        wanted = kernel_source(mod)
    with records.in_force():
        assert kernel_source(mod) == wanted
    with TuningRecords().in_force():
        assert not tvm.transform.PassContext.current().config


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_without_a_record_builds_in_the_tuners_mode(kind, tmp_path):
    mod = conv()
    with in_mode(kind):
        candidate = candidate_module(mod, "tvm", TARGET, build_options(), "conv")
    build(candidate.to_json(), tmp_path / "c.so")
    assert built.pop()
