# SPDX-License-Identifier: Apache-2.0
"""Versions of what takes part, so that a record is used again only for what it was measured with.

Ours is a hash of the libraries' and the package's files: a version number stays as it is while the
code is worked on. Test: bench/test_peers.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import tvm
import tvm_collage

from .build import COLLAGE
from .contestants import PEERS

_BENCH = Path(__file__).resolve().parents[1]
_LIBRARIES = ("tvm_collage", "tvm_collage_runtime", "tvm_collage_pool")


def versions(contestants: Iterable[str]) -> dict[str, str]:
    """Package -> version for ours, TVM and each peer that takes part."""
    found = {COLLAGE: f"{tvm_collage.__version__} {code_hash()}", "tvm": tvm.__version__}
    packages = [PEERS[name].package for name in contestants if name in PEERS]
    return found | {package: version(package) for package in packages}


def code_hash() -> str:
    """Of what compiles and runs our side, makes the nets and sets the peers up: shared libraries
    and Python files, by content."""
    from tvm.relay import collage

    paths = [tvm_collage.library_path(name) for name in _LIBRARIES]
    files = [Path(path) for path in paths if path is not None]
    folders = [Path(package.__file__).parent for package in (collage, tvm_collage)]
    for folder in (*folders, *(_BENCH / name for name in ("models", "peer"))):
        files += sorted(folder.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
