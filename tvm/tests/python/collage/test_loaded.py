# SPDX-License-Identifier: Apache-2.0
"""collage.load: a library's file and the report at its end."""

import os
import tarfile
import traceback

import pytest
from made_reports import made_report
from tvm.relay import collage
from tvm.relay.collage import CollageError, OptionError, PlacementError
from tvm.relay.collage.files.attached import add_report, attach_report, attached_report

REPORT = {"plan": "tvm", "text": "é" * 1000, "numbers": [1.5, None]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.so"
    path.write_bytes(b"\x7fELF and so on")
    return path


def test_a_report_goes_with_the_file(file):
    assert attached_report(file) is None
    attach_report(file, REPORT)
    assert attached_report(file) == REPORT
    assert file.read_bytes().startswith(b"\x7fELF and so on")
    assert collage.load(file).report == REPORT


def package(tmp_path):
    """A file as tvmc packs it."""
    (tmp_path / "mod.json").write_text("{}")
    path = tmp_path / "net.tar"
    with tarfile.open(path, "w") as file:
        file.add(tmp_path / "mod.json", "mod.json")
    return path


def test_a_package_has_it_as_a_member(tmp_path, monkeypatch):
    path = package(tmp_path)
    assert attached_report(path) is None
    whole = path.read_bytes()
    add_report(path, REPORT)
    assert attached_report(path) == REPORT == collage.load(path).report
    with tarfile.open(path) as file:
        assert file.getnames() == ["mod.json", "collage_report.json.gz"]
    content = path.read_bytes()
    at = content.index(b"\x1f\x8b") + 20
    path.write_bytes(content[:at] + b"\0" * 8 + content[at + 8 :])
    with pytest.raises(OptionError, match=r"net\.tar.* damaged"):
        collage.load(path)
    path.write_bytes(whole)
    monkeypatch.setattr(tarfile.TarFile, "addfile", lambda *_: os.write(-1, b""))
    with pytest.raises(OSError, match="descriptor"):
        add_report(path, REPORT)
    assert path.read_bytes() == whole and sorted(os.listdir(tmp_path)) == ["mod.json", "net.tar"]


def test_a_link_to_a_package_stays_one(tmp_path):
    path = package(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.tar"
    link.symlink_to(path)
    add_report(link, REPORT)
    assert link.is_symlink() and attached_report(path) == REPORT
    assert os.listdir(tmp_path / "elsewhere") == ["link.tar"]


@pytest.mark.parametrize("size", [0, 3])
def test_a_file_shorter_than_a_mark_has_none(tmp_path, size):
    (tmp_path / "short").write_bytes(b"x" * size)
    assert attached_report(tmp_path / "short") is None


def test_a_damaged_report_is_an_error_that_names_the_file(file):
    attach_report(file, REPORT)
    whole = file.read_bytes()
    for damaged in (whole[:20] + b"\0\0" + whole[22:], whole[18:]):
        file.write_bytes(damaged)
        with pytest.raises(OptionError, match=r"net\.so.*(damaged|cut off)"):
            collage.load(file)


def test_what_is_not_there_says_so(file, tmp_path):
    with pytest.raises(OptionError, match=r"absent\.so.*no such file; name what"):
        collage.load(tmp_path / "absent.so")
    bare = collage.load(file)
    with pytest.raises(OptionError, match=r"net\.so is no library|cut off"):
        bare.runner()
    assert bare._repr_html_() is None
    for ask in (
        bare.show,
        lambda: bare.placements,
        lambda: bare.save_placement("x"),
        lambda: bare.save_html(tmp_path / "page.html"),
        lambda: bare.save_picture(tmp_path / "net.svg"),
    ):
        with pytest.raises(
            PlacementError, match="carries no report: write it by `collage compile`"
        ):
            ask()


@pytest.mark.parametrize("content", [b"", b"a text", b"\x7fEL", b'{"plan": "tvm"}'])
def test_a_file_of_another_kind_is_refused_at_once(tmp_path, content):
    (tmp_path / "notes.so").write_bytes(content)
    words = r"notes\.so' is no library: it seems to be (an empty|a text|JSON).*name what `colla"
    with pytest.raises(OptionError, match=words):
        collage.load(tmp_path / "notes.so")


def test_a_refused_file_is_told_without_the_errors_below(file, tmp_path):
    """Their words are in the message: a second traceback would hide it."""
    attach_report(file, REPORT)
    (tmp_path / "cut.so").write_bytes(file.read_bytes()[18:])
    (tmp_path / "text.so").write_bytes(b"a text")
    for name in ("cut.so", "text.so", "absent.so"):
        with pytest.raises(OptionError, match=name) as caught:
            collage.load(tmp_path / name)
        shown = "".join(traceback.format_exception(caught.value))
        assert shown.count("Traceback") == 1, shown
    (tmp_path / "bare.so").write_bytes(b"\x7fELF and so on")
    with pytest.raises(OptionError, match=r"bare\.so") as caught:
        collage.load(tmp_path / "bare.so").runner()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_the_report_of_a_library_is_drawn(file, tmp_path):
    attach_report(file, made_report(1))
    library = collage.load(file)
    library.save_html(tmp_path / "page.html")
    assert "Plan collage ships" in (tmp_path / "page.html").read_text()
    library.save_picture(tmp_path / "net.svg", plan="beta")
    assert "Plan beta" in (tmp_path / "net.svg").read_text()
    assert "Plan collage ships" in library._repr_html_() and "<img" in library._repr_html_()


def test_a_report_of_an_older_version_keeps_its_placements_alone(file, tmp_path):
    old = made_report(1)
    for row in old["plans"]:
        del row["ratio_to_chosen"]
    attach_report(file, old)
    library = collage.load(file)
    for tell in (
        library.show,
        lambda: library.save_html(tmp_path / "page.html"),
        lambda: library.save_picture(tmp_path / "net.svg"),
        library._repr_html_,
    ):
        with pytest.raises(CollageError, match=r"net\.so was written by an older .*compile again"):
            tell()
    assert os.listdir(tmp_path) == ["net.so"]
    assert "collage" in library.placements.names()
