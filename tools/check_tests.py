# SPDX-License-Identifier: Apache-2.0
"""Check what the Python tests must keep; part of `make lint`. Test: tools/test_check_tests.py.

A test that asserts does so whatever its parameters are, never under an `if` alone. A slow test says
why it is slow, and docs/testing.md lists each with its reason: `check_tests.py --write` writes that
table.
"""

import ast
import sys
from pathlib import Path

TESTS = Path("tvm/tests/python")
PAGE = Path("docs/testing.md")
BEGIN, END = "<!-- slow tests -->\n", "<!-- end of slow tests -->\n"
MARK = "pytest.mark.slow"
# How the names of functions that assert begin, after underscores; pytest's own are whole.
CHECKS = ("assert", "check", "expect")
PYTEST = ("pytest.raises", "pytest.warns", "pytest.fail")


def tests_of(tree: ast.Module) -> list[ast.FunctionDef]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function for function in found if function.name.startswith("test_")]


def is_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name in PYTEST or name.split(".")[-1].lstrip("_").startswith(CHECKS)
    return isinstance(node, ast.Assert)


def always_checks(body: list[ast.stmt], used: set[str]) -> bool:
    """Return whether each way through the statements meets a check.

    Loops are taken to run, and functions whose names are `used` to be called, but for methods.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            if always_checks(statement.body, used) and always_checks(statement.orelse, used):
                return True
        elif isinstance(statement, ast.FunctionDef) and statement.name not in used:
            continue
        elif isinstance(statement, ast.With | ast.For | ast.Try | ast.FunctionDef):
            heads = getattr(statement, "items", [])
            if any(is_check(node) for head in heads for node in ast.walk(head)):
                return True
            if always_checks(statement.body + getattr(statement, "finalbody", []), used):
                return True
        elif isinstance(statement, ast.ClassDef):
            continue
        elif any(is_check(node) for node in ast.walk(statement)):
            return True
    return False


def empty_tests(path: Path) -> list[str]:
    """Return the tests that have no check, or whose checks may all be passed by, a line each."""
    found = tests_of(ast.parse(path.read_text(encoding="utf-8")))
    return [
        f"{path}:{test.lineno}: {test.name} asserts nothing, or only under an `if` or in a method"
        for test in found
        if not always_checks(test.body, names_read(test))
    ]


def names_read(test: ast.FunctionDef) -> set[str]:
    names = (node for node in ast.walk(test) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def slow_tests(path: Path) -> list[tuple[str, str]]:
    """Return the name and the reason of each slow test; the reason is empty where none is given."""
    marked = []
    for test in tests_of(ast.parse(path.read_text(encoding="utf-8"))):
        for decorator in test.decorator_list:
            for node in ast.walk(decorator):
                if isinstance(node, ast.Attribute) and ast.unparse(node) == MARK:
                    is_whole = decorator is node or getattr(decorator, "func", None) is node
                    reason = _reason(decorator, node)
                    marked.append((test.name if is_whole else f"{test.name}, some", reason))
    return marked


def _reason(decorator: ast.expr, mark: ast.Attribute) -> str:
    for node in ast.walk(decorator):
        if isinstance(node, ast.Call) and node.func is mark and node.args:
            return str(ast.literal_eval(node.args[0]))
    return ""


def table(folder: Path) -> str:
    lines = ["| test | why it is slow |\n", "|---|---|\n"]
    for path in sorted(folder.rglob("test_*.py")):
        file = path.relative_to(folder)
        names: dict[str, dict[str, None]] = {}  # by reason; all slow parameters of a test are one
        for name, why in slow_tests(path):
            names.setdefault(why, {})[f"`{name}`"] = None
        lines += [f"| `{file}`: {', '.join(each)} | {why} |\n" for why, each in names.items()]
    return "".join(lines)


def problems(folder: Path, page: str) -> list[str]:
    """Return what is wrong with the tests and with the page's table, one line each."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        found += empty_tests(path)
        found += [
            f'{path}: {name} is slow and does not say why: @{MARK}("why")'
            for name, reason in slow_tests(path)
            if not reason
        ]
    if page.partition(BEGIN)[2].partition(END)[0] != table(folder):
        found.append(f"{PAGE}: its slow tests are not the tree's: python {sys.argv[0]} --write")
    return found


def with_table(page: str, folder: Path) -> str:
    head, begin, rest = page.partition(BEGIN)
    return head + begin + table(folder) + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--write" in sys.argv:
        text = with_table(PAGE.read_text(encoding="utf-8"), TESTS)
        PAGE.write_text(text, encoding="utf-8")
    found = problems(TESTS, PAGE.read_text(encoding="utf-8"))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    sys.exit(1 if found else 0)
