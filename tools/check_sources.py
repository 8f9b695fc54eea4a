# SPDX-License-Identifier: Apache-2.0
"""Check what every source file of the tree must have; part of `make lint`.
Test: tools/test_install.py.

Each file starts with the license line, has at most 600 lines and no trailing blanks; the tests
that it names are there. C++ has one dialect: a header of `//` lines, which names the test, and
nested namespaces in one line.
"""

import itertools
import re
import subprocess
import sys
from pathlib import Path

LICENSE_LINE = "SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 600
# A path of a test, or of a folder of them from the tree's root.
TEST = re.compile(r"[\w/]*\btest_\w+\.py|[\w/]+_test\.cc|\btvm/tests/python/[\w/]+")
# Where the paths of tests begin.
TEST_FOLDERS = [
    Path(p) for p in ("tvm/tests/python/collage", "tvm/tests/python", "tvm/tests/cpp", "tvm", ".")
]
CPP = (".cc", ".h")
DOXYGEN = re.compile(r"/\*[!*]|///|\\(?:file|brief|param|return)\b")
NESTED_NAMESPACE = re.compile(r"^namespace [\w:]+ \{\nnamespace \w", re.MULTILINE)
COMMENT_STARTS = {".py": "# ", ".sh": "# ", ".cmake": "# ", ".cc": "// ", ".h": "// ", ".js": "// "}


def problems(path: Path) -> list[str]:
    """Return what is wrong with a source file, one line each."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    first = next((line for line in lines if not line.startswith("#!")), "")
    if first != COMMENT_STARTS[path.suffix] + LICENSE_LINE:
        found.append(f"{path}:1: first line must be '{COMMENT_STARTS[path.suffix]}{LICENSE_LINE}'")
    if len(lines) > MAX_LINES:
        found.append(f"{path}: {len(lines)} lines, at most {MAX_LINES}: split it by concept")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            found.append(f"{path}:{number}: trailing blank")
    return found


def dialect_problems(path: Path) -> list[str]:
    """Return what is foreign to the dialect of our C++ in a source file, one line each."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = [
        f"{path}:{number}: a comment is lines of //, without commands"
        for number, line in enumerate(lines, 1)
        if DOXYGEN.search(line)
    ]
    for nested in NESTED_NAMESPACE.finditer(text):
        number = text.count("\n", 0, nested.end()) + 1
        found.append(f"{path}:{number}: write nested namespaces in one line: namespace a::b {{")
    header = "\n".join(itertools.takewhile(lambda line: line.startswith("//"), lines[1:]))
    if path.suffix == ".cc" and path.with_suffix(".h").is_file():
        return found  # its header has the header of both
    if not header:
        found.append(f"{path}:2: a header of // lines must say what the file is")
    elif "src" in path.parts and "Test:" not in header:
        found.append(f"{path}:2: its header must name its test: // Test: <file>")
    return found


def lost_tests(path: Path) -> list[str]:
    """Return the tests that a source file names and that are nowhere, one line each."""
    return [
        f"{path}: there is no {test}"
        for test in TEST.findall(path.read_text(encoding="utf-8"))
        if not any((folder / test).exists() for folder in TEST_FOLDERS)
    ]


def source_files() -> list[Path]:
    """Return the tree's source files: those of git, tracked or new, that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listing.splitlines()]
    return [path for path in paths if path.suffix in COMMENT_STARTS and path.is_file()]


if __name__ == "__main__":
    found = []
    for path in source_files():
        found += problems(path)
        if path.suffix in CPP:
            found += dialect_problems(path)
        if not path.is_relative_to("tvm/tests"):
            found += lost_tests(path)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    sys.exit(1 if found else 0)
