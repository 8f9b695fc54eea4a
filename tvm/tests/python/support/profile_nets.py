# SPDX-License-Identifier: Apache-2.0
"""Small nets whose operators libraries fuse, and plans of them that know each operator's node."""

from onednn_nets import constant, typed, var
from tvm import relay
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.candidate.inputs import describe_inputs
from tvm.relay.collage.compile import host_target
from tvm.relay.collage.compile.library import build_library, export
from tvm.relay.collage.files.records import to_json
from tvm.relay.collage.measure.profiler.plan_kernels import (
    PlanCalls,
    calls_with_work,
    recorded_kernels,
)
from tvm.relay.collage.plans.greedy import take_all
from tvm.relay.collage.plans.placement.replay import as_deployed
from tvm.relay.collage.relay_util.node_spans import stamp_nodes


def conv_net():
    """Return convolutions with a bias, activations, a residual sum, pools and a dense layer."""
    x = var("x", 1, 8, 16, 16)
    out = relay.nn.conv2d(x, constant(1, 16, 8, 3, 3), padding=1, channels=16, kernel_size=(3, 3))
    out = first = relay.nn.relu(relay.nn.bias_add(out, constant(2, 16)))
    out = relay.nn.conv2d(
        out, constant(3, 16, 1, 3, 3), padding=1, channels=16, kernel_size=(3, 3), groups=16
    )
    out = relay.nn.relu(relay.add(relay.sigmoid(out), first))
    out = relay.nn.max_pool2d(out, (2, 2), (2, 2))
    out = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(out))
    return typed(relay.nn.softmax(relay.nn.dense(out, constant(4, 10, 16))))


def attention():
    """Return a block of attention: products, a softmax, a sum and a layer norm, and views."""
    x = var("x", 1, 16, 32)

    def project(seed):
        flat = relay.nn.dense(relay.reshape(x, (16, 32)), constant(seed, 32, 32))
        return relay.transpose(relay.reshape(flat, (16, 4, 8)), (1, 0, 2))

    scores = relay.nn.softmax(relay.nn.batch_matmul(project(1), project(2)))
    mixed = relay.nn.batch_matmul(scores, relay.transpose(project(3), (0, 2, 1)))
    mixed = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (16, 32))
    out = relay.add(relay.reshape(relay.nn.dense(mixed, constant(4, 32, 32)), (1, 16, 32)), x)
    mean = relay.mean(out, axis=-1, keepdims=True)
    centred = relay.subtract(out, mean)
    variance = relay.mean(relay.multiply(centred, centred), axis=-1, keepdims=True)
    return typed(relay.divide(centred, relay.sqrt(relay.add(variance, relay.const(1e-5)))))


NETS = {"conv_net": conv_net, "attention": attention}


def plan_of(mod, backend="", most_calls=None):
    """Return the module, stamped, with all that the backend takes in its parts, of so many calls
    at most."""
    stamped = stamp_nodes(mod)
    if not backend:
        return stamped
    placed, _ = take_all(stamped, parse_targets([host_target(), backend]), most_calls)
    return as_deployed(placed, ())


def part_of(plan):
    """Return the function of a plan's first part."""
    return next(f for _, f in plan.functions_items() if "Compiler" in (f.attrs or {}))


def built(mod, file, backend="", *, most_calls=None, build=None):
    """Build a plan of the module into a file; return what profile_operators gets of it."""
    plan = plan_of(mod, backend, most_calls)
    with recorded_kernels(plan) as kernels:
        library = build(plan) if build else build_library(plan, host_target())
    export(library, str(file))
    return {
        "library": str(file),
        "build": {"inputs": describe_inputs(mod), "device": "cpu"},
        "plan": to_json(PlanCalls(calls_with_work(mod), kernels)),
        "seed": 0,
        "budget_seconds": 0.05,
    }
