# SPDX-License-Identifier: Apache-2.0
"""The check of tests (tools/check_tests.py): empty ones are named, slow ones listed."""

import check_tests
import pytest

EMPTY = """
def test_under_an_if(x):
    if x:
        assert x > 1

def test_in_a_method_that_nobody_may_call():
    class Fake:
        def call(self, x):
            assert x

    run(Fake())

def test_in_a_function_that_nobody_calls():
    def call(x):
        assert x

def test_by_a_word_in_a_name():
    Cost.failed("compile_failed")

def test_nothing():
    run()
"""

SOUND = """
def test_on_both_sides(x):
    if x:
        assert x > 1
    else:
        np.testing.assert_array_equal(x, 0)

def test_in_a_loop(xs):
    for x in xs:
        assert x

def test_until_it_was_done():
    count = 0
    while count < 3:
        if run():
            assert count < 4
            count += 1

def test_in_a_callback():
    def call(x):
        assert x

    run(call)

def test_raising():
    with pytest.raises(ValueError, match="no"):
        run()

def test_by_a_helper(folder):
    assert_that_it_runs(folder)

def helper(x):
    if x:
        assert x
"""

SLOW = """
@pytest.mark.slow("a hundred kills")
def test_kills():
    assert run(100)

@pytest.mark.parametrize(
    "net",
    [
        "dcgan",
        pytest.param("resnet50", marks=pytest.mark.slow("a minute of TVM's build")),
        pytest.param("bert", marks=pytest.mark.slow("a minute of TVM's build")),
    ],
)
def test_nets(net):
    assert run(net)
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in (("empty", EMPTY), ("sound", SOUND), ("slow", SLOW)):
        (tmp_path / f"test_{name}.py").write_text(text)
    return tmp_path


def test_tests_that_may_check_nothing_are_named(folder):
    lines = check_tests.empty_tests(folder / "test_empty.py")
    assert [line.partition("py:")[2].partition(" asserts")[0] for line in lines] == [
        "2: test_under_an_if",
        "6: test_in_a_method_that_nobody_may_call",
        "13: test_in_a_function_that_nobody_calls",
        "17: test_by_a_word_in_a_name",
        "20: test_nothing",
    ]
    assert check_tests.empty_tests(folder / "test_sound.py") == []
    assert check_tests.empty_tests(folder / "test_slow.py") == []


def test_slow_tests_are_listed_with_their_reasons(folder):
    page = f"Before.\n{check_tests.BEGIN}{check_tests.END}After.\n"
    (problem,) = [line for line in check_tests.problems(folder, page) if "docs/" in line]
    assert problem.startswith("docs/testing.md: its slow tests are not the tree's: python ")
    page = check_tests.with_table(page, folder)
    assert page == check_tests.with_table(page, folder)
    assert "| `test_slow.py`: `test_kills` | a hundred kills |\n" in page
    assert page.count("| `test_slow.py`: `test_nets, some` | a minute of TVM's build |\n") == 1
    assert page.startswith("Before.\n") and page.endswith("After.\n")
    assert not [line for line in check_tests.problems(folder, page) if "docs/" in line]


@pytest.mark.parametrize("mark", ["pytest.mark.slow", "pytest.mark.slow()"])
def test_a_slow_test_without_a_reason_is_named(folder, mark):
    (folder / "test_slow.py").write_text(f"@{mark}\ndef test_kills():\n    assert 1\n")
    page = check_tests.with_table(check_tests.BEGIN + check_tests.END, folder)
    found = [line for line in check_tests.problems(folder, page) if "test_slow" in line]
    assert found == [
        f'{folder}/test_slow.py: test_kills is slow and does not say why: @pytest.mark.slow("why")'
    ]
