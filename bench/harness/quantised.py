# SPDX-License-Identifier: Apache-2.0
"""Nets of bench/models in 8 bits, as onnxruntime's quantiser and NNCF write them (pairs of
QuantizeLinear and DequantizeLinear): rows as those of the table of files that packages ship.

Their weights are random: nothing is said of accuracy. Test: bench/test_quantised.py.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import onnx

from .shipped import Shipped

# No ViT: with random weights the libraries differ by more than a step of 8 bits (decisions.md).
NETS = ("resnet50", "mobilenetv2", "densenet121", "inception_v3", "resnext50")
ONNXRUNTIME, NNCF = BY = ("onnxruntime", "nncf")
# Run by another Python: from a model's file and an .npz file of inputs to the quantised model.
_BY_NNCF = """
import sys, nncf, numpy, onnx
model, inputs, made = sys.argv[1:]
calibration = nncf.Dataset([dict(numpy.load(inputs))])
onnx.save(nncf.quantize(onnx.load(model), calibration, subset_size=1), made)
"""


@dataclasses.dataclass(frozen=True)
class Quantised(Shipped):
    """A net of bench/models that one of BY quantises; `package` names it, and `path` the net."""

    python: str = sys.executable  # that has nncf

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
        from tvm.relay.collage.exec.arrays import save_arrays

        # It wants scales by channel, which came with version 13, and the shapes of all values.
        plain = onnx.shape_inference.infer_shapes(plain)
        if plain.opset_import[0].version < 13:
            plain = onnx.version_converter.convert_version(plain, 13)
        given, arrays = file.with_suffix(".plain.onnx"), file.with_suffix(".npz")
        onnx.save(plain, given)
        save_arrays(arrays, inputs)
        command = [self.python, "-c", _BY_NNCF, given, arrays, file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip() or "it does not say why").splitlines()[-1]
            raise FileNotFoundError(f"nncf cannot quantise {self.path}: {why} (--nncf-python)")


def rows(python: str = sys.executable) -> list[Quantised]:
    """Return a row for each net and quantiser."""
    fixed = {"version": "", "topic": "images", "license": "Apache-2.0", "sha256": ""}
    return [
        Quantised(package=by, path=f"{net}.onnx", python=python, **fixed)
        for by in BY
        for net in NETS
    ]
