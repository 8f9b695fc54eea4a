# SPDX-License-Identifier: Apache-2.0
"""The models of the demo: where they come from, what they are fed, how their output reads.

Test: demos/test_demo.py.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import demo_content
import numpy as np
from demo_ocr import characters, decode_angle, decode_line, draw_line, model_file, to_tensor

ROOT = Path(__file__).parents[1]
# Whose kind is asked for.
FILES = ("README.md", "Makefile", "demos/demo.py")
LINE = "Collage for TVM"
WORD = "Collage"


@dataclasses.dataclass(frozen=True)
class DemoModel:
    """A model with inputs of its own.

    load() gives the module and its parameters. onnx: the file that onnxruntime runs as well, or
    None. inputs: arrays by name, a dict for each sample; the first one is what is measured.
    read: one run's outputs as text.
    """

    name: str
    title: str
    load: Callable[[], tuple[Any, dict[str, Any]]]
    inputs: Sequence[dict[str, np.ndarray]]
    read: Callable[[Sequence[np.ndarray]], str]
    onnx: str | None = None

    def build(self, targets: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What `relay.build` makes of it with Collage and these options by name; `.collage` of the
        library tells what was decided."""
        import tvm
        from tvm import relay

        mod, params = self.load()
        config = {f"relay.collage.{name}": value for name, value in options.items()}
        config["relay.collage.enable_collage"] = True
        with tvm.transform.PassContext(opt_level=3, config=config):
            return relay.build(mod, target=list(targets), params=params)


def content() -> DemoModel:
    """Magika on files of this tree."""
    file, settings = demo_content.model_file(), demo_content.settings()
    inputs = [demo_content.features((ROOT / name).read_bytes(), settings) for name in FILES]
    return DemoModel(
        "magika",
        f"Magika, kinds of content: {', '.join(FILES)}",
        lambda: import_onnx(file, inputs[0].shape),
        inputs=[{"bytes": each} for each in inputs],
        read=lambda outputs: demo_content.label(outputs[0], settings),
        onnx=str(file),
    )


def recognition() -> DemoModel:
    """PP-OCRv4 recognition on an image of LINE."""
    file = model_file("ch_PP-OCRv4_rec_infer.onnx")
    metadata = {item.key: item.value for item in _read_onnx(file).metadata_props}
    alphabet = characters(metadata["character"])
    image = to_tensor(draw_line(LINE, 320, 48))
    return DemoModel(
        "rec",
        f"PP-OCRv4 text recognition, image of {LINE!r}",
        lambda: import_onnx(file, image.shape),
        inputs=[{"x": image}],
        read=lambda outputs: decode_line(outputs[0], alphabet),
        onnx=str(file),
    )


def classification() -> DemoModel:
    """PP-OCR angle classification on an image of WORD, upright and upside down."""
    file = model_file("ch_ppocr_mobile_v2.0_cls_infer.onnx")
    image = draw_line(WORD, 192, 48)
    upright, turned = to_tensor(image), to_tensor(image.rotate(180))
    return DemoModel(
        "cls",
        f"PP-OCR angle classification, image of {WORD!r} upright and upside down",
        lambda: import_onnx(file, upright.shape),
        inputs=[{"x": upright}, {"x": turned}],
        read=lambda outputs: decode_angle(outputs[0]),
        onnx=str(file),
    )


def resnet50() -> DemoModel:
    """ResNet-50 of relay.testing with its random weights on a random image."""
    shape = (3, 224, 224)
    return _of_testing(
        "resnet50",
        "ResNet-50",
        "resnet",
        shape=(1, *shape),
        read=lambda outputs: f"class {int(outputs[0].argmax())}",
        arguments={"num_layers": 50, "image_shape": shape},
    )


def generator() -> DemoModel:
    """DCGAN's generator of relay.testing with its random weights on random noise."""
    return _of_testing(
        "dcgan",
        "DCGAN's generator of images",
        "dcgan",
        shape=(1, 100),
        read=lambda outputs: f"an image, brightness {float(outputs[0].mean()):.2f}",
    )


def _of_testing(
    name: str,
    title: str,
    module: str,
    shape: Sequence[int],
    read: Callable[[Sequence[np.ndarray]], str],
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> DemoModel:
    """A net of one input `data` that a module of relay.testing makes, for a batch of one."""
    data = np.random.default_rng(0).standard_normal(shape, "float32")

    def load() -> tuple[Any, dict[str, Any]]:
        made = importlib.import_module(f"tvm.relay.testing.{module}")
        return made.get_workload(batch_size=1, **arguments)

    full_title = f"{title} (relay.testing, random weights)"
    return DemoModel(name, full_title, load, inputs=[{"data": data}], read=read)


MODELS: dict[str, Callable[[], DemoModel]] = {
    "magika": content,
    "cls": classification,
    "rec": recognition,
    "resnet50": resnet50,
    "dcgan": generator,
}


def import_onnx(file: Any, shape: Sequence[int]) -> tuple[Any, dict[str, Any]]:
    """Module and parameters of an ONNX model with one input, of the shape."""
    from tvm.relay import collage, transform

    model = _read_onnx(file)
    constants_to_initializers(model.graph)
    name = next(item.name for item in model.graph.input if item.name not in _initializers(model))
    mod, params = collage.from_onnx(model, {name: tuple(shape)}, freeze_params=True)
    return transform.DynamicToStatic()(mod), params


def constants_to_initializers(graph: Any) -> None:
    """Weights that are nodes become initializers: TVM infers types anew at each node it meets."""
    kept = []
    for node in graph.node:
        value = node.attribute[0] if node.op_type == "Constant" else None
        if value is not None and value.name == "value":
            graph.initializer.append(value.t)
            graph.initializer[-1].name = node.output[0]
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def _initializers(model: Any) -> set[str]:
    return {item.name for item in model.graph.initializer}


def _read_onnx(file: Any) -> Any:
    import onnx

    return onnx.load(str(file))
