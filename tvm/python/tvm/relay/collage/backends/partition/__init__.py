# SPDX-License-Identifier: Apache-2.0
"""The way from a Relay function to a description that backends hand to a library.

The other half is C++: tvm/src/runtime/contrib/partition. Test: backends/dnnl/test_codegen.py.
"""

from .description import Lower, PartitionCodegen
from .flatten import flatten
from .graph import Graph, Operation, PostOp

__all__ = ["Graph", "Lower", "Operation", "PartitionCodegen", "PostOp", "flatten"]
