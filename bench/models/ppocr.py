# SPDX-License-Identifier: Apache-2.0
"""The real nets: PP-OCRv4's detection, recognition and angle classification, trained weights.

The files are those of the demo (package rapidocr-onnxruntime). Test: bench/test_models.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import onnx

from .net import Net

_DEMOS = str(Path(__file__).resolve().parents[2] / "demos")


def _from_file(file: str, height: int, width: int) -> Callable[[int], onnx.ModelProto]:
    def build(batch: int) -> onnx.ModelProto:
        if _DEMOS not in sys.path:
            sys.path.append(_DEMOS)
        from demo_models import constants_to_initializers
        from demo_ocr import model_file

        model = onnx.load(str(model_file(file)))
        constants_to_initializers(model.graph)
        weights = {item.name for item in model.graph.initializer}
        (image,) = (item for item in model.graph.input if item.name not in weights)
        for dim, size in zip(image.type.tensor_type.shape.dim, (batch, 3, height, width)):
            dim.dim_value = size
        return model

    return build


_SOURCE = "PaddleOCR's trained model; no published figures"

NETS = [
    Net(
        "ppocr_det",
        "PP-OCRv4 text detection, 640x640",
        _from_file("ch_PP-OCRv4_det_infer.onnx", 640, 640),
        _SOURCE,
    ),
    Net(
        "ppocr_rec",
        "PP-OCRv4 text recognition, 48x320",
        _from_file("ch_PP-OCRv4_rec_infer.onnx", 48, 320),
        _SOURCE,
    ),
    Net(
        "ppocr_cls",
        "PP-OCR angle classification, 48x192",
        _from_file("ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192),
        _SOURCE,
    ),
]
