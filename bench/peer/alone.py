# SPDX-License-Identifier: Apache-2.0
"""A net on one backend alone, as the guard builds it. Test: test_bench_winograd.py."""

from __future__ import annotations

from typing import Any

import onnx
import tvm
from models import to_relay
from tvm.relay import collage
from tvm.relay.collage.build import build_library, prepare
from tvm.relay.collage.plans import TVM_ALONE, Plans
from tvm.relay.collage.targets import parse_targets


def build_alone(model: onnx.ModelProto, target: str) -> Any:
    """The library of a net on the backend of a target ("dnnl -winograd=never"), which has all that
    it takes, TVM the rest; or on "tvm". RuntimeError where it takes nothing, or fails."""
    name = target.split()[0]
    others = [] if name == TVM_ALONE else [target]
    targets = parse_targets([collage.host_target(), *others])
    mod, params = to_relay(model)
    with tvm.transform.PassContext(opt_level=3):
        plans = Plans(prepare(mod, params, targets.host, opt_level=3), targets)
        plans.add_single_backends()
        if name not in plans.modules:
            raise RuntimeError(f"{name}: {plans.failed.get(name, 'takes nothing of this net')}")
        return build_library(plans.modules[name], targets.host)
