# SPDX-License-Identifier: Apache-2.0
"""How a search went on by the clock, from what its log says."""

import json

import pytest
from transfer_nets import conv, dense, kernel, source
from tvm.relay.collage.cli.tt.timeline import goal_of, lines_within, seconds_to_match, timeline
from tvm.relay.collage.tuning.tuner import Line


def line(began, took, seconds, make=conv):
    row = json.loads(source([], make).line)
    row["r"] = [[seconds or 1e10], 0 if seconds else 1, took, began]
    return Line("ansor", kernel(make).workload, "llvm", seconds, json.dumps(row))


def test_time_goes_on_from_trial_to_trial_and_a_pause_counts_a_minute():
    trials = [line(1000, 2.0, 3e-3), line(1010, 1.0, None), line(9000, 1.0, 2e-3)]
    found = timeline([trials[2], trials[0], trials[1]])
    assert [moment.seconds for moment in found] == [2.0, 11.0, 71.0]
    assert [moment.line for moment in found] == trials
    assert lines_within(found, 11.0) == trials[:2] and lines_within(found, 0.0) == []
    assert timeline([]) == []


def test_logs_that_do_not_say_when_take_no_time():
    assert [moment.seconds for moment in timeline([line(0, 0.0, 1e-3)] * 2)] == [0.0, 0.0]


def test_a_model_takes_what_its_kernels_take_with_their_best_trials():
    kernels = [kernel(conv), kernel(dense)]
    trials = [line(0, 1, 3e-3), line(1, 1, 2e-3), line(2, 1, None, dense)]
    assert goal_of(kernels, trials) == (kernels[:1], 2e-3)
    assert goal_of(kernels[1:], trials) == ([], None)
    trials.append(line(9, 1, 1e-3, dense))
    assert goal_of(kernels, trials) == (kernels, pytest.approx(3e-3))
    moments = timeline(trials)
    assert seconds_to_match(kernels, moments, 3e-3) == 10.0
    assert seconds_to_match(kernels, moments, 2e-3) is None
    assert seconds_to_match(kernels[:1], moments, 3e-3) == 1.0
