# SPDX-License-Identifier: Apache-2.0
"""The shell blocks of README.md and of docs/ run as they stand, and so does the C++ block.

Those of IN_ORDER run line by line, page after page, on a small net that has the name of the pages'
model. A block that cannot run has a line `<!-- not run: why -->` above it, and a single line that
cannot stands in NOT_RUN. That the tool takes each command of any page: test_commands.py.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from models.graph import Graph
from pages import PAGES, blocks, blocks_that_run
from tree import child_environment
from tvm.driver.tvmc.main import _main
from tvm.relay.collage import rules
from tvm_collage.cli import main

# What a page writes the next ones find: the quick start goes into a folder, and all stay there.
NAMES = ("quickstart", "tools", "report", "tvmc", "store")
IN_ORDER = ("README.md", *(f"docs/{name}.md" for name in NAMES))
# By how a line begins.
NOT_RUN = {
    "make build": "it takes packages from a network and compiles the libraries, as CI did before",
}
SCRIPTS = Path(sys.executable).parent
# Two pages copy a model, and name its file in the environment and so in a package.
MODEL = re.compile(r"\.venv/lib/python3\.11/site-packages/((\w+)/\S+\.onnx)")
PROGRAMS = {"collage": main, "tvmc": _main}
# One backend and few rounds are enough where nobody asks for figures.
QUICK = ("measure-seconds=0.01", "workers=1", "guard-rounds=3", "guard-seconds=0.1")
SEARCH = ["--backends=dnnl", *(f"--{option}" for option in QUICK)]
# More arguments of a command. The report has the name that docs/report.md gives it.
# A search that ends before it asks for a cost leaves none in the store, which the pages ask.
MORE = {
    "collage compile": [*SEARCH, "--report=net.json", "--effort=exhaustive"],
    "collage bench": [*SEARCH, "--rounds=3"],
    "tvmc compile": ["--target=dnnl", *(f"--collage-{option}" for option in QUICK)],
}
# docs/store.md makes up how a hash begins: with nothing all of them do.
MADE_UP = {"3f2a": ""}


def lines():
    """(where it is, the line) of all that is run."""
    for page in IN_ORDER:
        for block in blocks_that_run(page, "bash"):
            for number, line in enumerate(block.code.splitlines(), block.line + 1):
                if shlex.split(line, comments=True) and not line.startswith(tuple(NOT_RUN)):
                    yield f"{page}:{number}", line


def exit_code(line):
    """Of a tool, which is called in this process and may return None as 0. Else bash runs the line,
    and its folder is the next line's."""
    program, *words = shlex.split(line, comments=True)
    if program in PROGRAMS:
        words = [MADE_UP.get(word, word) for word in words]
        return PROGRAMS[program]([*words, *MORE.get(f"{program} {words[0]}", ())]) or 0
    os.chdir(subprocess.check_output(["bash", "-ec", f"{line}\npwd"], text=True).strip())
    return 0


def write_model(path):
    """A small net with the input that the pages name, more than twelve nodes, and a softmax."""
    graph = Graph("small")
    x = graph.relu(graph.conv(graph.input("x", (1, 3, 48, 192)), 8, 3, stride=16))
    x = graph.op("Tanh", graph.op("Sigmoid", graph.pool("Max", x, 2, 2)))
    onnx.save(graph.model(graph.op("Softmax", x, axis=1)), path)


def shipped_model():
    """The match of the file that the pages copy."""
    found = {match[0]: match for _, line in lines() if (match := MODEL.search(line))}
    ((_, match),) = found.items()
    return match


@pytest.fixture
def checkout(tmp_path):
    """What is in a checkout's folder after `make build`, for the pages' commands."""
    shipped = tmp_path / shipped_model()[0]
    shipped.parent.mkdir(parents=True)
    (tmp_path / ".venv/bin").symlink_to(SCRIPTS)
    write_model(shipped)
    write_model(tmp_path / "model.onnx")
    return tmp_path


@pytest.mark.slow("two dozen commands, of which five build a net")
def test_the_commands_of_the_pages_run(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("COLLAGE_STORE", str(checkout / "store.db"))
    for where, line in lines():
        # `doctor` ends with 1 where it finds the machine busy, as it may be beside other tests.
        fine = (0, 1) if line.startswith("collage doctor") else (0,)
        assert exit_code(line) in fine, f"{where}: {line}"
    written = {path.name for path in (checkout / "build/quickstart").iterdir()}
    assert written > {"model.so", "net.svg", "net.pdf", "tvm.svg", "all.svg", "net.trace.json"}


def test_the_plugin_of_the_page_is_compiled_and_loaded(tmp_path):
    (source,) = blocks_that_run("docs/rules.md", "cpp")
    (command,) = blocks_that_run("docs/rules.md", "bash")
    (tmp_path / "mine.cc").write_text(source.code, encoding="utf-8")
    env = child_environment(PATH=f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(["bash", "-ec", command.code], cwd=tmp_path, env=env, check=True, timeout=240)
    rules.load_plugin(tmp_path / "mine.so")
    assert rules.registered_rule("mine").summary() == "Primitive(OpCallByKind())"


def test_the_model_that_the_pages_copy_comes_with_the_environment():
    _, path, package = shipped_model().group(0, 1, 2)
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"needs {package}")
    assert (Path(found.origin).parents[1] / path).is_file()


def test_each_block_of_commands_is_run_or_says_why():
    run = [page for page in PAGES if blocks_that_run(page, "bash", "cpp")]
    assert set(run) == {*IN_ORDER, "docs/rules.md"}
    languages = {block.language for page in PAGES for block in blocks(page)}
    assert languages == {"python", "bash", "cpp", ""}
    printed = "".join(block.code for page in PAGES for block in blocks(page, ""))
    assert not re.findall(r"^(?:collage|make|python|pip|tvmc|g\+\+) .*", printed, re.M)
    commands = "".join(block.code for page in run for block in blocks_that_run(page, "bash"))
    assert all(f"\n{line}" in f"\n{commands}" for line in NOT_RUN)
