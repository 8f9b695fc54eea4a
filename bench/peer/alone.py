# SPDX-License-Identifier: Apache-2.0
"""A net on one backend alone, as the guard builds it. Test: bench/test_winograd.py."""

from __future__ import annotations

from typing import Any

import onnx
import tvm
from models import to_relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.plans import TVM_ALONE, Plans
from tvm.relay.collage.targets import parse_targets


def prepared(model: onnx.ModelProto) -> tvm.IRModule:
    """What is partitioned, for the target of this machine."""
    with tvm.transform.PassContext(opt_level=3):
        return prepare(*to_relay(model), collage.host_target(), opt_level=3)


def build_alone(mod: tvm.IRModule, target: str) -> Any:
    """The library of a prepared module on the backend of a target ("dnnl -winograd=never"), which
    has all that it takes, TVM the rest; or on "tvm". RuntimeError where it takes nothing, or
    fails."""
    name = target.split()[0]
    others = [] if name == TVM_ALONE else [target]
    targets = parse_targets([collage.host_target(), *others])
    with tvm.transform.PassContext(opt_level=3):
        plans = Plans(mod, targets)
        plans.add_single_backends()
        if name not in plans.modules:
            raise RuntimeError(f"{name}: {plans.failed.get(name, 'takes nothing of this net')}")
        return build_library(plans.modules[name], targets.host)
