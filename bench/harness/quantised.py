# SPDX-License-Identifier: Apache-2.0
"""Nets of bench/models in 8 bits, as onnxruntime's quantiser and NNCF write them (pairs of
QuantizeLinear and DequantizeLinear): rows as those of the table of files that packages ship.

Their weights are random: nothing is said of accuracy. Test: bench/test_quantised.py.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

import onnx

from .shipped import Shipped

# No ViT: with random weights the libraries differ by more than a step of 8 bits (decisions.md).
NETS = ("resnet50", "mobilenetv2", "densenet121", "inception_v3", "resnext50")
ONNXRUNTIME, NNCF = BY = ("onnxruntime", "nncf")


@dataclasses.dataclass(frozen=True)
class Quantised(Shipped):
    """A net of bench/models that one of BY quantises; `package` names it, and `path` the net."""

    def fetch(self, folder: Path) -> Path:
        """Return the file in the folder, made if it is not there; FileNotFoundError where the
        quantiser is not installed or fails."""
        import models

        file = folder / self.package / self.path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            net = models.find(Path(self.path).stem)[0]
            plain = net.build(1)
            inputs = models.random_inputs(net, plain)
            made = file.with_suffix(".made")
            if self.package == ONNXRUNTIME:
                made.write_bytes(models.low_precision.quantise(plain, inputs).SerializeToString())
            else:
                self._by_nncf(plain, inputs, made)
            made.rename(file)  # whole, or not at all
        return file

    def _by_nncf(self, plain: onnx.ModelProto, inputs: dict, file: Path) -> None:
        from tvm.relay.collage.errors import ModelError
        from tvm.relay.collage.precision.quantiser import quantise

        with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
            try:
                made = quantise(plain, [inputs], folder).quantised
            except ModelError as error:
                raise FileNotFoundError(f"nncf cannot quantise {self.path}: {error}") from None
            shutil.copyfile(made, file)


def rows() -> list[Quantised]:
    """Return a row for each net and quantiser."""
    fixed = {"version": "", "topic": "images", "license": "Apache-2.0", "sha256": ""}
    return [Quantised(package=by, path=f"{net}.onnx", **fixed) for by in BY for net in NETS]
