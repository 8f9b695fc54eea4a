# SPDX-License-Identifier: Apache-2.0
"""What the partitioner sees in a module, for authors of patterns and backends: graphs, candidates,
matches of a pattern, refusals. Nothing is searched or measured unless an estimator is given."""

from .look import candidates, dataflow_graph, partition_specs
from .matches import Match, find_matches
from .refusal import Refusal, refusals

__all__ = [
    "Match",
    "Refusal",
    "candidates",
    "dataflow_graph",
    "find_matches",
    "partition_specs",
    "refusals",
]
