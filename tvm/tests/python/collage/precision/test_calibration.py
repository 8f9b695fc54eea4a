# SPDX-License-Identifier: Apache-2.0
"""Calibration samples: the forms in which they come, their purposes, what is wrong with some."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_nets import model
from tvm.relay import collage
from tvm.relay.collage.precision.calibration import Calibration, load_calibration, stacked

INT = onnx.TensorProto.INT64


def net(batch=1):
    nodes = [
        helper.make_node("Cast", ["i"], ["c"], to=1),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    return model(nodes, [("x", [batch, 3]), ("i", [batch, 3], INT)], [("y", [batch, 3])])


def one_input():
    return model([helper.make_node("Relu", ["x"], ["y"])], [("x", ["n", 3])], [("y", ["n", 3])])


def arrays(count, batch=1):
    x = np.arange(count * batch * 3, dtype="float32").reshape(count, batch, 3)
    return {"x": x, "i": x.astype("int64")}


def test_samples_lie_along_an_axis_of_their_own():
    found = load_calibration(arrays(4, batch=2), net(2))
    assert len(found) == 4 and found[1]["x"].shape == (2, 3)
    np.testing.assert_array_equal(found[3]["i"], arrays(4, 2)["i"][3])


def test_or_along_the_first_axis_of_the_input():
    joined = {name: array.reshape(-1, 3) for name, array in arrays(4, batch=2).items()}
    found = load_calibration(joined, net(2))
    assert len(found) == 4 and found[0]["x"].shape == (2, 3)
    assert len(load_calibration({"x": joined["x"]}, one_input())) == 8


def test_a_size_below_none_is_open():
    made = one_input()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert len(load_calibration({"x": np.zeros((4, 3), "float32")}, made)) == 4
    assert len(load_calibration({"x": np.zeros((4, 2, 3), "float32")}, made)) == 4


def test_a_file_holds_them(tmp_path):
    file = tmp_path / "samples.npz"
    np.savez(file, **arrays(3))
    assert len(load_calibration(file, net())) == 3


def test_an_iterable_gives_one_after_the_other():
    rows = [{name: array[k] for name, array in arrays(3).items()} for k in range(3)]
    assert len(load_calibration(iter(rows), net())) == 3
    assert load_calibration([rows[0]["x"]], one_input())[0]["x"].shape == (1, 3)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"x": arrays(3)["x"]}, "input 'i' has no samples (inputs: x, i)"),
        ({**arrays(3), "z": np.zeros(3)}, "'z' is no input of the model (inputs: x, i)"),
        (
            {**arrays(3), "i": arrays(4)["i"]},
            "its inputs have different numbers of samples: x 3, i 4",
        ),
        (
            {**arrays(3), "x": arrays(3)["i"]},
            "input 'x' takes float32 of shape (1, 3), one sample behind the other along a first "
            "axis; got int64 of shape (3, 1, 3)",
        ),
        ([np.zeros((1, 3), "float32")], "a sample is arrays by input name (x, i), got a ndarray"),
        (
            [{"x": np.zeros((1, 4), "float32"), "i": np.zeros((1, 3), "int64")}],
            "input 'x' takes float32 of shape (1, 3), got float32 of shape (1, 4)",
        ),
    ],
)
def test_what_does_not_fit_is_said(given, said):
    with pytest.raises(collage.OptionError) as caught:
        load_calibration(given, net())
    assert str(caught.value) == f"option relay.collage.calibration: {said}"


def test_a_file_that_does_not_fit_is_named(tmp_path):
    file = tmp_path / "samples.npz"
    np.savez(file, x=arrays(3)["x"])
    with pytest.raises(collage.errors.FileError, match="samples.npz': input 'i' has no samples"):
        load_calibration(str(file), net())
    with pytest.raises(collage.errors.FileError, match="there is no such file"):
        load_calibration(str(tmp_path / "none.npz"), net())


def test_another_kind_is_a_type_error():
    with pytest.raises(TypeError, match="calibration takes an .npz file, arrays by input name or"):
        load_calibration(3, net())


@pytest.mark.parametrize("count", [3, 4, 5, 16, 33])
def test_no_sample_serves_two_purposes(count):
    samples = load_calibration(arrays(count), net())
    found = Calibration.of(samples)
    ids = [id(sample) for rows in found for sample in rows]
    assert len(set(ids)) == len(ids) == count and all(found)
    assert len(found.ranges) >= len(found.errors) >= len(found.check) >= 1


def test_two_samples_are_too_few():
    with pytest.raises(collage.OptionError, match="has 2 samples, and 3 are the fewest"):
        Calibration.of(load_calibration(arrays(2), net()))


def test_samples_of_several_shapes_fit_no_library():
    rows = [np.zeros((n, 3), "float32") for n in (2, 2, 4)]
    samples = load_calibration(rows, one_input())
    assert stacked(samples[:2])["x"].shape == (2, 2, 3)
    with pytest.raises(collage.OptionError, match=r"several shapes, \(2, 3\) and \(4, 3\)"):
        stacked(samples)
