# SPDX-License-Identifier: Apache-2.0
"""Magika around the network: bytes of a file as its input, its output as a kind of content.

The model and its labels come with the package; its README says how bytes become features.
Test: demos/test_demo.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from demo_onnx import packaged_file

_FOLDER = "models/standard_v3_3"


def model_file() -> Path:
    """The ONNX file. FileNotFoundError that says what to install."""
    return packaged_file("magika", "magika", f"{_FOLDER}/model.onnx")


def settings() -> dict[str, Any]:
    """How many bytes the network reads, and the labels of its outputs."""
    file = packaged_file("magika", "magika", f"{_FOLDER}/config.min.json")
    return json.loads(file.read_text())


def features(content: bytes, settings: dict[str, Any]) -> np.ndarray:
    """int32 (1, bytes): the first ones behind leading white space, then the last ones before what
    trails, each padded to its length by a number that is no byte."""
    block, padding = settings["block_size"], settings["padding_token"]
    first = list(content[:block].lstrip()[: settings["beg_size"]])
    last = list(content[-block:].rstrip()[-settings["end_size"] :])
    first += [padding] * (settings["beg_size"] - len(first))
    last = [padding] * (settings["end_size"] - len(last)) + last
    return np.array([first + last], "int32")


def label(scores: np.ndarray, settings: dict[str, Any]) -> str:
    """The kind of content with the highest of the scores (1, kinds)."""
    return settings["target_labels_space"][int(scores[0].argmax())]
