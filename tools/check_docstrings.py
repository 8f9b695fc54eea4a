# SPDX-License-Identifier: Apache-2.0
"""Check how docstrings begin; part of `make lint`. Test: tools/test_check_docstrings.py.

A function's begins with the verb of what it does, a class's and a module's with what it is. These
first words make a reader look for both: they are refused.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FORBIDDEN = re.compile(
    r"(All|Also|As|By|For|How|If|Like|None|Of|So|That|Those|What|When|Where|Whether|Which|Whose|Why)\b"
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FOLDERS = ("tvm/python", "tools", "bench")
PACKAGE = "tvm/python/tvm/relay/collage"
# Folders whose docstrings are still to be rewritten; none is left when issue 40 is done.
NOT_YET: tuple[str, ...] = ()


def problems(source: str, path: str) -> list[str]:
    """Return the docstrings of a source that begin with a forbidden word, one line each."""
    found = []
    for node in ast.walk(ast.parse(source)):
        is_documented = isinstance(node, DOCUMENTED)
        first = FORBIDDEN.match((ast.get_docstring(node) or "") if is_documented else "")
        if first:
            found.append((node.body[0].lineno, first[0]))
    return [
        f"{path}:{line}: a docstring begins with {first!r}: begin with the verb of what a function "
        "does, or with what a class or module is"
        for line, first in sorted(found)
    ]


def checked_files() -> list[Path]:
    """Return the Python files of FOLDERS that git has, but for those of NOT_YET."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listing.splitlines()]
    return [
        path
        for path in paths
        if path.suffix == ".py"
        and path.is_file()
        and not any(path.is_relative_to(folder) for folder in NOT_YET)
    ]


if __name__ == "__main__":
    found = [
        line
        for path in checked_files()
        for line in problems(path.read_text(encoding="utf-8"), str(path))
    ]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    sys.exit(1 if found else 0)
