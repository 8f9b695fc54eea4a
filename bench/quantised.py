#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast are nets in 8 bits, as onnxruntime's quantiser and NNCF write them (pairs of
QuantizeLinear and DequantizeLinear), beside onnxruntime and OpenVINO on the same file?

    python bench/quantised.py --nncf-python ENVIRONMENT/bin/python  # one that has nncf
    python bench/quantised.py --by onnxruntime --nets resnet50
    python bench/quantised.py --write-docs                          # a table of docs/real_files.md

The files are made of bench/models, whose weights are random: nothing is said of accuracy. Each is
compiled and compared as bench/real_files.py does. Test: bench/test_quantised.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import models
import onnx
import real_files
from harness import arguments
from harness.resume import Book
from harness.shipped import Shipped

NETS = "resnet50,mobilenetv2,densenet121,inception_v3,resnext50"
ONNXRUNTIME, NNCF = BY = ("onnxruntime", "nncf")
RECORDS = "quantised.jsonl"
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

    python: str = ""

    def fetch(self, folder: Path) -> Path:
        """Return the file in the folder, made if it is not there; FileNotFoundError where the
        quantiser is not installed or fails."""
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


def rows(nets: Sequence[str], by: Sequence[str], python: str = "") -> list[Quantised]:
    """Return a row for each net and quantiser."""
    fixed = {"version": "", "topic": "images", "license": "Apache-2.0", "sha256": ""}
    return [
        Quantised(package=each, path=f"{net}.onnx", python=python, **fixed)
        for each in by
        for net in nets
    ]


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        table = rows(NETS.split(","), BY)
        book = Book(options.record, real_files.KEY)
        return book.write_page(options.docs, lambda f: real_files.page_of(table, f), RECORDS)
    return real_files.measure_all(rows(options.nets, options.by, options.nncf_python), options)


@arguments.checked
def _by_argument(text: str) -> list[str]:
    """Quantisers, with commas between."""
    if unknown := [each for each in arguments.listed(text) if each not in BY]:
        raise ValueError(f"{', '.join(unknown)} is none of {', '.join(BY)}")
    return arguments.listed(text)


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = real_files.make_parser(__doc__, RECORDS)
    add = parser.add_argument
    add("--nets", type=arguments.listed, default=NETS, help=f"of bench/models (default: {NETS})")
    add("--by", type=_by_argument, default=",".join(BY), help="quantisers (default: both)")
    add("--nncf-python", default=sys.executable, help="a Python that has nncf (default: this)")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
