# SPDX-License-Identifier: Apache-2.0
"""Options by who reads them, and who may read them all."""

import ast
import dataclasses

import pytest
from tree import ROOT
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.options import groups

PACKAGE = ROOT / "tvm" / "python" / "tvm" / "relay" / "collage"
GROUPS = [name for name, value in vars(CollageOptions).items() if isinstance(value, groups.Group)]

MEASURING = {
    "seconds": "measure_seconds",
    "timeout": "measure_timeout",
    "workers": "workers",
    "seed": "seed",
    "verify": "verify",
    "cost_bounds": "cost_bounds",
}
STORING = {"file": "store", "retry_failed": "retry_failed"}
DEVICES = {
    "tracker": "rpc_tracker",
    "key": "rpc_key",
    "wait": "rpc_wait",
    "compiler": "rpc_compiler",
}
# Group -> field -> option, or the group inside it.
OPTION_OF = {
    "of_pass": {
        "merge_parts": "merge_parts",
        "time_limit": "time_limit",
        "placement": "placement",
    },
    "searching": {"effort": "effort", "time_limit": "time_limit"},
    "candidates": {
        "tvm_max_depth": "tvm_max_depth",
        "byoc_max_depth": "byoc_max_depth",
        "styles": "byoc_fusion_style",
        "max_per_node": "max_candidates_per_node",
        "max_exits": "max_exits",
        "region_cuts": "region_cuts",
        "tvm_regions": "tvm_regions",
    },
    "session": {
        "measuring": MEASURING,
        "storing": STORING,
        "devices": DEVICES,
        "progress": "progress",
    },
    "measuring": MEASURING,
    "storing": STORING,
    "devices": DEVICES,
    "tuning": {
        "logs": "tuning_log",
        "transfer_logs": "transfer_log",
        "shipped": "shipped_records",
        "trials": "tune",
        "tuner": "tuner",
        "model": "tune_model",
        "patience": "tune_patience",
        "log": "tune_log",
        "seconds": "tune_seconds",
        "seed": "seed",
        "progress": "progress",
    },
    "guarding": {
        "enabled": "guard",
        "rounds": "guard_rounds",
        "seconds": "guard_seconds",
        "memory_mb": "guard_memory_mb",
        "library_mb": "guard_library_mb",
    },
    "graph_searching": {
        "strategy": "graph_search",
        "population": "graph_search_population",
        "trials": "graph_search_trials",
        "seconds": "graph_search_seconds",
        "seed": "graph_search_seed",
    },
}

# Who asks for the options in force: a build's ways in, and what TVM, C++ or a user's rule calls.
WAYS_IN = {
    "optimizer.optimize",
    "precision.place.optimize_precision",
    "relay_builds._decided",
    "relay_builds._told",
    "relay_builds.create_executor",
}
CALLED_BACK = {
    "backends.rule._warn_of_unused_styles",
    "backends.rule.backend_rule",
    "backends.rule.freely_joined",
    "backends.rule.make_byoc_partition_rule",
    "compile.vector_math.has_vector_math",
    "estimators.session.OwnSession.get",
    "options.table.pass_options",
    "plans.placement.replay.read_placement",
    "rules.custom._Growth.__init__",
    "rules.rule.tvm_rule",
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_holds_the_values_of_its_options(group):
    """The value of each is its own name, which no other one has."""
    options = CollageOptions()
    vars(options).update({field.name: field.name for field in dataclasses.fields(options)})
    record = getattr(options, group)
    assert dataclasses.asdict(record) == OPTION_OF[group]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, dataclasses.fields(record)[0].name, None)


def test_groups_are_no_options():
    assert not set(GROUPS) & {field.name for field in dataclasses.fields(CollageOptions)}
    assert CollageOptions().session.measuring == CollageOptions().measuring


def test_the_options_in_force_are_asked_for_where_builds_come_in_alone():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module, text = ".".join(path.relative_to(PACKAGE).with_suffix("").parts), path.read_text()
        if "CollageOptions.current" in text:
            found |= {f"{module}.{name}" for name in callers(ast.parse(text))}
    assert found == WAYS_IN | CALLED_BACK


def callers(tree, within=()):
    """The definitions in a module that call CollageOptions.current."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "CollageOptions.current":
            yield ".".join(within)
        is_named = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        yield from callers(node, (*within, node.name) if is_named else within)
