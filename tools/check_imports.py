# SPDX-License-Identifier: Apache-2.0
"""Check that imports of the Python package point down its floors; part of `make lint`.

The floors stand in pyproject.toml ([tool.importlinter]), and imports inside functions count too.
That exec/ imports no TVM is looked up here besides: import-linter knows no part of a package that
it does not check.
`check_imports.py TREE` checks another copy of the tree. Test: tools/test_check_imports.py.
"""

import ast
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path


def open_package(tree: Path) -> None:
    """Make tvm.relay.collage of the tree what an import would find, without importing TVM."""
    # Our import finder would have TVM itself imported first.
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "CollageFinder"]
    folder = tree / "tvm" / "python"
    for name in ("tvm", "tvm.relay"):
        folder = folder / name.rpartition(".")[2]
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[name] = module_from_spec(spec)


def imports_of_tvm(folder: Path) -> list[str]:
    """Return the lines below a folder that import TVM by its name."""
    return [
        f"{file}:{node.lineno}: imports TVM"
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and "tvm" in _packages(node)
    ]


def _packages(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the packages that a line imports from; none where that is relative."""
    if isinstance(node, ast.Import):
        return [each.name.partition(".")[0] for each in node.names]
    return [] if node.level else [str(node.module).partition(".")[0]]


if __name__ == "__main__":
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    if found := imports_of_tvm(tree / "tvm/python/tvm/relay/collage/exec"):
        sys.exit("\n".join(found))
    open_package(tree)
    os.environ.setdefault("TERM", "dumb")
    from importlinter.cli import lint_imports

    sys.exit(lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True))
