# SPDX-License-Identifier: Apache-2.0
"""Commands that README.md and the pages name are there: `make` targets, scripts and their options,
`collage` with its arguments. None of them is run here; test_shell_blocks.py runs some."""

import contextlib
import functools
import io
import re
import shlex

import pytest
from pages import PAGES, text_of
from tree import ROOT
from tvm_collage.cli import make_parser

RULES = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.M)
TARGETS = {target for rule in RULES for target in rule.split()}
BEGIN = r"(make|python|collage) "
INLINE = re.compile(f"`{BEGIN}([^`\n]*)`")
# What a sentence may leave out of a command that it names, in the words of the tool's parser.
LEFT_OUT = re.compile("the following arguments are required|expected (one|at least one) argument")


def commands(page):
    """(program, rest of the line without a remark, whether it is a whole line) of all commands of a
    page: lines of its blocks, and what stands between `` in a sentence."""
    is_block = False
    for line in text_of(page).splitlines():
        is_block ^= line.startswith("```")
        is_line = is_block or line.startswith("    ")
        found = [re.match(BEGIN + "(.*)", line.strip())] if is_line else INLINE.finditer(line)
        yield from ((m[1], re.sub(r"\s+#.*", "", m[2]).strip(), is_line) for m in found if m)


def complaint(program, rest, is_line=True):
    """What is wrong with a command; "" where nothing is."""
    # What stands for something else in prose: [--option X], <checkout>, FILE ..., A|B.
    rest = re.sub(r"\[[^\]]*\]|<[^>]*>|\.\.\.", "", rest)
    words = shlex.split(rest) if rest.count('"') % 2 == rest.count("'") % 2 == 0 else rest.split()
    if program == "make":
        names = [word for word in words if "=" not in word and not word.startswith("-")]
        if words[:1] == ["-C"]:
            return "" if (ROOT / words[1] / "Makefile").is_file() else f"no folder {words[1]}"
        return "".join(f"no target {name}" for name in names if name not in TARGETS)
    if program == "python":
        script = next((word for word in words if word.endswith(".py")), None)
        if script is None or not script.startswith(("bench/", "demos/", "tools/", "docs/")):
            return ""
        if not (ROOT / script).is_file():
            return f"no script {script}"
        folder = (ROOT / script).parent
        code = "".join(file.read_text() for file in [ROOT / script, *folder.glob("**/*.py")])
        options = [word.split("=")[0] for word in words if word.startswith("--")]
        return "".join(f"no option {word}" for word in options if not has_option(code, word))
    return complaint_of_collage(words, is_line)


def complaint_of_collage(words, is_line):
    """The tool's own, of a whole line; a sentence may leave out what the command needs."""
    if not is_line and words[-1:] in (["COMMAND"], ["ACTION"]):
        del words[-1]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        parser().parse_args(words)
    is_short = not is_line and LEFT_OUT.search(said.getvalue())
    return "" if is_short else said.getvalue().strip()


# To make it takes longer than to parse with it.
parser = functools.cache(make_parser)


def has_option(code, word):
    """Whether it is named as such, or as a row of bench/harness/arguments.py."""
    shared = word.removeprefix("--").replace("-", "_")
    return f'"{word}"' in code or f'"{shared}": {{' in code


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))])
def test_what_a_page_names_is_there(page):
    wrong = [(*command, why) for command in commands(page) if (why := complaint(*command))]
    assert not wrong


@pytest.mark.parametrize(
    ("program", "rest", "why"),  # the beginning of what is said
    [
        ("make", "everything", "no target everything"),
        ("make", 'test-python ARGS="-k hook"', ""),
        ("python", "bench/none.py", "no script bench/none.py"),
        ("python", "bench/zoo.py --drawn 7", "no option --drawn"),
        ("python", "bench/zoo.py --draw 7", ""),
        ("python", "bench/zoo.py --keep", ""),
        ("make", "demo-customization", ""),
        ("collage", "dance", "collage: error: argument COMMAND: invalid choice: 'dance'"),
        ("collage", "store dance", "collage store: error: argument ACTION: invalid choice"),
        ("collage", "store list 3f2a --json", ""),
        ("collage", "run model.so --tine", "collage run: error: unrecognized option --tine"),
        ("collage", "compile model.onnx", "collage compile: error: the following arguments are"),
    ],
)
def test_what_is_not_there_is_found_out(program, rest, why):
    found = complaint(program, rest)
    assert found.startswith(why) and bool(found) == bool(why)


@pytest.mark.parametrize(
    ("rest", "is_short"),
    [
        ("compile", True),
        ("compile --save-placement", True),
        ("store ACTION", True),
        ("compile --save-place-mint", False),
        ("COMMANDS", False),
    ],
)
def test_a_sentence_may_name_a_part_of_a_command(rest, is_short):
    assert complaint("collage", rest)
    assert (complaint("collage", rest, is_line=False) == "") == is_short
