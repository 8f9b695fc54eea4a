# SPDX-License-Identifier: Apache-2.0
"""The nets of the benchmarks: figures as published, valid, runnable, importable, errors clear."""

import functools

import demo_ocr
import models
import numpy as np
import onnx
import pytest
from models.graph import Graph
from net_counts import count
from tvm.relay.collage.relay_util.walk import operator_calls


@functools.lru_cache(maxsize=1)
def build(name):
    """The last model is kept, for the next look at it."""
    return models.NETS[name].build(1)


def session(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def check_figures(name):
    net, found = models.NETS[name], count(build(name))
    assert net.source and found.nodes > 10
    if net.parameters is not None:
        assert abs(found.parameters / net.parameters - 1) <= net.tolerance
    if net.macs is not None:
        assert abs(found.macs / net.macs - 1) <= net.mac_tolerance


def check_runs(name):
    """Outputs are finite, and neither vanish nor explode."""
    net, model = models.NETS[name], build(name)
    onnx.checker.check_model(model)
    runner = session(model)
    for values in runner.run(None, models.random_inputs(net, model)):
        assert np.isfinite(values).all()
        assert 1e-6 < np.abs(values).max() < 1e3
        assert len(np.unique(values)) > 1


def check_import(name):
    import tvm

    mod, params = models.to_relay(build(name))
    mod = tvm.relay.transform.InferType()(mod)
    text = mod.astext(show_meta_data=False)
    assert "dyn." not in text and "?" not in text  # all shapes are static
    inputs = [var for var in mod["main"].params if var.name_hint not in params]
    expected = models.random_inputs(models.NETS[name], build(name))
    assert {v.name_hint: tuple(map(int, v.checked_type.shape)) for v in inputs} == {
        key: value.shape for key, value in expected.items()
    }


QUICK = ("dcgan", "mobilenetv2", "nasrnn")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow("14 larger nets"))
        for name in models.NETS
    ],
)
def test_figures_are_those_published_it_runs_and_tvm_imports_it(name):
    check_figures(name)
    check_runs(name)
    check_import(name)


def test_weights_are_the_same_each_time():
    first, second = (models.NETS["dcgan"].build(1).SerializeToString() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["mobilenetv2", "dcgan", "nasrnn"])
def test_a_larger_batch_is_that_many_times_the_work(name):
    one, four = (count(models.NETS[name].build(batch)) for batch in (1, 4))
    assert four.parameters == one.parameters and four.macs == 4 * one.macs


def test_counts_of_a_graph_by_hand():
    g = Graph("small")
    x = g.norm(g.conv(g.input("x", (2, 4, 5, 5)), 6, 3, 2, group=2, bias=True))
    model = g.model(g.classify(x, 10))
    # 6x2x3x3 weights and 6 biases, scale and shift of 6, 6x10 and 10: no means, no variances.
    assert count(model).parameters == 108 + 6 + 12 + 70
    # 2 images, 6 channels of 3x3, 18 products each; 2 rows of 10, 6 products each.
    assert count(model).macs == 2 * 6 * 9 * 18 + 2 * 10 * 6
    shape = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in shape] == [2, 10]


def test_inputs_are_normal_or_indices_in_range():
    inputs = models.random_inputs(models.NETS["bert"], build("bert"))
    assert inputs["input_ids"].dtype == np.int64 and inputs["input_ids"].max() < 30522
    assert set(np.unique(inputs["attention_mask"])) == {0, 1}
    (noise,) = models.random_inputs(models.NETS["dcgan"], build("dcgan")).values()
    assert noise.dtype == np.float32 and 0.5 < noise.std() < 1.5


def test_names_are_found_or_refused():
    assert [net.name for net in models.find("vit, resnet50")] == ["vit", "resnet50"]
    assert len(models.find("all")) == len(models.NETS) == 17
    with pytest.raises(ValueError, match="unknown net alexnet, lenet: choose of resnet50, "):
        models.find("alexnet,vit,lenet")
    with pytest.raises(ValueError, match="no net named: choose of"):
        models.find(" , ")


def test_a_real_net_whose_file_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(demo_ocr, "PACKAGE", "no_such_package")
    with pytest.raises(FileNotFoundError, match="requirements-models.txt"):
        models.NETS["ppocr_cls"].build(1)


@pytest.mark.parametrize("kind", models.SIZED)
def test_a_synthetic_net_has_about_as_many_calls_as_asked_for(kind):
    for nodes in (100, 1000):
        (net,) = models.find(f"{kind}:{nodes}")
        mod, params = models.to_relay(net.build(1))
        calls = len(operator_calls(mod))
        assert nodes * 0.8 <= calls <= nodes * 1.05 and params


@pytest.mark.parametrize("name", ["chain", "chain:many", "ring:100", "resnet"])
def test_a_net_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown net {name}: choose of"):
        models.find(name)


def test_inputs_are_of_the_types_that_the_model_wants():
    g = Graph("masked")
    mask = g.input("mask", (1, 4), onnx.TensorProto.INT64)
    x = g.input("x", (1, 4))
    model = g.model(g.op("Mul", x, g.op("Cast", mask, to=onnx.TensorProto.FLOAT)))
    net = models.Net("masked", "", lambda batch: model, "")
    found = models.random_inputs(net, model)
    assert found["x"].dtype == "float32" and len(np.unique(found["x"])) == 4
    assert found["mask"].dtype == "int64" and (found["mask"] == 1).all()
