# SPDX-License-Identifier: Apache-2.0
"""The cost model that remembers: what one process has tried, the next predicts from."""

import functools
import logging

import numpy as np
import pytest
from transfer_nets import conv, dense, task

pytest.importorskip("xgboost", reason="the extra tune is not installed")

from tvm import auto_scheduler
from tvm.relay.collage.tuning import ansor, ansor_model
from tvm.relay.collage.tuning.ansor_model import KeptModel, model_path
from tvm.relay.collage.tuning.transfer.log import read_ansor
from tvm.relay.collage.tuning.tuner import SearchOptions
from tvm.target import Target


def work(make):
    """TVM's own task of a net."""
    return task(make).work


@functools.cache
def sampled(of):
    """Random schedules of a task."""
    policy = auto_scheduler.SketchPolicy(of, auto_scheduler.RandomModel(), seed=1, verbose=0)
    return list(policy.sample_initial_population())


def trials(of, count, faster=1):
    """Random schedules; those of fewer loops are said to be faster."""
    states = sampled(of)[:count]
    assert len(states) == count
    inputs = [auto_scheduler.MeasureInput(of, state) for state in states]
    seconds = [1e-6 / faster * len(str(state)) for state in states]
    error = auto_scheduler.measure.MeasureErrorNo.NO_ERROR
    return inputs, [auto_scheduler.MeasureResult([cost], error, "", 0.1, 1.0) for cost in seconds]


def test_what_was_learnt_is_there_in_another_process_for_another_net(tmp_path):
    path = model_path(str(tmp_path / "log.jsonl"))
    inputs, results = trials(work(conv), 20)
    first = KeptModel(path)
    assert first.bst is None and first.trials == 0
    first.learn(inputs, results)
    again = KeptModel(path)
    assert again.trials == 20
    states = [entry.state for entry in inputs]
    speed = [1 / result.costs[0].value for result in results]
    for model in (first, again):
        assert np.corrcoef(model.predict(work(conv), states), speed)[0, 1] > 0.8
    # Of a net that it never saw it has an opinion, which is no chance: the same each time. (TVM's
    # features of a schedule are not quite.)
    others = [entry.state for entry in trials(work(dense), 4)[0]]
    opinions = [again.predict(work(dense), others) for _ in range(2)]
    np.testing.assert_allclose(*opinions, atol=0.2)
    again.learn(*trials(work(dense), 4))
    assert KeptModel(path).trials == 24


def test_the_best_trial_of_a_kernel_is_that_on_its_own_target(tmp_path):
    slow = task(conv).work
    [found] = ansor.Ansor().tasks(conv(), Target("llvm -mcpu=nehalem -num-cores=2"))
    fast = found.work
    assert fast.workload_key == slow.workload_key
    model = KeptModel(tmp_path / "kept.npz")
    for of, faster in ((slow, 1), (fast, 10)):
        inputs, results = trials(of, 20, faster)
        model.learn(inputs, results)
    # The score of the best schedule is 1; beside the other target's it would be a tenth.
    states = [entry.state for entry in trials(slow, 20)[0]]
    assert max(model.predict(slow, states)) > 0.8


def test_a_search_teaches_it_also_its_last_trials(tmp_path):
    log = str(tmp_path / "log.jsonl")
    # Of one trial TVM would measure none.
    for asked, trials in ((1, 2), (2, 4)):
        history = read_ansor(log) if trials > 2 else []
        ansor.Ansor().search(task(conv), SearchOptions("ansor", asked, log), history)
        assert KeptModel(model_path(log)).trials == len(read_ansor(log)) == trials
        ansor.kept_model.cache_clear()  # as in another process


def test_few_trials_are_no_opinion_and_old_ones_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(ansor_model, "KEPT_TRIALS", 18)
    inputs, results = trials(work(conv), 20)
    model = KeptModel(tmp_path / "kept.npz")
    model.learn(inputs[:4], results[:4])
    assert model.bst is None and model.trials == 4
    model.learn(inputs[4:], results[4:])
    assert model.bst is not None and model.trials == 18
    model.learn([], [])
    assert KeptModel(tmp_path / "kept.npz").trials == 18


def test_a_trial_that_failed_teaches_nothing(tmp_path):
    inputs, results = trials(work(conv), 3)
    error = auto_scheduler.measure.MeasureErrorNo.RUNTIME_DEVICE
    results[0] = auto_scheduler.MeasureResult([1e10], error, "no", 0.1, 1.0)
    model = KeptModel(tmp_path / "kept.npz")
    model.learn(inputs[:1], results[:1])
    assert model.trials == 0
    model.learn(inputs, results)
    assert model.trials == 2


def test_where_it_cannot_be_written_a_warning_says_so_and_the_search_goes_on(tmp_path, caplog):
    model = KeptModel(tmp_path / "absent" / "kept.npz")
    model.learn(*trials(work(conv), 4))
    assert model.trials == 4
    [warning] = caplog.messages
    assert "kept.npz: [Errno 2]" in warning and warning.endswith("make room there")


def test_a_damaged_file_is_forgotten_with_a_warning(tmp_path, caplog):
    path = tmp_path / "kept.npz"
    path.write_bytes(b"PK no zip")
    with caplog.at_level(logging.WARNING):
        assert KeptModel(path).trials == 0
    assert "kept.npz is forgotten" in caplog.text
    KeptModel(path).learn(*trials(work(conv), 4))
    assert KeptModel(path).trials == 4
