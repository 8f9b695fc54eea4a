# SPDX-License-Identifier: Apache-2.0
"""Real candidates that hang or crash as they run: each is named with its reason; `optimize`,
guard included, ends well and ships what gives the right outputs."""

import fault_backend
import pytest
import tvm
from relay_text import assert_same_outputs, parse
from tvm.relay.collage import CollageOptions, CostEstimator, backends, optimize
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.store import CostStore

TARGETS = ["llvm", fault_backend.NAME]
NET = "def @main(%x: $T) { nn.relu(exp(%x)) }"


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return CollageOptions(
        store=str(tmp_path_factory.mktemp("store") / "costs.sqlite"),
        measure_seconds=0.01,
        measure_timeout=8.0,
        workers=2,
        progress="quiet",
        guard_rounds=2,
    )


EXPECTED = {
    "nn.relu": ("crashed", "run: killed by SIGSEGV"),
    "tanh": ("timeout", "run: no answer within its time limit"),
    "erf": ("compile_failed", "the compiler of this backend knows no erf"),
    "exp": ("measured", ""),
}


def test_each_is_named_with_its_reason_and_kept(options):
    nets = [parse(f"def @main(%x: $T) {{ {op}(%x) }}") for op in EXPECTED]
    parts = [backends.greedy_partition(net, fault_backend.NAME) for net in nets]
    target = tvm.target.Target(fault_backend.NAME, host="llvm")
    with open_session(options.session, [target]) as session:
        costs = CostEstimator(session).estimate_batch(parts, [target] * len(parts), list(EXPECTED))
    for cost, (expected, message) in zip(costs, EXPECTED.values(), strict=True):
        assert cost.status == expected and message in cost.message
    with CostStore(options.store) as store:
        kept = {row.label: row.cost.status for row in store.rows()}
    assert kept == {op: status for op, (status, _) in EXPECTED.items()}


def test_a_build_ends_well_names_them_and_ships_what_is_right(options):
    with tvm.transform.PassContext(opt_level=3):
        result = optimize(parse(NET), targets=TARGETS, options=options)
    [report] = result.partitioned
    assert report.failed
    for part in report.failed:
        status, message = EXPECTED[part.ops]
        assert part.backend == fault_backend.NAME and part.cost.status == status
        assert message in part.cost.message
    whole = result.guard.of(fault_backend.NAME).cost
    assert whole.status == "crashed" and "killed by SIGSEGV" in whole.message
    assert_same_outputs(parse(NET), result.mod)
