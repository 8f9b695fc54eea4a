# SPDX-License-Identifier: Apache-2.0
"""The floors of the Python package: imports point down, and the lint sees one that does not."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tree import ROOT

PACKAGE = Path("tvm", "python", "tvm", "relay", "collage")
UPWARD = "\n\ndef late():\n    from ..optimizer import optimize\n\n    return optimize\n"


def check_imports(tree: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "tools" / "check_imports.py", tree]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path):
    """A copy of the package, to be spoilt."""
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE)
    return tmp_path


def test_imports_of_the_package_point_down():
    done = check_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_an_import_that_points_up_is_found_inside_a_function_too(tree):
    with open(tree / PACKAGE / "costs" / "cost.py", "a", encoding="utf-8") as file:
        file.write(UPWARD)
    done = check_imports(tree)
    assert done.returncode == 1
    assert "tvm.relay.collage.costs.cost -> tvm.relay.collage.optimizer" in done.stdout


def test_a_circle_inside_a_folder_is_found(tree):
    with open(tree / PACKAGE / "rules" / "predicates.py", "a", encoding="utf-8") as file:
        file.write("\n\ndef late():\n    from . import rule\n\n    return rule\n")
    done = check_imports(tree)
    assert done.returncode == 1
    assert "No circle, inside a folder either BROKEN" in done.stdout


@pytest.mark.parametrize(
    "line, found",
    [
        ("import tvm.nd", "exec/reply.py:3: imports TVM"),
        ("from tvm import relay", "exec/reply.py:3: imports TVM"),
        ("from ..machine import environment", "Worker processes are no matter of TVM BROKEN"),
    ],
)
def test_an_import_of_tvm_by_a_worker_is_found(tree, line, found):
    reply = tree / PACKAGE / "exec" / "reply.py"
    reply.write_text(f"def late():\n    # Needs it.\n    {line}\n")
    done = check_imports(tree)
    assert done.returncode == 1
    assert found in done.stdout + done.stderr


def floors():
    """The number of each unit's floor, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    rows = [re.findall(r"\w+", row) for row in contract["layers"]]
    return {unit: number for number, row in enumerate(rows) for unit in row}


def test_a_text_that_names_a_function_points_down_as_well():
    floor, found = floors(), []
    for file in (ROOT / PACKAGE).rglob("*.py"):
        unit = file.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            named = isinstance(text, str) and re.match(r"tvm\.relay\.collage\.(\w+)[\w.]*:\w", text)
            if named and unit != "__init__":
                found.append((unit, named[1]))
    assert ("measure", "compile") in found
    assert [pair for pair in found if floor[pair[0]] > floor[pair[1]]] == []


def test_a_unit_without_a_floor_is_found(tree):
    (tree / PACKAGE / "novel.py").write_text("")
    done = check_imports(tree)
    assert done.returncode == 1
    assert "tvm.relay.collage.novel" in done.stdout
