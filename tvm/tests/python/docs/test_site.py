# SPDX-License-Identifier: Apache-2.0
"""The site of docs/: `make lint` builds it; here is what its warnings do not see."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT
from tvm.relay import collage

API = (ROOT / "docs/api.rst").read_text()


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^\.\. auto\w+:: (\w+)$", API, re.M) + re.findall(r"[A-Z_]{5,}", API)
    assert set(collage.__all__) <= set(listed), set(collage.__all__) - set(listed)


def test_no_page_has_the_name_of_one_that_sphinx_makes():
    """Its own would be written in that one's place, and be linked in its stead."""
    pages = {page.stem for page in (ROOT / "docs").glob("*.*")}
    assert not pages & {"search", "genindex", "modindex", "py-modindex"}


def make_site(folder: Path) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [ROOT / "tools/make_docs.sh", folder / "site", folder],
        env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("page", "complaints"),
    [
        ("See [that](index.rst).", []),
        ("See [that](none.md) and [that](other.md#absent).", ["none.md", "absent"]),
    ],
    ids=["sound", "a page and a heading that are not there"],
)
def test_a_link_that_leads_nowhere_fails(page, complaints, tmp_path):
    shutil.copy(ROOT / "docs/conf.py", tmp_path)
    (tmp_path / "index.rst").write_text("Pages\n=====\n\n.. toctree::\n\n   page\n   other\n")
    (tmp_path / "page.md").write_text(f"# Page\n\n{page}\n")
    (tmp_path / "other.md").write_text("# Other\n")
    done = make_site(tmp_path)
    assert all(complaint in done.stderr for complaint in complaints)
    assert (done.returncode != 0) == bool(complaints), done.stderr


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["One.", "", "a: first", "  goes on", "b, c: next"],
         ["One.", "", "* a: first", "    goes on", "* b, c: next", ""]),
        (["a: a sentence that", "goes on below"], ["a: a sentence that", "goes on below", ""]),
        (["Attributes:", "    a: first", ""], ["Attributes:", "", "    * a: first", ""]),
    ],
    ids=["fields", "prose", "attributes"],
)  # fmt: skip
def test_fields_of_a_docstring_become_items(given, wanted):
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs/conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    lines = list(given)
    conf.list_fields(None, "class", "name", None, None, lines)
    assert lines == wanted


def test_pictures_can_be_read_without_seeing_them():
    pictures = sorted((ROOT / "docs/pictures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text()
        assert "<title" in text and len(text) < 100_000, picture
        assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "fetches something"
