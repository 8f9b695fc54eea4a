# SPDX-License-Identifier: Apache-2.0
"""What the check of the page's scripts finds."""

import pytest
from check_scripts import PAGE, check
from tree import ROOT

GOOD = '// SPDX-License-Identifier: Apache-2.0\nconsole.log("it");\n'


def test_the_scripts_of_the_tree_are_clean():
    assert check(ROOT / PAGE) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("console.log( 'it' )\n", "Format issues"),
        ("nobody();\n", "'nobody' is not defined"),
        ("const unused = 1;\n", "unused"),
    ],
)
def test_faults_are_found(text, message, tmp_path, capsys):
    (tmp_path / "page.html").write_text("/* one.js */")
    (tmp_path / "one.js").write_text(GOOD + text)
    assert check(tmp_path / "page.html") != 0
    assert message in capsys.readouterr().err


def test_scripts_know_each_other_and_none_is_forgotten(tmp_path, capsys):
    (tmp_path / "page.html").write_text("/* one.js */ /* two.js */")
    (tmp_path / "one.js").write_text("function tell() {\n  return DATA;\n}\n")
    (tmp_path / "two.js").write_text("document.title = tell();\n")
    assert check(tmp_path / "page.html") == 0
    (tmp_path / "page.html").write_text("/* one.js */")
    assert check(tmp_path / "page.html") == 1
    assert "does not name ['two.js']" in capsys.readouterr().err
