# SPDX-License-Identifier: Apache-2.0
"""The check of docstrings (tools/check_docstrings.py): forbidden first words are named."""

from pathlib import Path

import check_docstrings
import pytest

WRONG = """
'''What the module has.'''

class Row:
    '''Of a table.'''

    async def read(self):
        '''Whether it was read.'''

def outer():
    def inner():
        '''   As outer.'''
"""

RIGHT = """
'''Rows of tables.'''

class Row:
    '''A row of a table, which what reads it asks for.'''

    def is_read(self):
        '''Return whether it was read.'''

def asked():
    '''Ask. What for is another question.'''

def without():
    "".join(())

def whatever():
    '''Whatever is there.'''
"""


def test_forbidden_first_words_are_named_with_their_lines():
    found = check_docstrings.problems(WRONG, "a.py")
    assert [line.split(": ")[0] for line in found] == ["a.py:2", "a.py:5", "a.py:8", "a.py:12"]
    assert "begins with 'What'" in found[0]


def test_other_first_words_pass():
    assert check_docstrings.problems(RIGHT, "a.py") == []


@pytest.mark.parametrize("word", ["All", "Also", "As", "None", "Of", "What", "Whether", "Why"])
def test_a_forbidden_word_is_found_alone_and_in_a_sentence(word):
    for rest in ("", " it is.", ": this."):
        assert check_docstrings.problems(f'"""{word}{rest}"""', "a.py")
    assert check_docstrings.problems(f'"""{word}ever it is."""', "a.py") == []


def test_the_package_is_looked_at():
    files = check_docstrings.checked_files()
    assert Path("tvm/python/tvm/relay/collage/optimizer.py") in files
    assert Path("tools/check_docstrings.py") in files
