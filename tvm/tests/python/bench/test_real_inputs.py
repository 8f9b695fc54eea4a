# SPDX-License-Identifier: Apache-2.0
"""Inputs of the kind that nets answer: their shapes and ranges, and that they differ."""

import numpy as np
import pytest
from harness.real_inputs import TASKS, find_task, pages, photographs
from tvm.relay.collage.precision.calibration import load_calibration

# Of each task that has inputs of its own, what they are.
TYPES = {
    "ppocr_cls": ((1, 3, 48, 192), "float32"),
    "ppocr_rec": ((1, 3, 48, 320), "float32"),
    "ppocr_det": ((1, 3, 640, 640), "float32"),
    "orientation": ((1, 3, 224, 224), "float32"),
    "open_nsfw": ((1, 224, 224, 3), "float32"),
    "nudenet": ((1, 3, 320, 320), "float32"),
    "magika": ((1, 2048), "int32"),
}


@pytest.mark.parametrize("name", TASKS)
def test_each_task_has_inputs_that_differ_and_are_the_same_next_time(name):
    if name in ("open_nsfw", "nudenet"):
        pytest.importorskip("sklearn", reason="the extra precision is not installed")
    first, second, third = TASKS[name].draw(3)
    assert [(first.shape, first.dtype.name)] == [TYPES[name]]
    assert not np.array_equal(first, second) and not np.array_equal(second, third)
    assert np.array_equal(TASKS[name].draw(3)[1], second)
    assert np.isfinite(first).all() and first.std() > 0


@pytest.mark.parametrize("name", ["ppocr_cls", "magika", "mobilenetv2"])
def test_samples_are_such_as_a_calibration_takes(name):
    task = find_task(name)
    model = task.build()
    samples = load_calibration(task.samples(model, 4), model)
    assert len(samples) == 4 and task.is_trained == (name in TASKS)


def test_pages_are_mostly_white_and_photographs_are_not():
    pytest.importorskip("sklearn", reason="the extra precision is not installed")
    page = np.asarray(pages(1, 200)[0])
    assert page.shape == (200, 200, 3) and np.median(page) == 255 and page.min() < 100
    (photograph,) = photographs(1, 64)
    assert photograph.shape == (64, 64, 3) and 30 < photograph.mean() < 225


def test_a_name_that_is_no_net_is_told():
    with pytest.raises(ValueError, match="unknown net nothing"):
        find_task("nothing")
    with pytest.raises(ValueError, match="'all' is not the name of one net"):
        find_task("all")
