# SPDX-License-Identifier: Apache-2.0
"""bench/write_pages.py: each page has the tables of today's records, and what cannot be written
stays as it is."""

import dataclasses

import pytest
import write_pages
from harness import arguments
from tree import ROOT
from write_pages import PARTS

KEPT = [part for part in PARTS if part.record.parent == arguments.RESULTS]


@pytest.mark.parametrize("part", KEPT, ids=lambda part: f"{part.page}-{part.name}")
def test_a_page_of_the_tree_is_that_of_its_records(part):
    assert part.text() == (ROOT / part.page).read_text(), "python bench/write_pages.py"


def test_each_file_of_records_is_on_a_page():
    assert {part.record for part in KEPT} == set(arguments.RESULTS.iterdir())


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page with one table, of the records in a file that a test writes."""
    monkeypatch.setattr(arguments, "ROOT", tmp_path)
    names = {"page": "page.md", "name": "nets", "record": tmp_path / "nets.jsonl"}
    part = dataclasses.replace(PARTS[0], **names, tables=lambda found: f"{found[0]['ms']}\n")
    monkeypatch.setattr(write_pages, "PARTS", (part,))
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- nets: begin -->\nold\n<!-- nets: end -->\n")
    return page


def test_a_page_has_the_records_tables_or_stays_as_it_is(page, capsys):
    text = page.read_text()
    assert write_pages.main([]) == 0 and page.read_text() == text
    assert "nets: stays as it is, no file" in capsys.readouterr().out
    page.with_name("nets.jsonl").write_text('{"ms": 1.0}\n')
    assert write_pages.main(["--only", "nets"]) == 0
    assert page.read_text() == text.replace("old", "1.0")
    page.write_text("head\n")
    assert write_pages.main([]) == 1 and page.read_text() == "head\n"
    assert "lacks the line <!-- nets: begin -->" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        write_pages.main(["--only", "moa"])
    assert "unknown table moa: choose of nets" in capsys.readouterr().err
