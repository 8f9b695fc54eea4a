# SPDX-License-Identifier: Apache-2.0
"""Check the layers of the C++ pass by its #include lines; part of `make lint`.

An arrow points down the table, never up, and units (a header with its source) form no circle.
Test: tools/test_check_includes.py.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("tvm/src/relay/collage")
# Each folder with the folders that it may include, and whether it may include TVM.
LAYERS = {
    "graph": ("", False),
    "match": ("graph", False),
    "rules": ("graph match", False),
    "search": ("", False),
    "plan": ("graph match rules search", False),
    "relay": ("graph match plan", True),
    "api": ("graph match plan relay rules search", True),
    ".": ("api graph plan relay rules", True),
}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
TVM_HEADERS = ("tvm/", "dmlc/", "dlpack/")

Include = tuple[Path, int, str, bool]  # by whom, in which line, what, is it our own


def includes(root: Path) -> Iterator[Include]:
    """Yield each #include line below root; ours by their path from root."""
    for path in sorted(root.rglob("*.h")) + sorted(root.rglob("*.cc")):
        here = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := INCLUDE.match(line):
                is_own = found[1] == '"'
                target = (path.parent / found[2]).resolve() if is_own else None
                name = target.relative_to(root.resolve()).as_posix() if target else found[2]
                yield here, number, name, is_own


def wrong_arrows(found: list[Include], root: Path) -> list[str]:
    """Return the includes that LAYERS does not allow, one line each."""
    problems = []
    for path, number, name, is_own in found:
        folder = path.parent.as_posix()
        allowed, may_use_tvm = LAYERS[folder]
        other = Path(name).parent.as_posix()
        if is_own and other != folder and other not in allowed.split():
            problems.append(f"{root / path}:{number}: {folder}/ must not include {name}")
        if not is_own and not may_use_tvm and name.startswith(TVM_HEADERS):
            problems.append(f"{root / path}:{number}: {folder}/ must not include TVM's {name}")
    return problems


def circles(found: list[Include]) -> list[str]:
    """Return each circle of units once, as "a -> b -> a"."""
    uses: dict[str, set[str]] = {}
    for path, _, name, is_own in found:
        one, other = path.with_suffix("").as_posix(), Path(name).with_suffix("").as_posix()
        if is_own and one != other:
            uses.setdefault(one, set()).add(other)
    problems: list[str] = []
    done: set[str] = set()

    def visit(unit: str, road: list[str]) -> None:
        if unit in road:
            problems.append("circle: " + " -> ".join([*road[road.index(unit) :], unit]))
        elif unit not in done:
            for other in sorted(uses.get(unit, ())):
                visit(other, [*road, unit])
            done.add(unit)

    for unit in sorted(uses):
        visit(unit, [])
    return problems


def problems(root: Path) -> list[str]:
    """Return what is wrong with the includes below root, one line each."""
    found = list(includes(root))
    if not found:
        return [f"{root}: no #include below it: check_includes.py looks at nothing"]
    return wrong_arrows(found, root) + circles(found)


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("\n".join(lines), end="\n" if lines else "", file=sys.stderr)
    sys.exit(1 if lines else 0)
