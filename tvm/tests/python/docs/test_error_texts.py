# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md quotes messages as the source has them."""

import ast
import re

import pytest
from tree import ROOT

PAGE = "docs/troubleshooting.md"
HEAD = "| message |"
GAP = "\x00"  # in a message: what is put in at run time


def quoted(text):
    """The messages of all tables that begin with HEAD, with "..." where something differs."""
    found, in_table = [], False
    for line in text.splitlines():
        in_table = line.startswith(HEAD) or (in_table and line.startswith("|"))
        if in_table and not line.startswith((HEAD, "|---")):
            cell = line.split(" | ")[0].removeprefix("| ")
            assert cell.startswith("`") and cell.endswith("`"), line
            found.append(cell[1:-1])
    return found


def text_of(node):
    """A string expression with GAP in place of what is no constant; "" for other nodes."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or GAP for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(part) for part in (node.left, node.right)]
        return "".join(part or GAP for part in parts) if any(parts) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option":
        name, *written = map(text_of, node.args)
        return written[0] if written else f"option relay.collage.{name}"
    return ""


def messages():
    """Every text that the source can print, a line each."""
    for file in sorted((ROOT / "tvm/python").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if text := text_of(node):
                # logging's places
                yield re.sub(r"%(\.\d+)?[sdrfg]", GAP, text).replace("%%", "%")
    literal = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
    for pattern in ("tvm/src/**/*.cc", "tvm/src/**/*.h", "tvm/cmake/*", "tvm/CMakeLists.txt"):
        for file in ROOT.glob(pattern):
            # Neighbours on one or several lines are one text.
            text = re.sub(r'"\s+"', "", file.read_text())
            text = re.sub(r'"\s*(?:\+|<<)[^"\n;]*(?:\+|<<)\s*"', GAP, text)
            yield from (re.sub(r"\$\{\w+\}", GAP, part) for part in literal.findall(text))
    for file in (ROOT / "tools").glob("*.sh"):
        yield from (re.sub(r"\$\w+", GAP, part) for part in literal.findall(file.read_text()))


@pytest.fixture(scope="module")
def source():
    return "\n".join(text.replace("\n", " ") for text in messages())


def is_in(message, source):
    pieces = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
    return re.search("[^\n]*?".join(pieces), source) is not None


@pytest.mark.parametrize("message", quoted((ROOT / PAGE).read_text()))
def test_a_quoted_message_is_one_that_the_source_has(message, source):
    assert len(re.sub(r"\W", "", message)) > 12, "too short to be found by"
    assert is_in(message, source)


@pytest.mark.parametrize(
    "message", ["backend ... is not at home", "TVM cannot import the ONNX node ...: never"]
)
def test_one_that_the_source_has_not_is_found_out(message, source):
    assert not is_in(message, source)


def test_there_are_messages_to_look_for():
    assert len(quoted((ROOT / PAGE).read_text())) > 50
