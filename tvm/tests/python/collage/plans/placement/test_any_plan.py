# SPDX-License-Identifier: Apache-2.0
"""Any plan of a build, saved or out of its report, gives the same module of a model that is
imported anew: of small nets, single nodes and random graphs, at whatever level it is replayed."""

import json

import build_nets
import numpy as np
import onnx
import onnx_nets
import pytest
import tvm
from fuzz.place import RandomCosts
from fuzz.profiles import PROFILES, grown
from relay_text import HOST, assert_same_outputs
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, optimizer
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.estimators import FunctionCosts
from tvm.relay.collage.importer.onnx import from_onnx
from tvm.relay.collage.loaded import read_placements
from tvm.relay.collage.plans.placement import MachineTraits
from tvm.relay.collage.relay_util.external import is_on_one_thread

TARGETS = [HOST, "dnnl", "cblas", "onnxruntime", "openvino"]
_GRAPHS_OF_EACH_PROFILE = 1


def imported(proto):
    """What imports the model anew, from its bytes, each time."""
    data = proto.SerializeToString()
    return lambda: from_onnx(onnx.load_from_string(data), None)


def resize(mode):
    """A node alone; with mode cubic no backend takes it."""
    node = onnx.helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)
    scales = {"scales": np.array([1, 1, 2, 2], "float32")}
    return onnx_nets.model([node], [("x", [1, 1, 4, 4])], [("y", [1, 1, 8, 8])], scales)


def _graphs():
    """Seeds of the first graphs of each profile."""
    seeds = {name: [] for name, (share, _) in PROFILES.items() if share}
    for seed in range(1000):
        found = seeds[grown(seed)[0]]
        if len(found) < _GRAPHS_OF_EACH_PROFILE:
            found.append(seed)
        if all(len(each) == _GRAPHS_OF_EACH_PROFILE for each in seeds.values()):
            break
    return [seed for found in seeds.values() for seed in found]


MODELS = {
    "cubic": imported(resize("cubic")),
    "nearest": imported(resize("nearest")),
    **{
        name: imported(getattr(onnx_nets, name)())
        for name in ("conv_net", "attention", "lstm", "branch", "loop", "several_outputs")
    },
    **{f"relay {name}": make for name, make in build_nets.NETS.items()},
    **{f"seed {s}": lambda s=s: (grown(s)[1].module(), None) for s in _graphs()},
}


@pytest.mark.parametrize("name", MODELS)
def test_any_plan_is_saved_and_replayed(name, fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: RandomCosts(5))
    options = CollageOptions(measure_kernels=False)
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(*MODELS[name](), TARGETS, options)
    plans = fakes["plans"]
    seen = read_placements(json.loads(json.dumps(result.to_json()))["placements"])
    assert {"tvm", "collage", *TARGETS[1:]} <= set(plans) == set(seen.names())
    for level, plan in enumerate(plans):
        result.save_placement(tmp_path / "net.json", plan)
        placement = collage.load_placement(tmp_path / "net.json")
        assert placement == seen.placement(plan)
        with tvm.transform.PassContext(opt_level=2 + level % 2):
            again = collage.optimize(*MODELS[name](), TARGETS, placement=placement)
        assert again.plan == plan
        assert tvm.ir.structural_equal(again.mod, plans[plan]), plan


@pytest.mark.parametrize("threads, seconds, is_small", [(2, 1e-5, 1), (2, 2e-3, 0), (1, 1e-5, 0)])
def test_plans_of_a_small_net_on_one_thread_compete_and_are_replayed(
    threads, seconds, is_small, fakes, tmp_path, monkeypatch
):
    """Where there are several threads; a plan that takes 2 ms can use them."""
    make, machine = MODELS["conv_net"], MachineTraits("any", (), threads)
    monkeypatch.setattr(optimizer, "this_machine", lambda: machine)
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: FunctionCosts(lambda *_: seconds))
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(*make(), [HOST, "dnnl"])
    names = ["tvm", "dnnl", "collage"]
    alone = [f"{name}-one-thread" for name in names]
    assert [name in fakes["plans"] for name in alone] == [is_small] * 3
    seen = read_placements(json.loads(json.dumps(result.to_json()))["placements"])
    for name in names + alone * is_small:
        placement = seen.placement(name)
        assert placement.one_thread == (name in alone)
        placement.save(tmp_path / "net.json")
        with tvm.transform.PassContext(opt_level=3):
            again = collage.optimize(*make(), [HOST, "dnnl"], placement=tmp_path / "net.json")
        assert tvm.ir.structural_equal(again.mod, fakes["plans"][name])
        assert is_on_one_thread(again.mod["main"]) == placement.one_thread
        assert again.placement == placement


def test_what_is_replayed_at_another_level_gives_the_same_outputs(fakes, tmp_path):
    make = MODELS["conv_net"]
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(*make(), [HOST, "dnnl"])
    result.save_placement(tmp_path / "net.json")
    with tvm.transform.PassContext(opt_level=2):
        again = collage.optimize(*make(), [HOST, "dnnl"], placement=tmp_path / "net.json")
    levels = [prepare(*make(), HOST, opt_level=level) for level in (2, 3)]
    assert not tvm.ir.structural_equal(*levels), "a scale is folded into weights at 3 alone"
    assert again.placement.made_with.opt_level == 3
    assert_same_outputs(levels[1], again.mod)
