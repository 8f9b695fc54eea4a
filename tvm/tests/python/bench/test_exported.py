# SPDX-License-Identifier: Apache-2.0
"""The benchmark of exports: a small net that fuses as its original does, and files left out."""

import re

import bench_nets
import exported
import numpy as np
import onnx
import pytest
import tvm
from tvm import relay
from tvm.relay.collage.backends.onnx_model import export_function

RANDOM = np.random.default_rng(0)

pytest.importorskip("onnxruntime")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(bench_nets.two_convolutions(1, 16), path)
    return str(path)


def test_a_net_is_fused_as_its_original_and_one_that_is_not_there(file, capfd):
    arguments = ["--libraries", "onnxruntime", "--rounds", "2", "--runtime", "--threads", "1"]
    assert exported.main([file, "no/such/bad.onnx", *arguments]) == 1
    said = capfd.readouterr()
    counts, head, *lines = said.out.splitlines()
    before, after = re.fullmatch(r"small +onnxruntime +(\d+) -> +(\d+)", counts).groups()
    assert before == after
    assert {re.split(r"\s{2,}", line.strip())[0] for line in lines} == {
        *(exported.ORIGINAL, exported.EXPORTED, exported.RUNTIME)
    }
    assert head.split() == ["side", "ms", "over", "the", "original", "off", "by"]
    for line in lines:
        # Two rounds bound nothing; the original beside itself is 1.
        ratio = r"1\.000" if exported.ORIGINAL in line else r"\d+\.\d{3} \(too few rounds .*\)"
        assert re.search(rf" {ratio} +\d\.\de", line), line
    assert "bad: left out" in said.err


def test_differences_are_named_by_type_the_largest_first():
    before, after = exported.Counter(Conv=3, Add=1), exported.Counter(Conv=3, Add=2, Reshape=4)
    assert exported.text_of_counts(before, after).split("  ")[-1] == "Reshape +4, Add +1"


def test_openvino_knows_a_rotary_embedding_of_what_we_write(tmp_path):
    pytest.importorskip("openvino")
    x = relay.var("x", shape=(1, 4, 64, 64))
    first, second = (relay.strided_slice(x, [k], [k + 32], axes=[3]) for k in (0, 32))
    turned = relay.concatenate([relay.negative(second), first], axis=-1)
    cosine, sine = (relay.const(RANDOM.standard_normal((1, 1, 64, 64), "f4")) for _ in range(2))
    function = relay.Function([x], x * cosine + turned * sine)
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    file = tmp_path / "rotary.onnx"
    onnx.save(export_function(typed, "openvino"), file)
    assert exported.openvino_nodes(file, tmp_path) == {"RoPE": 1}


def test_an_unknown_library_is_refused(file, capfd):
    with pytest.raises(SystemExit):
        exported.main([file, "--libraries", "torch"])
    assert "torch" in capfd.readouterr().err
