# SPDX-License-Identifier: Apache-2.0
"""Guesses what a file is, for errors about one that is of another kind than is needed.

Test: files/test_kinds.py.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Sequence

from .text import parse_json

# What a placement's file calls itself.
PLACEMENT_FORMAT = "tvm-collage-placement"
ZIP = "a zip archive, such as an .npz file"
# By its first bytes.
_BEGINNINGS = (
    (b"\x7fELF", "a library"),
    (b"SQLite format 3\0", "a store of costs, or another database"),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),  # of nothing
    (b"\x93NUMPY", "one array of numpy's"),
    (b"%PDF", "a PDF file"),
    (b"version https://git-lfs", "a pointer, which `git lfs pull` replaces by the file"),
    (b"<", "XML or HTML, such as a page for a browser, a picture or a model that no build reads"),
)
_READ_BYTES = max(len(beginning) for beginning, _ in _BEGINNINGS)
ONNX = "an ONNX model"
# By the ending of its name, of models that a build reads: those that tvmc knows by it.
MODELS = {
    ".onnx": ONNX,
    ".tflite": "a TFLite model",
    ".pth": "a PyTorch model",
    ".h5": "a Keras model",
    ".pb": "a TensorFlow model",
    ".pdmodel": "a PaddlePaddle model",
    ".relay": "a Relay module",
}
# Those that are zip archives, which their first bytes alone would be told as, and those of text.
_ZIPPED, _OF_TEXT = {".pth"}, {".relay"}
# What no text begins with, and each binary model does.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]|[^\x00-\x7f]")
# What every report has; another file of JSON has none of it.
_OF_REPORTS = {"plan", "plans", "placement", "functions", "guard_skipped", "costs"}


def is_model(path: str | os.PathLike) -> bool:
    """Return whether it seems to be a model that a build reads. OSError."""
    return kind_of(path) in MODELS.values()


def original_of(path: str | os.PathLike) -> str:
    """Return the option `original` for a model's file: itself, or "" for a Relay module, which
    nobody else runs."""
    path = os.fspath(path)
    return "" if path.endswith(".relay") else path


def is_placement(value: object) -> bool:
    """Return whether a file's JSON value is a placement."""
    return isinstance(value, dict) and value.get("format") == PLACEMENT_FORMAT


def is_report(value: object) -> bool:
    """Return whether a file's JSON value is a report."""
    return isinstance(value, dict) and value.keys() >= _OF_REPORTS


def kind_of(path: str | os.PathLike) -> str:
    """Return what a file that can be read seems to be: "an ONNX model", "a placement". OSError."""
    with open(path, "rb") as file:
        begins = file.read(_READ_BYTES)
    if not begins:
        return "an empty file"
    ending = os.path.splitext(path)[1].lower()
    for beginning, kind in _BEGINNINGS:
        if begins.startswith(beginning):
            return MODELS[ending] if kind == ZIP and ending in _ZIPPED else kind
    if tarfile.is_tarfile(path):
        return "a tar archive, such as a package of tvmc"
    if ending in MODELS and (ending in _OF_TEXT or _CONTROLS.search(begins)):
        return MODELS[ending]
    return _text_kind(path)


def _text_kind(path: str | os.PathLike) -> str:
    with open(path, "rb") as file:
        content = file.read()
    try:
        value = parse_json(content)
    except UnicodeDecodeError:
        return "a binary file"
    except ValueError as error:
        if _are_json(content.splitlines()[:2]):
            return "lines of JSON of another kind"
        if content.lstrip()[:1] in (b"{", b"["):
            return f"JSON that is cut off or damaged ({error})"
        return "a binary file" if b"\0" in content else "a text"
    if is_placement(value):
        return "a placement"
    return "a report" if is_report(value) else "JSON of another kind"


def _are_json(lines: Sequence[bytes]) -> bool:
    """Return whether two lines have an object or a list each."""
    try:
        values = [parse_json(line) for line in lines]
    except ValueError:
        return False
    return len(values) == 2 and all(isinstance(value, dict | list) for value in values)
