# SPDX-License-Identifier: Apache-2.0
"""docs/backends/own.md: what it says that names of other projects are called here is there."""

import re

from tree import ROOT
from tvm.relay import collage
from tvm.relay.collage import backends, rules
from tvm.relay.collage.options import option_table

PAGE = (ROOT / "docs/backends/own.md").read_text(encoding="utf-8")
PAGE = PAGE.partition("## Names in other projects")[2]
# Attributes of a backend's class, targets, functions of TVM, commands, CMU's words.
NO_NAMES = {
    "name", "kind", "compile", "patterns", "partition_rule", "cost", "options", "mkl", "dnnl",
    "relay.build", "dot", "op", "two",
}  # fmt: skip
OPTIONS = {option.name for option in option_table()}


def names():
    """What the right column of the tables has in code that could be a public name of ours."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count(" | ") == 1]
    return {name for row in rows for name in re.findall(r"`([\w.]+)", row.split(" | ")[1])}


def test_the_tables_name_what_is_there():
    found = names()
    assert {"add_pattern_rule", "rules.DFPattern", "Backend.cost", "graph_search_trials"} <= found
    for name in found - NO_NAMES - OPTIONS:
        if name.startswith("relay.collage."):
            assert name.removeprefix("relay.collage.") in OPTIONS, name
            continue
        first, _, rest = name.removeprefix("collage.").partition(".")
        places = [p for p in (collage, rules, backends, collage.Backend) if hasattr(p, first)]
        places += [rules] if name == "rules" else []
        assert places, name
        assert not rest or hasattr(getattr(places[0], first), rest), name
