# SPDX-License-Identifier: Apache-2.0
"""Choices of kernels that tests make up, and the whole way of one to a library's file."""

import tvm
from onednn_nets import (
    assert_close,
    build,
    function_of,
    hand_placed,
    plan_of,
    random_inputs,
    reference,
    run,
)
from tvm.relay import collage
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.costs.kernel import choose, with_kernels
from tvm.relay.collage.measure.profiler.kernel_trials import steps_of_part
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.placement import load_placement
from tvm.relay.collage.plans.placement.replay import apply_placement
from tvm.relay.collage.tuning import TuningRecords


def chosen(step, kernel):
    """The choice of a step by times that make this kernel the fastest."""
    times = {name: Cost.given(1e-3 if name == kernel else 2e-3) for name in step.kernels}
    return choose(step, times)


def plan_with(body, choices, wanted=None):
    """The plan of an expression as one part with these choices, once it has run; its outputs are
    compared where it is known what is wanted."""
    function = function_of(body)
    library = build(with_kernels(hand_placed(function), choices))
    found = run(library, random_inputs(function))
    if wanted is not None:
        assert_close(found, wanted)
    return plan_of(library)


def deployed_by_placement(make_body, choice_of, folder):
    """The library, loaded from its file, of dnnl's plan of a body that is one part of dnnl, after
    its placement's file was replayed; what it computes has been compared. choice_of: the part's
    steps -> a KernelChoice."""
    function = function_of(make_body())
    inputs = random_inputs(function)
    targets = parse_targets([collage.host_target(), "dnnl"])
    with tvm.transform.PassContext(opt_level=3):
        mod = prepare(tvm.IRModule.from_expr(function), None, targets.host, opt_level=3)
        plans = Plans(mod, targets)
        [part] = plans.parts_with_kernels()
        plans.kernels = (choice_of(steps_of_part(part)),)
        plans.add_single_backends()
        assert plans.kernels_of("dnnl") == plans.kernels and plans.kernels_of("tvm") == ()
        file = folder / "placement.json"
        plans.maker("dnnl", TuningRecords())().save(file)
        placement = load_placement(file)
        assert placement.kernels == plans.kernels
        replayed = apply_placement(mod, placement, targets.host, ["dnnl"])
        assert tvm.ir.structural_equal(replayed, plans.modules["dnnl"])
        built = build_library(replayed, targets.host)
    built.export_library(str(folder / "lib.so"))
    library = tvm.runtime.load_module(str(folder / "lib.so"))
    assert_close(run(library, inputs), reference(function_of(make_body()), inputs))
    return library


def trial_timing(network_bytes, budget_seconds, **more):
    """Return the timing that a worker is asked for the kernels of a step."""
    return {"network_bytes": network_bytes, "seed": 0, "budget_seconds": budget_seconds, **more}
