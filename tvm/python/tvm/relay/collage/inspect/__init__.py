# SPDX-License-Identifier: Apache-2.0
"""The partitioner's view of a module, for authors of patterns and backends: graphs, candidates,
matches of a pattern, refusals. Nothing is searched or measured unless an estimator is given.
"""

from .look import Refusal, candidates, dataflow_graph, partition_specs, refusals
from .matches import Match, find_matches

__all__ = [
    "Match",
    "Refusal",
    "candidates",
    "dataflow_graph",
    "find_matches",
    "partition_specs",
    "refusals",
]
