# SPDX-License-Identifier: Apache-2.0
"""The guard where what the outputs are to be is known from the model's original file."""

import dataclasses

import numpy as np
import pytest
from guard_fakes import ORDER, FakeLibrary, fake, plans
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.errors import OriginalError
from tvm.relay.collage.measure.race.comparison import ORIGINAL, Comparison
from tvm.relay.collage.plans.graph_search import EndToEnd, GuardUnavailable, guard
from tvm.relay.collage.plans.graph_search.libraries import Inputs, Truth


def truth():
    arrays = {"x": np.ones((2, 4), "float32"), "i": np.ones(3, "int32")}
    return Truth(Inputs(arrays, 0, True), [np.full(5, 7.0)])


def test_plans_run_on_the_inputs_of_the_truth_and_are_compared_with_it(fake_compare):
    asked = []
    how = EndToEnd(fake, truth=truth(), exact=lambda inputs: asked.append(inputs))
    fake_compare["truth"] = ORIGINAL
    result = guard(plans(), "tvm", how)
    assert fake_compare["right"] == [[7.0] * 5]
    np.testing.assert_array_equal(fake_compare["inputs"]["x"], truth().inputs.arrays["x"])
    assert (result.reference, result.unverified) == (ORIGINAL, "")
    exact = fake_compare["exact"]
    assert exact() is None and exact() is None and len(asked) == 1, "it is computed once"
    assert asked[0].rows()[0].keys() == {"x", "i"}


def test_plans_may_be_off_the_truth_by_as_much_as_rounding_takes_the_import(fake_compare):
    fake_compare["truth"] = ORIGINAL
    guard(plans(), "tvm", EndToEnd(fake, truth=truth()))
    assert set(fake_compare["tolerance"].values()) == {1e-4}
    guard(plans(), "tvm", EndToEnd(fake, truth=truth()._replace(tolerance=0.03)))
    assert set(fake_compare["tolerance"].values()) == {0.03}


def test_an_import_that_was_not_compared_judges_nobody(fake_compare):
    """Its 64 bits are as wrong as it is, and so is TVM, which is not measured here."""
    built = []

    def build(module):
        built.append(module)
        if len(built) == 1:
            raise RuntimeError("no time")
        return FakeLibrary()

    fake_compare.update(fail=["dnnl", "collage"], status="wrong_result")
    how = EndToEnd(build, truth=truth(), exact=lambda inputs: None)
    with pytest.raises(GuardUnavailable):
        guard(plans(), "tvm", how)
    assert fake_compare["exact"] is not None
    built.clear()
    unknown = dataclasses.replace(how, truth=truth()._replace(is_of_import=False))
    with pytest.raises(OriginalError, match="differ from those of the original"):
        guard(plans(), "tvm", unknown)
    assert fake_compare["exact"] is None


def test_where_all_plans_differ_from_the_original_nothing_ships(fake_compare):
    fake_compare.update(fail=ORDER, status="wrong_result")
    with pytest.raises(
        OriginalError, match="differ from those of the original: .*tvm, dnnl, collage: wrong_res"
    ):
        guard(plans(), "tvm", EndToEnd(fake, truth=truth()))
    with pytest.raises(GuardUnavailable):
        guard(plans(), "tvm", EndToEnd(fake))


@pytest.mark.parametrize("status", ["run_failed", "crashed", "timeout"])
def test_where_the_original_runs_and_no_plan_does_nothing_ships(fake_compare, status):
    """Inputs that were made up may be at fault only where the original fails on them too; a plan
    that takes too long may be right elsewhere."""
    fake_compare.update(fail=ORDER, status=status)
    is_plain = status == "timeout"
    kind, why = (GuardUnavailable, "tvm") if is_plain else (OriginalError, "runs on these inputs")
    with pytest.raises(kind, match=why):
        guard(plans(), "tvm", EndToEnd(fake, truth=truth()))
    with pytest.raises(GuardUnavailable):
        guard(plans(), "tvm", EndToEnd(fake))


def test_where_the_truth_is_known_tvm_alone_may_be_far_behind(fake_compare):
    """It is neither built nor raced, and says nothing of the others' outputs."""
    fake_compare["truth"] = ORIGINAL
    behind = {"tvm": Comparison("tvm", Cost.estimated(9.0, "by a profile"))}
    result = guard(plans(), "tvm", EndToEnd(fake, truth=truth(), far_behind=behind))
    assert sorted(fake_compare["names"]) == ["collage", "dnnl"]
    assert result.of("tvm") == behind["tvm"] and result.winner != "tvm"
    assert (result.reference, result.unverified) == (ORIGINAL, "")
