# SPDX-License-Identifier: Apache-2.0
"""PP-OCR around the networks: a line of text as an image, images as tensors, outputs as text.

Test: demos/test_demo.py.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from demo_onnx import packaged_file

# What networks of PP-OCR answer instead of a character, at this index.
_BLANK = 0
ANGLES = ("0", "180")
PACKAGE = "rapidocr_onnxruntime"


def model_file(name: str) -> Path:
    """An ONNX file of PP-OCR. FileNotFoundError that says what to install."""
    return packaged_file(PACKAGE, "rapidocr-onnxruntime", f"models/{name}")


def draw_line(text: str, width: int, height: int) -> Any:
    """A PIL image: the text in black on white, as large as the image allows."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(image)
    for size in range(height, 5, -1):
        font = ImageFont.load_default(size=size)
        left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
        if right - left <= 0.95 * width and bottom - top <= 0.75 * height:
            break
    at = ((width - right - left) / 2, (height - bottom - top) / 2)
    pen.text(at, text, fill="black", font=font)
    return image


def draw_words(count: int, width: int, height: int, seed: int = 1) -> list[tuple[str, Any]]:
    """Random words of 4 to 12 letters and digits, each with its image."""
    draw = np.random.default_rng(seed)
    letters = list(string.ascii_letters + string.digits)
    words = ["".join(draw.choice(letters, draw.integers(4, 13))) for _ in range(count)]
    return [(word, draw_line(word, width, height)) for word in words]


def to_tensor(image: Any) -> np.ndarray:
    """float32 (1, 3, height, width) in [-1, 1], channels in the order BGR."""
    pixels = np.asarray(image, "float32")[:, :, ::-1] / 255.0
    return np.ascontiguousarray(((pixels - 0.5) / 0.5).transpose(2, 0, 1)[None])


def characters(metadata: str) -> list[str]:
    """Characters by index, from the model's metadata: one a line; blank first, a space last."""
    return ["", *metadata.splitlines(), " "]


def decode_line(scores: np.ndarray, alphabet: Sequence[str]) -> str:
    """The text of scores (1, steps, len(alphabet)): best character of each step, repeats and blanks
    left out (greedy CTC)."""
    if scores.ndim != 3 or scores.shape[2] != len(alphabet):
        raise ValueError(f"scores {scores.shape} do not fit an alphabet of {len(alphabet)}")
    best = scores[0].argmax(axis=1)
    changes = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(alphabet[k] for k in best[changes & (best != _BLANK)])


def decode_angle(scores: np.ndarray) -> str:
    """ "0" or "180" degrees, from scores (1, 2)."""
    return ANGLES[int(scores[0].argmax())]
