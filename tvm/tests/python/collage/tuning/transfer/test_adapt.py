# SPDX-License-Identifier: Apache-2.0
"""Steps for one kernel as steps for another, without TVM's states."""

import itertools
import math
import random

import pytest
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel
from tvm.relay.collage.tuning.transfer.adapt import Misfit, adapt, nearest_lengths

PADDED = ("%0", "padding of %0", "%1", "%2", "%3")
BARE = ("%0", "%1", "%2", "%3")


def kernel(*roles, kind="class"):
    return AnsorKernel("[]", "name", kind, roles, (1,), 1.0)


def adapted(steps, source, target, extent=lambda *_: 12):
    return adapt(steps, kernel(*source), kernel(*target), extent)


def test_stages_are_found_by_role_where_padding_is_missing():
    steps = [
        ["FU", 1, [0, 1]],
        ["SP", 3, 0, 64, [4, 8], 1],
        ["FSP", 4, 0, 1, 2],
        ["CA", 1, 3, 2],
        ["AN", 1, 0, 3],
        ["CA", 3, 4, 1],
        ["PR", 3, 0, "auto_unroll_max_step$16"],
    ]
    assert adapted(steps, PADDED, BARE) == [
        ["SP", 2, 0, 12, [2, 6], 1],
        ["FSP", 3, 0, 0, 2],
        ["CA", 2, 3, 1],
        ["PR", 2, 0, "auto_unroll_max_step$16"],
    ]


def test_padding_that_only_the_target_has_is_inlined():
    steps = [["CI", 2], ["FFSP", 3, 0, [2], 1, 1], ["SP", 2, 1, 64, [3], 1]]
    with pytest.raises(Misfit):  # it follows a step that is not there yet
        adapted(steps, BARE, PADDED)
    steps = [steps[2], ["FFSP", 3, 0, [0], 1, 1], ["RE", 2, [1, 0]]]
    assert adapted(steps, BARE, PADDED) == [
        ["CI", 1],
        ["SP", 3, 1, 12, [3], 1],
        ["FFSP", 4, 0, [1], 1, 1],
        ["RE", 3, [1, 0]],
    ]


def test_stages_that_steps_add_are_counted():
    steps = [
        ["CHW", 3, "local"],  # its cache takes number 3, itself 4
        ["CA", 3, 4, 2],
        ["RF", 4, 1, 0],  # the partial result takes 4, itself 5
        ["CI", 5],
        ["CHR", 2, "shared", [3, 4]],  # the copy takes 3
        ["CR", 3],
        ["SA", 6, 0, 8, 1],
    ]
    assert adapted(steps, PADDED, BARE) == [
        ["CHW", 2, "local"],
        ["CA", 2, 3, 2],
        ["RF", 3, 1, 0],
        ["CI", 4],
        ["CHR", 1, "shared", [2, 3]],
        ["CR", 2],
        ["SA", 5, 0, 8, 1],
    ]


def test_equal_kernels_keep_their_steps_and_extents_are_asked_after_the_steps_before():
    steps = [["SP", 2, 0, 12, [2, 3], 1], ["SP", 3, 1, 12, [4], 1]]
    asked = []

    def extent(before, stage, loop):
        asked.append((list(before), stage, loop))
        return 12

    assert adapted(steps, PADDED, PADDED, extent) == steps
    assert asked == [([], 2, 0), (steps[:1], 3, 1)]


@pytest.mark.parametrize(
    "steps, why",
    [
        ([["CA", 2, 1, 0]], "CA needs the padding of %0"),
        ([["CHW", 1, "local"]], "CHW needs the padding of %0"),
        ([["CHR", 0, "shared", [1]]], "CHR needs the padding of %0"),
        ([["SP", 1, 0, 8, [2], 1], ["FSP", 3, 0, 0, 1]], "FSP follows a split of padding"),
        ([["SP", 1, 0, 8, [2], 1], ["FFSP", 3, 0, [0], 1, 1]], "FFSP follows a split of padding"),
        ([["XX", 2, 0]], "step XX is not known"),
        ([["CA", 2, 40, 0]], "CA needs the stage 40"),
        *(([garbled], "is no step") for garbled in ([], "CI", ["CI"], ["CI", "2"], ["CI", 40])),
        ([["SP", 2, 0, 8, [0], 1]], "SP is not known, or not with"),
        ([["SP", 2, 0, 8, [None], 1]], "SP is not known, or not with"),
        ([["CHR", 2, "shared", [[]]]], "CHR is not known, or not with"),
        (None, "are no steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_without_meaning_is_named(steps, why):
    with pytest.raises(Misfit, match=why):
        adapted(steps, PADDED, BARE)


def test_a_loop_of_unknown_size_and_another_class_are_misfits():
    with pytest.raises(Misfit, match="loop of the %1 of unknown size"):
        adapted([["SP", 2, 0, 8, [2], 1]], PADDED, PADDED, lambda *_: None)
    with pytest.raises(Misfit, match="different classes"):
        adapt([], kernel(*BARE), kernel(*BARE, kind="other"), lambda *_: 1)


def test_lengths_that_divide_stay_and_others_become_the_nearest_divisors():
    assert nearest_lengths([4, 8], 64) == [4, 8]
    assert nearest_lengths([4, 8], 7) == [1, 7]
    assert nearest_lengths([2, 16], 1) == [1, 1]
    assert nearest_lengths([], 5) == []
    generator = random.Random(0)
    for _ in range(300):
        extent = generator.randint(1, 400)
        lengths = [generator.randint(1, 64) for _ in range(generator.randint(1, 3))]
        found = nearest_lengths(lengths, extent)
        assert extent % math.prod(found) == 0 and len(found) == len(lengths)
        # The innermost is the best of all divisors, each other of those that it leaves.
        left = extent
        for length, chosen in zip(reversed(lengths), reversed(found), strict=True):
            divisors = [d for d in range(1, left + 1) if left % d == 0]
            ratios = [abs(math.log(d / length)) for d in divisors]
            assert abs(math.log(chosen / length)) == pytest.approx(min(ratios))
            left //= chosen
    for extent, length in itertools.product((6, 12, 36), repeat=2):
        if extent % length == 0:
            assert nearest_lengths([length], extent) == [length]
