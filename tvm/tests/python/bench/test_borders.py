# SPDX-License-Identifier: Apache-2.0
"""bench/borders.py: chains of parts of one backend and of two in turn, and what a border is."""

import borders
import pytest
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.relay_util.external import is_external_function


def test_each_layer_is_a_part_of_its_backend():
    mod = borders.chain(["tvm", "dnnl", "tvm", "dnnl"], channels=4, size=5)
    parts = [f for f in mod.functions.values() if is_external_function(f)]
    assert [str(part.attrs["Compiler"]) for part in parts] == ["dnnl", "dnnl"]
    assert tuple(mod["main"].ret_type.shape) == (1, 4, 5, 5)


def test_backends_alone_and_each_two_in_turn():
    made = borders.chains(["tvm", "dnnl", "own"], length=3)
    assert list(made) == ["tvm", "dnnl", "own", "tvm, dnnl", "tvm, own", "dnnl, own"]
    assert made["own"] == ["own"] * 3
    assert made["tvm, own"] == ["tvm", "own", "tvm"]


def test_a_border_is_what_parts_take_more_than_their_own_chains():
    samples = {"tvm": 4e-5, "dnnl": 8e-5, "tvm, dnnl": 1e-4}
    items = {n: Comparison(n, Cost.measured([s] * 8), samples=(s,) * 8) for n, s in samples.items()}
    lines = borders.table(items, length=4).splitlines()
    assert lines[-1].split()[-1] == "+10.0"
    assert lines[1].split() == ["tvm", "10.0"]


def test_the_whole_way(capsys):
    few = ["--channels", "4", "--size", "5", "--length", "2", "--rounds", "2"]
    assert borders.main([*few, "--backends", "dnnl"]) == 0
    assert "tvm, dnnl" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--length", "1"], "--length: must be at least 2"),
        (["--backends", "nobody"], "nobody"),
    ],
)
def test_wrong_arguments_are_named(arguments, says, capsys):
    with pytest.raises(SystemExit):
        borders.main(arguments)
    assert says in capsys.readouterr().err
