# SPDX-License-Identifier: Apache-2.0
"""What backends share that hand a partition to a library: from a Relay function to a description.

The other half is C++: tvm/src/runtime/contrib/partition. Test: backends/dnnl/test_codegen.py.
"""

from .description import Lower, PartitionCodegen
from .flatten import flatten
from .graph import Graph, Node, PostOp

__all__ = ["Graph", "Lower", "Node", "PartitionCodegen", "PostOp", "flatten"]
