# SPDX-License-Identifier: Apache-2.0
"""Check that imports of the Python package point down its floors; part of `make lint`.

The floors stand in pyproject.toml ([tool.importlinter]), and imports inside functions count too.
`check_imports.py TREE` checks another copy of the tree. Test: tools/test_check_imports.py.
"""

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


if __name__ == "__main__":
    open_package(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    os.environ.setdefault("TERM", "dumb")
    from importlinter.cli import lint_imports

    sys.exit(lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True))
