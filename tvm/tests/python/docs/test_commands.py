# SPDX-License-Identifier: Apache-2.0
"""Commands that README.md and the pages name are there: `make` targets, scripts and their options,
`collage` with its arguments. None of them is run here."""

import re
import shlex

import pytest
from tree import ROOT
from tvm.relay.collage.cli import make_parser

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md"))]
RULES = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.M)
TARGETS = {target for rule in RULES for target in rule.split()}
BEGIN = r"(make|python|collage) "
INLINE = re.compile(f"`{BEGIN}([^`\n]*)`")


def commands(page):
    """(program, rest of the line without a remark) of all commands of a page: lines of its blocks,
    and what stands between `` in a sentence."""
    is_block = False
    for line in (ROOT / page).read_text().splitlines():
        is_block ^= line.startswith("```")
        if is_block or line.startswith("    "):
            found = [re.match(BEGIN + "(.*)", line.strip())]
        else:
            found = INLINE.finditer(line)
        yield from ((m[1], re.sub(r"\s+#.*", "", m[2]).strip()) for m in found if m)


def complaint(program, rest):
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
    known = subcommands(make_parser())
    first = words[0] if words else ""
    if first.startswith("-") or first.isupper():
        return ""
    if first not in known:
        return f"no command {first}"
    actions = subcommands(known[first])
    second = words[1] if len(words) > 1 else ""
    is_action = actions and re.fullmatch("[a-z]+", second)
    return f"no action {second}" if is_action and second not in actions else ""


def has_option(code, word):
    """Whether it is named as such, or as a row of bench/harness/arguments.py."""
    shared = word.removeprefix("--").replace("-", "_")
    return f'"{word}"' in code or f'"{shared}": {{' in code


def subcommands(parser):
    return next(
        (dict(action.choices) for action in parser._actions if hasattr(action, "add_parser")), {}
    )


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))])
def test_what_a_page_names_is_there(page):
    wrong = [f"{p} {rest}: {why}" for p, rest in commands(page) if (why := complaint(p, rest))]
    assert not wrong


@pytest.mark.parametrize(
    ("program", "rest", "why"),
    [
        ("make", "everything", "no target everything"),
        ("make", 'test-python ARGS="-k hook"', ""),
        ("python", "bench/none.py", "no script bench/none.py"),
        ("python", "bench/zoo.py --drawn 7", "no option --drawn"),
        ("python", "bench/zoo.py --draw 7", ""),
        ("python", "bench/zoo.py --write-docs", ""),
        ("make", "demo-customization", ""),
        ("collage", "dance", "no command dance"),
        ("collage", "store dance", "no action dance"),
        ("collage", "store list 3f2a --json", ""),
    ],
)
def test_what_is_not_there_is_found_out(program, rest, why):
    assert complaint(program, rest) == why
