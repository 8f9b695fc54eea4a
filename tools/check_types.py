# SPDX-License-Identifier: Apache-2.0
"""Check the types of the whole Python package with mypy; part of `make lint`.

Settings stand in pyproject.toml ([tool.mypy]). mypy gets the package inside a TVM of which
nothing is known: TVM has no types, and reading its sources would only take time.
`check_types.py TREE` checks another copy of the tree. Test: tools/test_check_types.py.
"""

import os
import subprocess
import sys
from pathlib import Path

SOURCES = "tvm/python"
PACKAGE = "tvm/relay/collage"
UNKNOWN = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"


def lay_out(tree: Path, folder: Path) -> None:
    """Put the tree's package into the folder, inside stubs of tvm and tvm.relay."""
    for name in ("tvm", "tvm/relay"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.pyi").write_text(UNKNOWN)
    link = folder / PACKAGE
    link.unlink(missing_ok=True)
    link.symlink_to(tree / SOURCES / PACKAGE)


def check(tree: Path) -> int:
    """mypy's exit status; it prints what is wrong, by the paths of the tree."""
    folder = tree / "build" / "types"  # and not a temporary one, by which mypy's cache goes
    lay_out(tree, folder)
    command = [sys.executable, "-m", "mypy", "-p", "tvm.relay.collage"]
    command += ["-p", "tvm_collage", "-m", "tvm_collage_hook"]
    path = os.pathsep.join(map(str, (folder, tree / SOURCES)))
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, "MYPYPATH": path}, text=True, stdout=subprocess.PIPE
    )
    print(done.stdout.replace(str(folder.relative_to(tree)), SOURCES), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(check(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
