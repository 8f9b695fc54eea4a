# SPDX-License-Identifier: Apache-2.0
"""A fast backend with wrong results never wins, and the report names it; real workers."""

import json

import pytest
import tvm
from identity_backends import RIGHT, SUSPECT, WRONG
from relay_text import is_external
from sessions import shared_session
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions
from tvm.target import Target


@pytest.fixture(scope="module", autouse=True)
def session():
    options = CollageOptions(measure_seconds=0.01, workers=1, progress="quiet")
    with shared_session(options, [Target(n) for n in (RIGHT, WRONG, SUSPECT)]) as session:
        yield session


def identity():
    x = relay.var("x", shape=(64, 512))
    return tvm.IRModule.from_expr(relay.Function([x], relay.tan(relay.atan(x))))


def compilers(mod):
    return {str(f.attrs["Compiler"]) for f in mod.functions.values() if is_external(f)}


def optimize(*targets, **options):
    """(names of the backends that ship, the failures in the report by backend)."""
    result = collage.optimize(
        identity(), None, ["llvm", *targets], CollageOptions(guard=False, **options)
    )
    report = json.loads(json.dumps(result.to_json()))
    failures = [row for function in report["functions"] for row in function["failures"]]
    return compilers(result.mod), {row["backend"]: row for row in failures}


def test_the_fast_and_right_one_wins_and_the_fast_and_wrong_one_is_named():
    ships, failures = optimize(RIGHT, WRONG)
    assert ships == {RIGHT}
    assert set(failures) == {WRONG}
    assert failures[WRONG]["status"] == "wrong_result"
    message = failures[WRONG]["message"]
    assert "output 0 at [" in message and "TVM's is" in message and "off by 0.01" in message


def test_beside_tvm_alone_it_does_not_ship_either():
    ships, failures = optimize(WRONG)
    assert ships == set() and failures[WRONG]["status"] == "wrong_result"


def test_only_unverified_would_it_win_and_one_that_can_be_wrong_not_even_then():
    ships, failures = optimize(WRONG, verify="none")
    assert ships == {WRONG} and failures == {}, "so it is the check that keeps it out"
    ships, failures = optimize(SUSPECT, verify="none")
    assert ships == set() and failures[SUSPECT]["status"] == "wrong_result"


def test_a_cost_that_was_not_verified_does_not_serve_where_it_must_be(session):
    optimize(WRONG, verify="none")
    misses = session.estimator.misses
    _, failures = optimize(WRONG, verify="all")
    assert failures[WRONG]["status"] == "wrong_result"
    assert session.estimator.misses > misses, "TVM's own candidates are verified anew by verify=all"


def test_through_relay_build():
    config = CollageOptions(enable_collage=True, guard=False).to_config()
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = relay.build(identity(), target=[Target("llvm"), Target(WRONG)])
    nodes = json.loads(library.get_graph_json())["nodes"]
    kernels = [node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"]
    assert kernels and all(name.startswith("tvmgen_default_fused") for name in kernels)
