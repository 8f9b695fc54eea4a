# SPDX-License-Identifier: Apache-2.0
"""The differential fuzz: it finds what it is there to find, and nothing in our backends."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tvm
from fault_backend import NAME as HARMFUL
from fuzz.profiles import grown
from fuzz.run import seeds_in, seeds_text
from fuzz.values import NOT_FINITE, Value, exact, rounded, worst
from tree import SUPPORT
from tvm.relay.collage.backends.cblas import PRODUCTS
from tvm.relay.collage.backends.dnnl.lower import SUPPORTED_OPS
from tvm.relay.collage.backends.onnx_model import EXPORTED_OPS
from tvm.relay.collage.backends.xnnpack.lower import SUPPORTED_OPS as OF_XNNPACK
from tvm.relay.collage.ops import KINDS, ONNX_NODES
from wrong_backend import NAME as WRONG

_SEEDS, _FEW = 300, 20
# Ops of the backends' tables that no graph has: why.
_NOT_MADE = {
    "nn.dropout": "SimplifyInference removes it before anything is placed",
    "copy": "of no effect in a graph without side effects",
    **{
        kind.operator: "no operator of Relay's; test_ops_recurrent.py has each against TVM's"
        for kind in KINDS.values()
    },
}


@functools.cache
def ops_of(seed):
    _, graph = grown(seed)
    return frozenset(graph.nodes[index].op for index in graph.calls())


def fuzz(*arguments):
    """(exit status, output) of the command, in a process that has not run kernels."""
    process = subprocess.run(
        [sys.executable, "-m", "fuzz", *arguments],
        cwd=SUPPORT,
        env={**os.environ, "COLLAGE_STORE": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout + process.stderr[-2000:]


def seed_with(op, without=()):
    """The first seed whose graph has the operator, on floats, others, and none of `without`."""
    return next(
        seed
        for seed in range(1000)
        if op in ops_of(seed)
        and len(ops_of(seed)) > 2
        and not ops_of(seed) & set(without)
        and grown(seed)[0] == "dnnl"
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "first, end",
    [
        (0, _FEW),
        pytest.param(_FEW, _SEEDS, marks=pytest.mark.slow("280 graphs built for each backend")),
    ],
)
def test_nothing_is_found_in_our_backends(first, end):
    status, text = fuzz("--seeds", f"{first}:{end}", "--jobs", "2")
    assert status == 0, text
    assert f"'graphs': {end - first}" in text and "findings: 0" in text


def test_seeds_are_told_as_they_were_asked_for():
    assert [seeds_text(seeds_in(text)) for text in ("0:300", "17:18", "300:")] == [
        "seeds 0 to 299",
        "seeds 17 to 17",
        "seeds 300 and on",
    ]


def test_a_wrong_backend_is_caught_and_shrunk_to_the_op_that_is_wrong():
    seed = seed_with("nn.relu")
    status, text = fuzz(
        *("--imports", "wrong_backend", "--target", WRONG),
        *("--seeds", f"{seed}:{seed + 1}", "--placement", f"{WRONG} regions"),
    )
    assert status == 1
    assert f"seed {seed}, {WRONG} regions: wrong" in text
    assert f"--seeds {seed}:{seed + 1} --placement '{WRONG} regions'" in text
    graph = text.split("graph:")[1].split("placement:")[0]
    assert re.findall(r"= ([a-z_.]+\w+)\(", graph) == ["nn.relu"]


def test_a_crash_names_the_op_and_the_other_graphs_run():
    seed = seed_with("nn.relu", without=["tanh", "exp", "erf"])
    status, text = fuzz(
        *("--imports", "fault_backend", "--target", HARMFUL, "--jobs", "1"),
        *("--seeds", f"{seed}:{seed + 4}", "--placement", f"{HARMFUL} op"),
    )
    assert status == 1
    assert f"seed {seed}, {HARMFUL} op: crash\nkilled by SIGSEGV" in text
    assert "'graphs': 4" in text and text.rstrip().endswith(f"go on with --seeds {seed + 4}:")
    graph = text.split(f"seed {seed},")[1].split("graph:")[1].split("\n== ")[0]
    assert re.findall(r"= ([a-z_.]+\w+)\(", graph) == ["nn.relu"]


def test_the_same_seed_gives_the_same_graph():
    for seed in range(20):
        (first, a), (second, b) = grown(seed), grown(seed)
        assert first == second
        assert tvm.ir.structural_equal(a.module(), b.module())
        for name, array in a.inputs().items():
            np.testing.assert_array_equal(array, b.inputs()[name])


def test_graphs_have_every_op_of_the_backends_tables():
    missing = {*SUPPORTED_OPS, *EXPORTED_OPS, *PRODUCTS, *OF_XNNPACK} - set(_NOT_MADE)
    missing -= set(ONNX_NODES)  # of an original model, which a random graph has none of
    for seed in range(2000):
        missing -= ops_of(seed)
        if not missing:
            break
    assert not missing


def test_a_bound_is_kept_and_what_is_not_asked_may_be_anything():
    wanted = exact(np.array([1.0, np.nan, np.inf, 2.0], "float32"))
    wanted = Value(wanted.value, np.array([1e-6, 0, 0, np.inf]), "float32")
    right = np.array([1 + 5e-7, np.nan, np.inf, -7.0], "float32")
    assert worst(right, wanted) == (0.0, "")
    for at, wrong in ((0, 1 + 2e-6), (0, np.nan), (1, 0.0), (1, np.inf), (2, -np.inf), (2, 3e38)):
        changed = right.copy()
        changed[at] = wrong
        assert worst(changed, wanted)[0] > 1, (at, wrong)
    either = Value(np.array([np.nan]), np.array([NOT_FINITE]), "float32")
    assert worst(np.array([np.inf], "float32"), either)[0] == 0
    assert worst(np.array([3.0], "float32"), either)[0] > 1
    assert worst(np.array([1.0], "float64"), either)[0] > 1


def test_integers_are_exact():
    wanted = exact(np.array([3, -128], "int8"))
    assert worst(np.array([3, -128], "int8"), wanted) == (0.0, "")
    assert worst(np.array([3, -127], "int8"), wanted)[0] > 1


def test_rounding_is_counted_in_units_of_the_type():
    x = exact(np.array([3.0, 0.0, 1e-42], "float32"))
    once = rounded(x.value, x.error, "float32", [x])
    assert once.error[0] == pytest.approx(3 * 2.0**-24)
    assert once.error[1] == 0 and once.error[2] >= 1e-42
    with np.errstate(over="ignore"):
        large = rounded(np.array([4e38]), np.zeros(1), "float32", [x.mapped(lambda v: v[:1])])
    assert large.error[0] == np.inf
