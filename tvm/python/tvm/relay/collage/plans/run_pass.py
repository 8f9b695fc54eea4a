# SPDX-License-Identifier: Apache-2.0
"""The pass by itself, with Collage options set for it.

Test: test_collage_partition.py, test_optimizer.py.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.relay.transform import CollagePartition
from tvm.target import make_compilation_config

from ..backends.targets import TargetList
from ..estimators import CostEstimator
from ..options import PREFIX, check_options
from ..relay_util.changed_context import changed_context


def partition(
    mod: tvm.IRModule, targets: TargetList, estimator: CostEstimator, **options: Any
) -> tvm.IRModule:
    """Run the pass alone: `mod` (typed, weights bound) with its parts on their fastest targets.

    `options` are further Collage options by name, over those of the current PassContext.
    """
    with options_set(options):
        config = make_compilation_config(tvm.transform.PassContext.current(), targets.all)
        return CollagePartition(config, estimator)(mod)


def options_set(options: dict[str, Any]) -> tvm.transform.PassContext:
    """Return the current PassContext with Collage options over its own."""
    more = {PREFIX + name: value for name, value in options.items()}
    # TVM's own error, of the options that it registers, is a page of stack frames.
    check_options(more)
    return changed_context(more)
