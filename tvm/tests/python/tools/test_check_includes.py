# SPDX-License-Identifier: Apache-2.0
"""The layers of the C++ pass hold, and a wrong include is found (tools/check_includes.py)."""

import pytest
from check_includes import problems
from tree import ROOT


def tree(root, **files):
    """Write a file for each folder__name__suffix, with these includes."""
    for name, lines in files.items():
        folder, stem, suffix = name.split("__")
        path = root / folder / f"{stem}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"#include {line}\n" for line in lines.split()))
    return root


def test_the_pass_keeps_its_layers():
    assert problems(ROOT / "tvm/src/relay/collage") == []


def test_where_there_is_nothing_to_look_at_something_is_wrong(tmp_path):
    (problem,) = problems(tmp_path)
    assert problem.startswith(f"{tmp_path}: no #include below it")


def test_arrows_that_point_down_are_allowed(tmp_path):
    root = tree(
        tmp_path,
        graph__node__h="<vector>",
        rules__rule__cc='"../graph/node.h"',
        relay__import__cc='"../graph/node.h" <tvm/runtime/registry.h>',
    )
    assert problems(root) == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"search__cover__cc": '"../graph/node.h"'}, "search/ must not include graph/node.h"),
        ({"plan__plan__h": '"../relay/import.h"'}, "plan/ must not include relay/import.h"),
        ({"graph__node__cc": "<tvm/runtime/object.h>"}, "graph/ must not include TVM's"),
        ({"graph__node__cc": " <tvm/runtime/object.h>"}, "graph/ must not include TVM's"),
        ({"graph__node__cc": "<dmlc/logging.h>"}, "graph/ must not include TVM's dmlc/logging.h"),
    ],
)
def test_a_wrong_arrow_is_named_with_its_line(tmp_path, files, fault):
    (found,) = problems(tree(tmp_path, **files))
    assert fault in found and ":1: " in found


def test_a_circle_of_units_is_shown_once(tmp_path):
    root = tree(
        tmp_path,
        api__a__h="<string>",
        api__a__cc='"a.h" "b.h"',
        api__b__h='"c.h"',
        api__c__cc='"c.h" "a.h"',
    )
    assert problems(root) == ["circle: api/a -> api/b -> api/c -> api/a"]
