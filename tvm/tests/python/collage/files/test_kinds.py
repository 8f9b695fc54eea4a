# SPDX-License-Identifier: Apache-2.0
"""What files of all kinds seem to be."""

import io
import json
import sqlite3
import tarfile

import numpy as np
import pytest
from made_reports import made_report
from tvm.driver.tvmc.frontends import ALL_FRONTENDS
from tvm.relay.collage.files import kinds as file_kinds
from tvm.relay.collage.files.kinds import is_model, kind_of


@pytest.mark.parametrize(
    "name, content, kind",
    [
        ("a.so", b"\x7fELF...", "a library"),
        ("a.onnx", b"", "an empty file"),
        ("a.onnx", b"\x08\x07", "an ONNX model"),
        ("A.ONNX", b"\x08\x07", "an ONNX model"),
        ("a.onnx", b"version https://git-lfs.github.com/spec/v1\n", "a pointer, which `git lfs"),
        ("a.html", b"<!doctype html>", "XML or HTML"),
        ("a.xml", b"<?xml version='1.0'?><net/>", "XML or HTML, such as a page for a browser, a p"),
        ("a.onnx", b"<!doctype html>", "XML or HTML"),  # what a download that fails leaves
        ("a.pth", b"PK\x03\x04", "a PyTorch model"),
        ("a.pt", b"PK\x03\x04", "a zip archive"),
        ("a.npz", b"PK\x05\x06", "a zip archive"),
        ("a.pdmodel", b"\x08\x07", "a PaddlePaddle model"),
        ("a", b'{"format": "tvm-collage-placement"}', "a placement"),
        ("a", json.dumps(made_report(1)).encode(), "a report"),
        ("a", b'{"plan": ', "JSON that is cut off or damaged (Expecting value"),
        ("a", b"[1]", "JSON of another kind"),
        ("a", b'{"a": 1}\n{"a": 2}\n{', "lines of JSON of another kind"),
        ("a", "é".encode(), "a text"),
        ("a", b"\xff\xfe", "a binary file"),
        ("a", b"abc\0", "a binary file"),
    ],
)
def test_kinds(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_bytes(content)
    assert kind_of(path).startswith(kind)
    assert is_model(path) == kind.endswith(" model")


def test_the_models_are_those_that_tvmc_knows_by_their_ending():
    known = {f".{ending}" for each in ALL_FRONTENDS for ending in each.suffixes()}
    assert {*file_kinds.MODELS} == known - {".zip"}


def test_kinds_that_others_write(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(1))
    np.save(tmp_path / "a.npy", np.zeros(1))
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("create table t (x)")
    database.close()
    with tarfile.open(tmp_path / "a.tar", "w") as package:
        package.addfile(tarfile.TarInfo("mod.json"), io.BytesIO())
    assert {path.name: kind_of(path) for path in tmp_path.iterdir()} == {
        "a.npz": "a zip archive, such as an .npz file",
        "a.npy": "one array of numpy's",
        "a.db": "a store of costs, or another database",
        "a.tar": "a tar archive, such as a package of tvmc",
    }
