# SPDX-License-Identifier: Apache-2.0
"""The benchmark of vector math: a function on all sides, one that oneDNN lacks, an unknown one."""

import re

import pytest
import vector_math

# Two rounds bound no ratio, and ours beside itself is 1.
FIGURES = r" +\d+\.\d +\d+\.\d\d(?: \(too few rounds to be sure\))? +(\S+)  at (\S+)"
FEW = ["--every", "65536", "--count", "65536", "--rounds", "2", "--threads", "1"]


@pytest.mark.slow("kernels of each side built and timed")
def test_functions_on_all_sides(capfd):
    assert vector_math.main(["--functions", "tanh,log2", *FEW]) == 0
    machine, *lines = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r".+, \d+ CPUs, 1 threads", machine)
    sides = {"tanh": ["ours", "stock", "onednn", "numpy"], "log2": ["ours", "stock", "numpy"]}
    assert [line.split()[0] for line in lines] == [each for f in sides for each in (f, *sides[f])]
    found = [re.fullmatch(rf"  (\w+){FIGURES}", line) for line in lines[1:5]]
    ours, stock = (float(match[2]) for match in found[:2])
    assert ours < 2 and stock > 1e4, "stock TVM's tanh near 0"


def test_a_function_that_is_none(capfd):
    with pytest.raises(SystemExit):
        vector_math.main(["--functions", "exp,cosinus"])
    assert "unknown function cosinus: choose of" in capfd.readouterr().err
