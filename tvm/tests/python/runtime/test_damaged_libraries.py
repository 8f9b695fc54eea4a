# SPDX-License-Identifier: Apache-2.0
"""Exported libraries that are cut off or have wrong bytes: none ends the process that loads it.

What TVM itself reads of a file (its list of modules, its own modules) is left whole.
"""

import json

import numpy as np
import pytest
import tvm
import tvm_forks
from onednn_nets import build, constant, function_of
from relay_text import PLAIN
from tree import SUPPORT
from tvm import relay
from tvm.driver import tvmc
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend, greedy_partition

# The kind of module that runs a backend's parts, and how many changes of a file are tried.
KINDS = {
    "dnnl": ("collage.onednn", 60),
    "onnxruntime": ("collage.onnx_model", 60),
    "openvino": ("collage.onnx_model", 20),
}
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from survival import fatal_change
print(json.dumps(fatal_change(sys.argv[2], json.loads(sys.argv[3]))))
"""


def net():
    y = relay.nn.dense(relay.var("x", shape=(4, 8)), constant(1, 16, 8))
    y = relay.nn.relu(relay.nn.bias_add(y, constant(2, 16)))
    return tvm.IRModule.from_expr(function_of(relay.nn.dense(y, constant(3, 6, 16))))


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")

    def exported(backend):
        if reason := get_backend(backend).available():
            pytest.skip(f"{backend}: {reason}")
        file = folder / f"{backend}.so"
        if not file.exists():
            build(greedy_partition(net(), backend), PLAIN).export_library(str(file))
        return file

    return exported


def fatal_change(file, changes):
    done = tvm_forks.run(PROGRAM, str(SUPPORT), str(file), json.dumps(changes))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def wrong_bytes(whole, kind, count):
    """One to eight bytes at random places of what our modules have in a file, changed."""
    begin = whole.index(kind.encode()) + len(kind)
    ends = [whole.find(name, begin) for name in (b"_lib", b"_import_tree")]
    end = min(at for at in ends if at > 0) - 8  # a length stands before each name
    rng = np.random.default_rng(0)
    for place in map(int, rng.integers(begin, end, count)):
        size = min(int(rng.choice([1, 1, 2, 4, 8])), end - place)
        yield [place, rng.choice([bytes([255]), bytes(1), rng.bytes(1)]).hex() * size]


@pytest.mark.parametrize("backend", KINDS)
def test_wrong_bytes_of_a_part_end_no_process(backend, export):
    kind, count = KINDS[backend]
    file = export(backend)
    changes = list(wrong_bytes(file.read_bytes(), kind, count))
    assert len(changes) == count
    assert fatal_change(file, changes) is None


def test_a_library_that_is_cut_off_is_refused(export, tmp_path):
    whole = export("dnnl").read_bytes()
    cut = tmp_path / "net.so"
    for size in [len(whole) - 1, 64, 63, 0, *np.random.default_rng(0).integers(0, len(whole), 30)]:
        cut.write_bytes(whole[:size])
        says = f"is cut off: its last {len(whole) - size} bytes are missing; copy it again"
        with pytest.raises(ValueError, match=says if size >= 64 else "is no library that can be"):
            collage.load_runner(cut)


def test_a_package_that_is_cut_off_is_refused(tmp_path):
    package = tmp_path / "net.tar"
    tvmc.compile(tvmc.TVMCModel(net(), {}), PLAIN, package_path=str(package))
    whole = package.read_bytes()
    assert collage.load_runner(package).inputs[0].name == "x"
    for size in np.random.default_rng(0).integers(1, len(whole) - 10240, 20):  # zeros end it
        package.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="cut off|no package|no library"):
            collage.load_runner(package)
