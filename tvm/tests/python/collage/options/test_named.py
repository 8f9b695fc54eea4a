# SPDX-License-Identifier: Apache-2.0
"""Texts that know which options they name."""

import ast
import pickle
import re
from pathlib import Path

import pytest
from tvm.relay import collage
from tvm.relay.collage.options import option_table
from tvm.relay.collage.options.named import OptionName, OptionText, joined, option

LOG = option("tuning_log", "the option tuning_log=['a']", value="a")


def flagged(text):
    return text.with_options(lambda each: f"--{each.name}:{each.value}")


def test_a_text_is_as_it_is_written_and_its_options_may_be_called_otherwise():
    text = "file 'option relay.collage.store': set " + option("store") + " or " + LOG
    written = "set option relay.collage.store or the option tuning_log=['a']"
    assert text == f"file 'option relay.collage.store': {written}" == str(text)
    assert flagged(text) == "file 'option relay.collage.store': set --store: or --tuning_log:a"
    assert text.with_options(lambda each: each.written) == text
    assert OptionName("tuning_log", "the option tuning_log=['a']", "a") in text.pieces


def test_texts_are_added_and_joined_from_both_sides():
    assert flagged(LOG + " and " + LOG) == "--tuning_log:a and --tuning_log:a"
    assert flagged(joined("; ", ["one", LOG, "x" + LOG])) == "one; --tuning_log:a; x--tuning_log:a"
    assert joined("; ", []) == "" and flagged(OptionText()) == ""
    grown = "set "
    grown += LOG
    assert flagged(grown) == "set --tuning_log:a"


def test_it_goes_to_other_processes_as_it_is():
    again = pickle.loads(pickle.dumps("set " + LOG))
    assert again == "set " + LOG and again.pieces == ("set ", *LOG.pieces)


def raised_texts(source):
    """The texts in what is raised, with their lines, but for those of option()."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            inside = list(ast.walk(node))
            calls = [each for each in inside if isinstance(each, ast.Call)]
            named = {
                id(inner)
                for call in calls
                if isinstance(call.func, ast.Name) and call.func.id == "option"
                for inner in ast.walk(call)
            }
            for each in inside:
                is_text = isinstance(each, ast.Constant) and isinstance(each.value, str)
                if is_text and id(each) not in named:
                    yield each.lineno, each.value


def test_what_is_raised_names_options_as_data():
    names = "|".join(row.name for row in option_table())
    plain = re.compile(rf"(\brelay\.collage\.|\boption )({names})\b(?!\.)")

    def wrong(texts):
        return [line for line, text in texts if plain.search(text)]

    split = "x = 1\nif x:\n  raise E('set option '\n'store' + option('option guard'))"
    assert wrong(raised_texts(split)) == [3]
    files = sorted(Path(collage.__file__).parent.rglob("*.py"))
    texts = {file: list(raised_texts(file.read_text())) for file in files}
    assert sum(map(len, texts.values())) > 300
    assert {file: lines for file in files if (lines := wrong(texts[file]))} == {}


@pytest.mark.parametrize("name", ["store", "guard"])
def test_an_option_is_called_by_its_whole_name_unless_said_otherwise(name):
    assert option(name) == f"option relay.collage.{name}"
    assert option(name, f"the option {name}") == f"the option {name}"


def test_no_formatted_string_holds_an_options_name():
    """It would be a plain string, which the command cannot show as its flag."""
    found = []
    for path in Path(collage.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
                if any(isinstance(each, ast.Name) and each.id == "option" for each in calls):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
