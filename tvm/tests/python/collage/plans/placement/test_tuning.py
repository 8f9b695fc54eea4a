# SPDX-License-Identifier: Apache-2.0
"""Placements note the tuning records that they were made with; a replay must have the same."""

import pytest
from placement_nets import edited, run_pass
from tuning_nets import TARGET, conv, dense, some_context, some_lines
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, PlacementError
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.tuning import TuningRecords, load_records
from tvm.relay.collage.tuning.records import built_as


def log_of(path, *nets, choice=1):
    """A log of AutoTVM with a schedule for each task of each net (dense has two); its path."""
    lines = [line for net in nets for line in some_lines("autotvm", net, choice)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def log(tmp_path):
    return log_of(tmp_path / "dense.log", dense())


def optimized(path, *logs):
    """Saves the placement of dense, built with these logs; its note of them."""
    result = collage.optimize(dense(), None, TARGET, CollageOptions(tuning_log=list(logs)))
    result.save_placement(path)
    return result.placement.made_with.tuning


def replay(path, *logs, **options):
    options = CollageOptions(tuning_log=list(logs), **options)
    return collage.optimize(dense(), None, TARGET, options, placement=path)


def refused(path, *logs, **options):
    with pytest.raises(PlacementError) as caught:
        replay(path, *logs, **options)
    assert caught.value.kind == "tuning" and "\n" not in str(caught.value)
    return str(caught.value)


def test_records_are_noted_and_serve_again(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    assert (noted.records, noted.kinds, len(noted.digest)) == (2, ("autotvm",), 16)
    placement = collage.load_placement(path)
    assert placement.made_with.tuning == noted
    assert placement.Summary().endswith(f", 2 tuning records (autotvm {noted.digest})")
    again = replay(path, log)
    assert again.records.digest() == noted.digest and again.placement == placement


def test_without_the_records_it_is_refused_with_what_to_do(log, tmp_path, caplog):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    assert refused(path) == (
        "the placement was made for something else: no tuning records are in force, not its 2 "
        f"tuning records (autotvm {noted.digest}): name their logs by the option "
        "relay.collage.tuning_log=[...], or build in the context that holds them; make it again, "
        "or allow it by the option relay.collage.placement_allow=['tuning']"
    )
    assert replay(path, placement_allow=["tuning"]).plan == "tvm"
    assert "a placement is used although no tuning records are in force" in caplog.text


def test_other_records_are_refused(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    text = refused(path, log_of(tmp_path / "other.log", dense(), choice=0))
    assert f"not its 2 tuning records (autotvm {noted.digest})" in text


def test_records_of_which_builds_make_other_kernels_since_are_refused_with_the_cause(tmp_path):
    log, path = tmp_path / "ansor.log", tmp_path / "net.json"
    log.write_text("\n".join(some_lines("ansor", dense())))
    noted = optimized(path, str(log))
    assert replay(path, str(log)).placement.made_with.tuning == noted
    # As a version wrote it whose builds left weights as they were.
    earlier = sorted(load_records([log], TARGET).earlier_digests())[0]
    edited(path, lambda value: value["made_with"]["tuning"].update(digest=earlier))
    assert refused(path, str(log)) == (
        f"the placement was made for something else: its 1 tuning records (ansor {earlier}) are in "
        f"force, but builds make other kernels of them now ({built_as('ansor')}) than those "
        "that it was measured with; make it again, or allow it by the option "
        "relay.collage.placement_allow=['tuning']"
    )
    assert replay(path, str(log), placement_allow=["tuning"]).plan == "tvm"
    assert "name their logs" in refused(path), "those of another log, or none, are another matter"


def test_records_that_came_later_are_refused_where_it_was_made_without(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path)
    assert (noted.records, noted.kinds, noted.digest) == (0, (), "")
    assert replay(path).plan == "tvm"
    text = refused(path, log)
    assert "and it was made without: build without the option relay.collage.tuning_log" in text


def test_records_of_other_kernels_do_not_count(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    more = log_of(tmp_path / "more.log", dense(), conv())
    assert optimized(tmp_path / "more.json", more) == noted
    assert replay(path, more).plan == "tvm"


def test_records_of_the_users_own_context_are_in_force(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    with some_context("autotvm", dense(), 1):
        assert optimized(tmp_path / "own.json") == noted
        assert replay(path).plan == "tvm"


def test_the_pass_alone_checks_them_too(log, tmp_path):
    path = tmp_path / "net.json"
    optimized(path, log)
    prepared = prepare(dense(), None, TARGET)
    run_pass(prepared, path, [TARGET], tuning_log=[log])
    with pytest.raises(PlacementError, match=r"no tuning records are in force.*tuning_log"):
        run_pass(prepared, path, [TARGET])


def test_a_file_of_a_version_that_did_not_note_them_loads_and_is_replayed(log, tmp_path):
    path = tmp_path / "net.json"
    optimized(path, log)
    edited(path, lambda value: value["made_with"].pop("tuning"))
    assert collage.load_placement(path).made_with.tuning is None
    for logs in ((), (log,)):
        assert replay(path, *logs).plan == "tvm"
    collage.load_placement(path).save(tmp_path / "again.json")
    assert collage.load_placement(tmp_path / "again.json") == collage.load_placement(path)


def test_a_file_of_a_version_that_counted_the_transferred_ones_alone_is_replayed(log, tmp_path):
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    assert noted.origins == {"autotvm": 2}

    def as_then(value):
        tuning = value["made_with"]["tuning"]
        del tuning["origins"]
        tuning["transferred"] = 1

    edited(path, as_then)
    assert collage.load_placement(path).made_with.tuning.origins == {}
    assert replay(path, log).plan == "tvm"


def test_the_records_of_what_ships_make_a_log(log, tmp_path):
    """What a search dropped of its log is not in it, so it is that which a replay needs."""
    path = tmp_path / "net.json"
    noted = optimized(path, log)
    replay(path, log).save_tuning_log(tmp_path / "ships.log")
    assert load_records([tmp_path / "ships.log"], TARGET).digest() == noted.digest
    assert replay(path, str(tmp_path / "ships.log")).plan == "tvm"


def test_an_untuned_plan_is_one_without_records(log):
    targets = parse_targets(TARGET)
    plans = Plans(prepare(dense(), None, targets.host), targets)
    plans.add_untuned()
    records = load_records([log], TARGET)
    notes = {
        name: plans.maker(name, used)().made_with.tuning.records
        for name, used in (("tvm", records), ("tvm-untuned", TuningRecords()))
    }
    assert notes == {"tvm": 2, "tvm-untuned": 0}
