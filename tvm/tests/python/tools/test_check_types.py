# SPDX-License-Identifier: Apache-2.0
"""The lint of types: it reads the package inside TVM, and fails for a function without types."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

SOURCES = Path("tvm", "python")
PACKAGE = SOURCES / "tvm" / "relay" / "collage"
SOUND = """import tvm
from tvm import relay


def module(body: relay.Expr) -> tvm.IRModule:
    return tvm.IRModule.from_expr(body)
"""
WRONG = {
    "def bare(x):\n    return x\n": "Function is missing a type annotation",
    "def half(x, y: int) -> int:\n    return x + y\n": "missing a type annotation for one",
    "def length(text: str) -> str:\n    return len(text)\n": "Incompatible return value type",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A small tree with a package of one file."""
    tree = tmp_path_factory.mktemp("types")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / PACKAGE).mkdir(parents=True)
    (tree / SOURCES / "tvm_collage").mkdir()
    for file in (PACKAGE / "__init__.py", SOURCES / "tvm_collage" / "__init__.py"):
        (tree / file).write_text("")
    (tree / SOURCES / "tvm_collage_hook.py").write_text("")
    return tree


def check_types(tree, text):
    (tree / PACKAGE / "one.py").write_text(text)
    command = [sys.executable, ROOT / "tools" / "check_types.py", tree]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_package_with_types_is_sound(tree):
    done = check_types(tree, SOUND)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text, problem", WRONG.items(), ids=["bare", "half", "length"])
def test_what_is_wrong_is_told_with_its_place(tree, text, problem):
    done = check_types(tree, SOUND + "\n\n" + text)
    assert done.returncode == 1
    assert f"{PACKAGE / 'one.py'}:8: error: {problem}" in done.stdout or problem in done.stdout
